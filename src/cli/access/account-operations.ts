import type { BanReport, CountReport, ResetReport, UsageReport } from "../../core/keys/reports.ts";
import type { BanReasons } from "../../stores/queries/ban-reasons.ts";
import type { AccountSelector } from "../../stores/queries/find-account.ts";
import type { DayReport, Period } from "../../stores/queries/read-history.ts";
import type { UsageFilter } from "../../stores/queries/read-usage.ts";

/**
 * A question about accounts: an answer, or why there is none, in words: exit 1, or 64 of `usage`.
 * `missing` names the parts of the store that the answer lacks: exit 1 too.
 */
export type OperationResult<T> =
  | { readonly ok: true; readonly value: T; readonly missing?: readonly string[] }
  | { readonly ok: false; readonly message: string; readonly usage?: true };

/** Usage by day of one account, an account or one of its keys, or of all that fit. */
export type HistoryQuery = {
  readonly id?: string | undefined;
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly period: Period;
};

export type WantedBan = { readonly lengthMs: number; readonly reason: string | undefined };

export type LiftedBan = { readonly account: string; readonly environment: string };

/** Questions about accounts, wherever their counts are. `id` is an account or one of its keys. */
export type AccountOperations = {
  bans(): Promise<OperationResult<readonly BanReport[]>>;
  ban(id: string, wanted: WantedBan): Promise<OperationResult<BanReport>>;
  banReasons(id: string): Promise<OperationResult<BanReasons>>;
  liftBan(id: string): Promise<OperationResult<LiftedBan>>;
  /** `windows` as people name them; undefined for all that run. */
  reset(
    named: AccountSelector,
    windows: readonly string[] | undefined,
  ): Promise<OperationResult<ResetReport>>;
  /** All accounts that fit, those nearest to a limit first. */
  usageOfAll(filter: UsageFilter): Promise<OperationResult<readonly UsageReport[]>>;
  usage(named: AccountSelector): Promise<OperationResult<UsageReport>>;
  /** The counts of all accounts, and of one that has no record perhaps, for an audit. */
  counts(): Promise<OperationResult<readonly CountReport[]>>;
  countsOf(named: AccountSelector): Promise<OperationResult<CountReport>>;
  /** How many gateways share the store; undefined if only a gateway could be asked. */
  gatewayCount(): Promise<OperationResult<number | undefined>>;
  /** The usage by day, told in pieces as it is read. */
  history(
    asked: HistoryQuery,
    tell: (rows: readonly DayReport[]) => void,
  ): Promise<OperationResult<undefined>>;
};
