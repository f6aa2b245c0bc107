import type {
  DeprecatedCall,
  DeprecatedOperation,
} from "../../telemetry/history/deprecated-calls.ts";
import type { AccountRef } from "./account-ref.ts";

/** Requests of an account that were refused on a day of UTC, counted since 1970. */
export type RefusalCount = {
  readonly accountRef: AccountRef;
  readonly day: number;
  readonly requests: number;
};

/** The id of a key, and a day on which it was used. */
export type KeyUse = { readonly key: string; readonly day: number };

/**
 * `sums` are those of the accounts whose calls were added, over all gateways, in order. `left` were
 * not added, for a later call. What may have been added without an answer is in neither, because
 * adding it again could count it twice.
 */
export type AddedCalls = {
  readonly sums: readonly DeprecatedCall[];
  readonly left: readonly DeprecatedCall[];
};

/**
 * Notes that gateways send to the store now and then, many in a few calls
 * (docs/reference/history.md#notes). No decision depends on them.
 */
export interface ActivityStore {
  /** Adds to the history of the accounts. Returns those that were not added, for a later call. */
  addRefused(refused: readonly RefusalCount[]): Promise<readonly RefusalCount[]>;
  /** Remembers the last day of each key, once more too. Rejects if the store is unreachable. */
  addUsed(used: readonly KeyUse[]): Promise<void>;
  /**
   * Adds calls of deprecated operations, about a thousand by one command, which has all neighbours of
   * one account. 0 requests add nothing and ask for the sum, which is 0 for an account that never
   * called.
   */
  addCalls(calls: readonly DeprecatedCall[]): Promise<AddedCalls>;
  /** The last day on which each of the keys was used. Keys that never were are left out. */
  lastUsed(keys: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /**
   * Up to 10,000 accounts that called each of the operations. Rejects if the store is unreachable.
   */
  calls(operations: readonly DeprecatedOperation[]): Promise<readonly DeprecatedCall[]>;
}
