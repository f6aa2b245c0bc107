import { ID_PATTERN, isAddressName, parseAddressName } from "../../core/keys/records.ts";
import { BUCKET_COUNT, crc16 } from "../redis/hash-slots.ts";

/** The name of an account, which lives in one environment (docs/reference/keys.md#accounts). */
export type AccountRef = {
  readonly environment: string;
  readonly account: string;
  /** Both as one text, if the name is kept: building and hashing it costs half a microsecond. */
  readonly id?: string;
  /** Set by the store: the account's bucket, computed once if the name is kept. */
  bucket?: number | undefined;
};

/** An account as one text; no environment has a colon in its name. */
export function accountId({ environment, account, id }: AccountRef): string {
  return id ?? `${environment}:${account}`;
}

/**
 * The bucket of an account, one of 16. It never changes (docs/decisions/one-hash-per-account.md).
 */
export function bucketOf(accountRef: AccountRef): number {
  accountRef.bucket ??= crc16(accountId(accountRef)) % BUCKET_COUNT;
  return accountRef.bucket;
}

/** The account of a text that `accountId` made. */
export function parseAccountId(id: string): AccountRef {
  const colon = id.indexOf(":");
  return { environment: id.slice(0, colon), account: id.slice(colon + 1) };
}

/** Whether requests without a key are counted under it. A client address has no history. */
export function isAddressAccount({ account }: AccountRef): boolean {
  return isAddressName(account);
}

/** As `isAddressAccount`, for the text that `accountId` made. No other account has a colon in it. */
export function isAddressId(id: string): boolean {
  return id.startsWith("addr:", id.indexOf(":") + 1);
}

/** Whether a store can hold counts under this name: the id of an account, or a client address. */
export function isAccountName(text: string): boolean {
  return ID_PATTERN.test(text) || parseAddressName(text) !== undefined;
}
