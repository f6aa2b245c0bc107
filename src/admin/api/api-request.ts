import type { Config } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import type { Diagnostics } from "../../telemetry/history/diagnostics.ts";
import type { RecentEvents } from "../../telemetry/history/recent-events.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { EventStream } from "../http/event-stream.ts";

/**
 * The parts that the API works on; the process supplies them. `now` is the wall clock, in Unix
 * milliseconds.
 */
export type ApiDeps = {
  /** The configuration in force. */
  readonly config: () => Config;
  readonly keys: KeyStore;
  readonly quotas: QuotaStore;
  readonly reload: () => Promise<ReloadResult>;
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly now: () => number;
  /** Has every other process of this gateway read the key records now. Never rejects. */
  readonly spreadKeys: () => Promise<void>;
  /** The refusals and bans that the gateway remembers. */
  readonly recall: Diagnostics;
  /** The live figures for those who watch. */
  readonly events: Pick<EventStream, "open">;
  /** The version of the gateway. */
  readonly version: string;
  /** The last events of the gateway. */
  readonly recent: Pick<RecentEvents, "since" | "last">;
};

/** One request to a row: `id` is "" where the row has none, `members` {} where there is no body. */
export type ApiRequest = {
  readonly deps: ApiDeps;
  readonly id: string;
  readonly members: Readonly<Record<string, unknown>>;
  /** Empty where the row takes none. */
  readonly query: URLSearchParams;
};
