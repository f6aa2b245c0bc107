import type {
  BanReport,
  CountReport,
  ResetReport,
  UsageReport,
} from "../../core/keys/usage-reports.ts";
import type { BanReasons } from "../../stores/queries/ban-reasons.ts";
import type { AccountSelector } from "../../stores/queries/find-account.ts";
import type { DayReport, Period } from "../../stores/queries/read-history.ts";
import type { UsageFilter } from "../../stores/queries/read-usage.ts";

/**
 * The result of a query about accounts: a value, or an error in words with exit status 1 (64 for
 * `usage`). `missing` names the parts of the store, or the accounts without limits, that the value lacks;
 * the exit status is 1 then too.
 */
export type OperationResult<T> =
  | { readonly ok: true; readonly value: T; readonly missing?: readonly string[] }
  | { readonly ok: false; readonly message: string; readonly usage?: true };

export function given<T>(value: T): OperationResult<T> {
  return { ok: true, value };
}

export function refused(message: string): Extract<OperationResult<never>, { ok: false }> {
  return { ok: false, message };
}

/** Usage by day of one account (its ID, or that of one of its keys), or of all that match. */
export type HistoryQuery = {
  readonly id?: string | undefined;
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly period: Period;
};

export type WantedBan = { readonly lengthMs: number; readonly reason: string | undefined };

export type LiftedBan = { readonly account: string; readonly environment: string };

/**
 * Queries about accounts, wherever their counts are kept. `id` is an account or one of its keys.
 */
export type AccountOperations = {
  bans(): Promise<OperationResult<readonly BanReport[]>>;
  ban(id: string, wanted: WantedBan): Promise<OperationResult<BanReport>>;
  banReasons(id: string): Promise<OperationResult<BanReasons>>;
  liftBan(id: string): Promise<OperationResult<LiftedBan>>;
  /** `windows` have the names of the command line; undefined for all current windows. */
  reset(
    selector: AccountSelector,
    windows: readonly string[] | undefined,
  ): Promise<OperationResult<ResetReport>>;
  /** All accounts that match; those nearest to a limit come first. */
  usageOfAll(filter: UsageFilter): Promise<OperationResult<readonly UsageReport[]>>;
  usage(selector: AccountSelector): Promise<OperationResult<UsageReport>>;
  /** The counts of all accounts, and of one that may have no record, for an audit. */
  counts(): Promise<OperationResult<readonly CountReport[]>>;
  countsOf(selector: AccountSelector): Promise<OperationResult<CountReport>>;
  /** The names of the gateways that share the store, each with all its workers. */
  gatewayNames(): Promise<OperationResult<readonly string[]>>;
  /** The usage by day, passed on in pieces as it is read. */
  history(
    query: HistoryQuery,
    tell: (rows: readonly DayReport[]) => void,
  ): Promise<OperationResult<undefined>>;
};
