import { BUCKET_COUNT, crc16 } from "../../redis/hash-slots.ts";
import { type AccountRef, accountId } from "../account-ref.ts";

/**
 * The bucket of an account, one of 16. It never changes (docs/decisions/one-hash-per-account.md).
 */
export function bucketOf(name: AccountRef): number {
  name.bucket ??= crc16(accountId(name)) % BUCKET_COUNT;
  return name.bucket;
}

/** The key of the hash of an account: `prefix:{bucket}:environment:account`. */
export function accountKey(prefix: string, name: AccountRef): string {
  return `${prefix}:{${bucketOf(name)}}:${accountId(name)}`;
}
