import type { AccountRef } from "./account-ref.ts";
import type { LateBan, LateUsage } from "./quota-store.ts";

/**
 * The count of the window of a counter that starts at `startMs`. `endMs` is its end; undefined if it
 * ends where the windows of an account without a calendar do.
 */
export type WindowTotal = {
  readonly counter: string;
  readonly startMs: number;
  readonly endMs?: number | undefined;
  readonly used: number;
};

/**
 * A window, by the name that `X-RateLimit-Window` has, counts `used`, although it is the window that
 * counted `was` before, at `countedMs` of the store's clock.
 */
export type LostCount = {
  readonly counter: string;
  readonly window: string;
  readonly used: number;
  readonly was: number;
  readonly countedMs: number;
};

/** Called about counts and bans that change after their requests were answered. */
export type CountCorrections = {
  /** Called with a ban that a late decision made and that no request was told. */
  readonly onBanned: (ban: LateBan) => void;
  /** Called with windows that had refused requests and then had units taken back. */
  readonly onLowered: (
    accountRef: AccountRef,
    totals: readonly WindowTotal[],
    nowMs: number,
  ) => void;
  /** Called when a window's count has risen by units that stay and that no event has reported. */
  readonly onCounted: (usage: LateUsage) => void;
  /** Called with a count that the store had lost when late charges were added to it. */
  readonly onCountLost: (accountRef: AccountRef, lost: LostCount) => void;
  /** Called with units that stay on a closed day, although their requests were not admitted. */
  readonly onDayClosed: (accountRef: AccountRef, units: number) => void;
  /** Called with what requests used of a meter, beyond their holds or less, and no count has. */
  readonly onSettlementLost: OnSettlementLost;
};

/** Called with units of a meter that will never be counted. */
export type OnSettlementLost = (accountRef: AccountRef, lost: LostSettlement) => void;

/** Units of a meter on a day that are told and will not be counted. `ids` are those of requests. */
export type LostSettlement = {
  readonly day: number;
  readonly meter: string;
  readonly units: number;
  readonly ids: readonly string[];
};
