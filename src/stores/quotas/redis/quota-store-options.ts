import type { ConnectionOptions } from "node:tls";
import type { RedisAddress } from "../../../config/schema/addresses.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import type { AdminEvent } from "../admin-changes.ts";
import type { DecisionCache } from "../batch/decision-cache.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { CountCorrections } from "../count-corrections.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type { LateBan, StoreCallbacks } from "../quota-store.ts";
import type { QuotaClient } from "./quota-client.ts";

/** The parts of the store that an outage handler needs: the calls to it, and its last answers. */
export type FallbackInputs = {
  readonly quotaClient: QuotaClient;
  readonly decisionCache: DecisionCache;
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
  readonly corrections: CountCorrections;
};

/** The calls of a store that gateways share to its opener. */
export type SharedStoreCallbacks = StoreCallbacks & {
  /** Called when a call that decides requests has ended, with or without an answer. */
  readonly onCall?: ((tookMs: number) => void) | undefined;
  /** Called with a ban of the store that no request was told, because its decision came late. */
  readonly onLateBan?: ((ban: LateBan) => void) | undefined;
  /**
   * Called with the resets and bans that commands made in the store. Each is passed to one gateway
   * only.
   */
  readonly onAdminEvent?: ((event: AdminEvent) => void) | undefined;
  /**
   * Whether its opener logs the changes that it makes itself, as `onAdminEvent` implies. A command
   * leaves its own changes to the gateways.
   */
  readonly logsOwnChanges?: boolean | undefined;
  /**
   * Called with each reset and ban of its opener. Other processes of the same gateway get it by
   * `hearChange`, because the part of the store that carries messages may be unreachable.
   */
  readonly onOwnChange?: ((event: AdminEvent) => void) | undefined;
};

export type RedisQuotaStoreOptions = SharedStoreCallbacks & {
  readonly address: RedisAddress;
  /** `storePrefix`: every key that Tollgate writes starts with it. */
  readonly prefix: string;
  readonly report: Reporter;
  /**
   * Creates the handler that decides while the store is unreachable (docs/reference/store.md#away).
   * By default no request is decided then, as under `onStoreFailure: deny`.
   */
  readonly outage?: (inputs: FallbackInputs) => OutageHandler;
  /** The store's clock in tests, in milliseconds; default: the clock of Redis. */
  readonly now?: () => number;
  /** How long the usage of each account is kept by day; by default it is not kept. */
  readonly historyMs?: number | undefined;
  /** Without `outage`: how long a call may take before it counts as lost; default 50 ms. */
  readonly timeoutMs?: number | undefined;
  /** For `rediss://`: additions to the certificates that Node trusts by default. */
  readonly tls?: ConnectionOptions;
};
