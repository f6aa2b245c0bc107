import { errorMessage } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload-result.ts";
import { planMissing } from "../../config/unserved-records.ts";
import { type EditRefusal, type EditResult, usageRefusal } from "../../core/keys/edit-rules.ts";
import type { Records } from "../../core/keys/records.ts";
import { applyKeyEdit, type KeyStore, publicReason } from "../../stores/keys/key-store.ts";
import type { ActivityStore } from "../../stores/quotas/activity-store.ts";
import type { GatewayDirectory, QuotaAdmin } from "../../stores/quotas/quota-store.ts";
import type { Diagnostics, OnUnanswered } from "../../telemetry/history/diagnostics.ts";
import type { RecentEvents } from "../../telemetry/history/recent-events.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { EventStream } from "../http/event-stream.ts";
import {
  type AdminResponse,
  type BodyResult,
  problemResponse,
  RETRY_AFTER_1,
} from "../http/response.ts";
import type { KeptList, RankedUsage } from "./kept-list.ts";

/**
 * The parts of the gateway that the API works on. The process supplies them. `now` is the
 * store's clock, in Unix milliseconds.
 */
export type ApiDeps = {
  /** The configuration in force. */
  readonly config: () => Config;
  readonly keys: KeyStore;
  readonly quotas: QuotaAdmin & {
    readonly activity: ActivityStore;
    readonly gateways: Pick<GatewayDirectory, "list">;
  };
  readonly reload: () => Promise<ReloadResult>;
  /** All that the last reload was refused for; empty if it was not. */
  readonly notReloaded: () => readonly string[];
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly now: () => number;
  /** Makes every other process of this gateway read the key records now. Never rejects. */
  readonly spreadKeys: (onUnanswered: OnUnanswered) => Promise<void>;
  /** The refusals and bans that the gateway remembers. */
  readonly diagnostics: Diagnostics;
  /** The stream of live figures. */
  readonly events: Pick<EventStream, "open">;
  /** The figures of the last 15 minutes, the oldest first. */
  readonly readings: () => readonly object[];
  /** The usage that was listed last, for the pages that follow. */
  readonly usageList: KeptList<RankedUsage>;
  /** The name of this gateway among those that share its store. */
  readonly name: string;
  /** The version of the gateway. */
  readonly version: string;
  /** The last events of the gateway. */
  readonly recent: Pick<RecentEvents, "since" | "last" | "bansOf" | "onAdd">;
};

/** One request to a route, as its contract allows. `id` is "" and `body` is {} if there is none. */
export type ApiRequest = {
  readonly deps: ApiDeps;
  readonly id: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** Empty if the route takes no query. */
  readonly query: URLSearchParams;
  /** Called for each worker that the answer is without: the response names it. */
  readonly onUnanswered: OnUnanswered;
};

/**
 * The response while there is no copy of the records yet, because that there are none is not known;
 * undefined if there is one.
 */
export function recordsUnknown({ keys }: Pick<ApiDeps, "keys">): AdminResponse | undefined {
  if (keys.ready) return undefined;
  const message = "The key records are not known yet: the store is unreachable";
  return problemResponse("store_unavailable", message, RETRY_AFTER_1);
}

/**
 * Applies a pure edit to the store. Every process of this gateway reads the change before the
 * response is sent, or is named by it and reads the change within a second. If the edit is refused,
 * nothing changes.
 */
export async function applyEdit<T>(
  { deps, onUnanswered }: Pick<ApiRequest, "deps" | "onUnanswered">,
  edit: (records: Records) => EditResult<T>,
): Promise<BodyResult<{ readonly records: Records } & T>> {
  let result: EditResult<T>;
  try {
    result = await applyKeyEdit(deps.keys, (records) => {
      const edited = edit(records);
      if (!edited.ok) return edited;
      // A reload may have taken a plan away since the edit was made.
      const why = planMissing(deps.config(), records, edited.records);
      return why === undefined ? edited : usageRefusal(why);
    });
    if (result.ok) await deps.spreadKeys(onUnanswered);
  } catch (error) {
    deps.log.error("keys_unchanged", { why: errorMessage(error) });
    const message = publicReason(error) ?? "The key records could not be changed: the log says why";
    return { ok: false, response: problemResponse("store_unavailable", message, RETRY_AFTER_1) };
  }
  return result.ok
    ? { ok: true, value: result }
    : { ok: false, response: refusalResponse(result, deps) };
}

/**
 * The response to an ID that no record has. `environment` is the one that has it, if the request asked
 * for another one. Otherwise the record may be among those that are gone, which are told then.
 */
export function unknownIdResponse(
  { keys }: Pick<ApiDeps, "keys">,
  environment?: string,
): AdminResponse {
  if (environment !== undefined) {
    const message = `The key or account with this ID is in ${environment}`;
    return problemResponse("unknown_id", message, { more: { environment } });
  }
  const { lost } = keys.health();
  const known = "No key or account has this ID";
  return problemResponse("unknown_id", lost === undefined ? known : `${known}. ${lost}`);
}

const CODES = { usage: "bad_request", refused: "conflict" } as const;

/** The response does not repeat an unknown ID, because the caller may have sent a key. */
export function refusalResponse(
  { reason, message }: EditRefusal,
  deps: Pick<ApiDeps, "keys">,
): AdminResponse {
  return reason === "unknown" ? unknownIdResponse(deps) : problemResponse(CODES[reason], message);
}
