import type { AccountRecord, KeyRecord } from "../../core/keys/records.ts";
import type { RateLimitInfo } from "../../core/quota/rate-limit-info.ts";
import type { AccessLogEntry } from "../../telemetry/log/log.ts";

/** The caller that an accepted key, or an address without one, makes. */
export type CallerIdentity = {
  readonly key: KeyRecord | undefined;
  readonly owner: Pick<AccountRecord, "meta"> | undefined;
  readonly account: string;
  readonly plan: string;
};

/** The store's answer. `decidedMs` is its now: Retry-After counts from it. */
export type DecisionFacts = {
  readonly decision: "admitted" | "refused";
  readonly charged: number;
  readonly standing: RateLimitInfo;
  readonly decidedMs: number;
  readonly strikes: number;
  /** Windows whose observed limits an admitted request crossed. */
  readonly observed?: AccessLogEntry["observed"];
  readonly refusal?: RefusalFacts;
};

/** The state that a refusal was decided by: enough to decide it again. */
export type RefusalFacts = Pick<AccessLogEntry, "windows" | "by" | "ban">;
