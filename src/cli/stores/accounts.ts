import type { BanReport, ResetReport, UsageReport } from "../../core/keys/report.ts";
import type { Named } from "../../stores/interface/named-account.ts";
import type { DayReport, Period } from "../../stores/interface/read-history.ts";
import type { UsageFilter } from "../../stores/interface/read-usage.ts";

/** A question about accounts: an answer, or why there is none, in words: exit 1, or 64 of `usage`. */
export type AccountAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string; readonly usage?: true };

/** Usage by day of one account, an account or one of its keys, or of all that fit. */
export type AskedHistory = {
  readonly id?: string | undefined;
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly period: Period;
};

export type Lifted = { readonly account: string; readonly environment: string };

/** Questions about accounts, wherever their counts are. `id` is an account or one of its keys. */
export type Accounts = {
  bans(): Promise<AccountAnswer<readonly BanReport[]>>;
  ban(id: string, lengthMs: number): Promise<AccountAnswer<BanReport>>;
  liftBan(id: string): Promise<AccountAnswer<Lifted>>;
  /** `windows` as people name them; undefined for all that run. */
  reset(named: Named, windows: readonly string[] | undefined): Promise<AccountAnswer<ResetReport>>;
  /** All accounts that fit, those nearest to a limit first. */
  usageOfAll(filter: UsageFilter): Promise<AccountAnswer<readonly UsageReport[]>>;
  usage(named: Named): Promise<AccountAnswer<UsageReport>>;
  /** The usage by day, told in pieces as it is read. */
  history(
    asked: AskedHistory,
    tell: (rows: readonly DayReport[]) => void,
  ): Promise<AccountAnswer<undefined>>;
};
