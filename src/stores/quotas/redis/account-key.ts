import { BUCKET_COUNT, crc16 } from "../../redis/hash-slots.ts";
import { type AccountRef, accountId } from "../account-ref.ts";

/**
 * The bucket of an account, one of 16. It never changes (docs/decisions/one-hash-per-account.md).
 */
export function bucketOf(accountRef: AccountRef): number {
  accountRef.bucket ??= crc16(accountId(accountRef)) % BUCKET_COUNT;
  return accountRef.bucket;
}

/** The key of the hash of an account: `prefix:{bucket}:environment:account`. */
export function accountKey(prefix: string, accountRef: AccountRef): string {
  return `${prefix}:{${bucketOf(accountRef)}}:${accountId(accountRef)}`;
}
