import { type AccountRef, bucketOf } from "../account-ref.ts";
import type { CachedDecision, RoundTrip, ToldAt } from "./cached-decision.ts";

/** The time on the store's clock, by its last answers. */
export class AnswerTime {
  readonly #clock: (() => number) | undefined;
  readonly #clockOf: ((bucket: number) => RoundTrip["clock"]) | undefined;

  /**
   * `clock` is the store's test clock. Without it the time since an answer is measured. `clockOf` is
   * the clock of the node that has a bucket.
   */
  constructor(clock?: () => number, clockOf?: (bucket: number) => RoundTrip["clock"]) {
    this.#clock = clock;
    this.#clockOf = clockOf;
  }

  /** The store's now or a little later: its answer was made after the call was sent. */
  latestNow({ trip }: CachedDecision): number {
    return this.#clock?.() ?? trip.nowMs + measuredSince(trip, trip.sentMs);
  }

  /** Whether the store's clock was set back since, so that the ends that the answer told have moved. */
  wasSetBack({ trip }: CachedDecision): boolean {
    if (this.#clock !== undefined) return this.#clock() < trip.nowMs;
    return trip.clock?.wasSetBack(trip.nowMs, trip.receivedMs) ?? false;
  }

  /** The milliseconds since the answer arrived. */
  sinceReceived({ trip }: CachedDecision): number {
    if (this.#clock !== undefined) return this.#clock() - trip.nowMs;
    return measuredSince(trip, trip.receivedMs);
  }

  /** When the store said `nowMs`: at least `leastMs` ago. Its answer may have been late. */
  toldAt(accountRef: AccountRef, nowMs: number, leastMs = 0): ToldAt {
    const clock = this.#clockOf?.(bucketOf(accountRef));
    const atMs = performance.now();
    return { nowMs, clock, ageMs: Math.max(leastMs, measuredSince({ nowMs, clock }, atMs)) };
  }
}

/**
 * The time since `thenMs`, or since the answer by the store's clock if that has certainly advanced
 * further: it was set ahead, or this machine was suspended.
 */
function measuredSince(
  { nowMs, clock }: Pick<RoundTrip, "nowMs" | "clock">,
  thenMs: number,
): number {
  const atMs = performance.now();
  return Math.max(atMs - thenMs, (clock?.latestAt(atMs) ?? nowMs) - nowMs);
}
