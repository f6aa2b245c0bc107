import type { BanReport, UsageReport } from "../../core/keys/report.ts";

/** A question about accounts: an answer, or why there is none, in words; all of those exit 1. */
export type AccountAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

export type Lifted = { readonly account: string; readonly environment: string };

/** Questions about accounts, wherever their counts are. `id` is an account or one of its keys. */
export type Accounts = {
  bans(): Promise<AccountAnswer<readonly BanReport[]>>;
  liftBan(id: string): Promise<AccountAnswer<Lifted>>;
  usage(id: string): Promise<AccountAnswer<UsageReport>>;
};
