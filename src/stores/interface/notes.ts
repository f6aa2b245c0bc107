import type {
  DeprecatedCall,
  DeprecatedOperation,
} from "../../telemetry/history/deprecated-calls.ts";

/** Requests of an account that were refused on a day of UTC, counted since 1970. */
export type RefusalCount = {
  readonly name: { readonly environment: string; readonly account: string };
  readonly day: number;
  readonly requests: number;
};

/** The id of a key, and a day on which it was used. */
export type KeyUse = { readonly key: string; readonly day: number };

/**
 * The things that gateways notice and tell the store now and then, in a few calls for many
 * (docs/reference/history.md#notes). None of it decides anything.
 */
export interface ActivityStore {
  /** Adds to the history of the accounts. Gives those that were not added, for another time. */
  addRefused(refused: readonly RefusalCount[]): Promise<readonly RefusalCount[]>;
  /** Remembers the last day of each key. Rejects when the store is away; telling it again does no harm. */
  addUsed(used: readonly KeyUse[]): Promise<void>;
  /**
   * Adds calls of deprecated operations. Gives the sums of these accounts, of all gateways, in order.
   * Rejects when the store is away: nothing was added.
   */
  addCalls(calls: readonly DeprecatedCall[]): Promise<readonly DeprecatedCall[]>;
  /** The last day on which each of the keys was used; those that never were are left out. */
  lastUsed(keys: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Up to 10,000 accounts that called each of the operations. Rejects when the store is away. */
  calls(operations: readonly DeprecatedOperation[]): Promise<readonly DeprecatedCall[]>;
}
