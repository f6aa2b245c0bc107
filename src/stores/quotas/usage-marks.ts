import type { AccountRef } from "./account-ref.ts";

/** How far the usage events of an account have been acknowledged. */
export type UsageMark = {
  /** The last day that was acknowledged, with all days before it; undefined if there is none. */
  readonly day: number | undefined;
  /** The last day that is closed by the clock of the store. */
  readonly closedDay: number;
};

/** An account whose usage events are acknowledged up to and including a day. */
export type AcknowledgedUsage = { readonly accountRef: AccountRef; readonly day: number };

/** Marks how far the receiver of usage events has acknowledged them (docs/reference/events.md#usage-events). */
export interface UsageMarks {
  /**
   * The marks of the accounts, in their order. Undefined for an account in a part of the store that
   * cannot be reached. Rejects if no part can be reached.
   */
  read(accountRefs: readonly AccountRef[]): Promise<readonly (UsageMark | undefined)[]>;

  /** Raises marks; a mark never goes back. Rejects if one of them could not be raised. */
  raise(acknowledged: readonly AcknowledgedUsage[]): Promise<void>;

  /**
   * Whether this gateway may send usage events for `lifeMs` from now on, because no other gateway
   * that shares the store does. It may claim again before that time is over. The claim spares the
   * receiver doubles and protects nothing: marks are right without it. Rejects if the store is
   * unreachable.
   */
  claim(lifeMs: number): Promise<boolean>;

  /** Gives up the claim, if this gateway has it. Never rejects. */
  release(): Promise<void>;
}
