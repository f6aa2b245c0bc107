import { type AccountRef, accountId, bucketOf } from "../account-ref.ts";

/** The key of the hash of an account: `prefix:{bucket}:environment:account`. */
export function accountKey(prefix: string, accountRef: AccountRef): string {
  return `${prefix}:{${bucketOf(accountRef)}}:${accountId(accountRef)}`;
}
