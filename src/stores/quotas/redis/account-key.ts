import { type AccountRef, accountId, bucketOf } from "../account-ref.ts";

/** The key of the hash of an account: `prefix:{bucket}:environment:account`. */
export function accountKey(prefix: string, accountRef: AccountRef): string {
  return `${prefix}:{${bucketOf(accountRef)}}:${accountId(accountRef)}`;
}

/** The hash of a month whose first day is `month`: see lua/day.lua. */
export function historyKey(accountKey: string, month: number): string {
  return `${accountKey.replace(":{", ":h{")}:${month}`;
}

/** The hash of the meters of an account: see lua/account.lua. */
export function metersKey(accountKey: string): string {
  return `${accountKey.replace(":{", ":c{")}:m`;
}

/** The hash that holds how the account's last ban came about: see lua/ban-cause.lua. */
export function banCauseKey(accountKey: string): string {
  return accountKey.replace(":{", ":w{");
}
