import { unreadableFailure } from "./store-failure.ts";

/** How far the two clocks may drift apart: a slewed clock runs up to 0.05 % faster or slower. */
const DRIFT_PER_MS = 0.000_5;
/** The most drift that is allowed for, even after a long time without an answer. */
const DRIFT_MS_MAX = 20;
/** A timer of Node may fire a millisecond early, and the store reports whole milliseconds. */
const ROUNDING_MS = 2;

/**
 * The clock of the store, measured against performance.now() with each answer that reports the
 * store's time. The answer was made after the call was sent and before it was received, which
 * bounds the difference from both sides. Each node of a Cluster has its own clock.
 */
export class StoreClock {
  #lowestMs = Number.NEGATIVE_INFINITY;
  #highestMs = Number.POSITIVE_INFINITY;
  #learntMs = Number.NEGATIVE_INFINITY;
  #aheadMs = Date.now() - performance.now();
  /** How far the store's clock may be ahead of `now()`, by the last answer. */
  #spreadMs = 0;

  /** Whether deadlines can be computed: not before the first answer, nor after `forget`. */
  get isKnown(): boolean {
    return this.#lowestMs !== Number.NEGATIVE_INFINITY;
  }

  /**
   * The store's time in Unix milliseconds, as far as it is known; never ahead of the store's clock.
   */
  now(): number {
    return Math.floor(performance.now() + this.#aheadMs);
  }

  /**
   * The store's time if its last answers were made as soon as their calls were sent; never behind
   * the store's clock while that is known. A store that answers late leaves the two apart.
   */
  latestNow(): number {
    if (!this.isKnown) return this.now();
    const nowMs = performance.now();
    return Math.ceil(nowMs + this.#highestMs + driftIn(nowMs - this.#learntMs));
  }

  /** How long ago the store last said its time; infinite before the first answer. */
  get ageMs(): number {
    return performance.now() - this.#learntMs;
  }

  /**
   * How far the store's clock is ahead of this machine's, in whole milliseconds, by the last answer;
   * 0 before the first one, and while the answers leave it open whether the two differ.
   */
  get aheadOfMachineMs(): number {
    if (this.#learntMs === Number.NEGATIVE_INFINITY) return 0;
    const machineMs = Date.now() - performance.now() - this.#aheadMs;
    const canBeEqual = machineMs >= -ROUNDING_MS && machineMs <= this.#spreadMs + ROUNDING_MS;
    return canBeEqual ? 0 : Math.round(-machineMs);
  }

  /**
   * Called when the store said `nowMs`, at some time from `sentMs` to `receivedMs` on
   * performance.now(). Throws if an answer that was none of Redis has no time.
   */
  learn(sentMs: number, receivedMs: number, nowMs: number): void {
    if (!Number.isFinite(nowMs)) throw unreadableFailure("no time");
    const driftMs = driftIn(receivedMs - this.#learntMs);
    const [lowestMs, highestMs] = [nowMs - receivedMs, nowMs + 1 - sentMs];
    const lowest = Math.max(lowestMs, this.#lowestMs - driftMs);
    const highest = Math.min(highestMs, this.#highestMs + driftMs);
    // One of the clocks was set, so only the new answer counts.
    const isSet = lowest > highest;
    this.#lowestMs = isSet ? lowestMs : lowest;
    this.#highestMs = isSet ? highestMs : highest;
    this.#learntMs = receivedMs;
    this.#aheadMs = this.#lowestMs;
    this.#spreadMs = this.#highestMs - this.#lowestMs;
  }

  /** Called when another server may answer from now on. */
  forget(): void {
    this.#lowestMs = Number.NEGATIVE_INFINITY;
    this.#highestMs = Number.POSITIVE_INFINITY;
  }

  /**
   * Whether the clock was certainly set back since it said `nowMs`, at `saidMs` on performance.now() or
   * before that.
   */
  wasSetBack(nowMs: number, saidMs: number): boolean {
    if (!this.isKnown) return false;
    const atMs = performance.now();
    const driftMs = (atMs - saidMs) * DRIFT_PER_MS + driftIn(atMs - this.#learntMs);
    return nowMs - saidMs > this.#highestMs + driftMs + ROUNDING_MS;
  }

  /**
   * The last instant of the store's clock that is certainly before `atMs` on performance.now();
   * undefined while the clock is not known.
   */
  latestAt(atMs: number): number | undefined {
    if (!this.isKnown) return undefined;
    const driftMs = driftIn(performance.now() - this.#learntMs);
    return Math.floor(atMs + this.#lowestMs - driftMs) - ROUNDING_MS;
  }
}

/** The Unix milliseconds of a reply to TIME. Throws if an answer that was none of Redis has no time. */
export function parseTime(reply: unknown): number {
  const [seconds, micros] = String(reply).split(",");
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  if (!Number.isFinite(nowMs)) throw unreadableFailure("no time");
  return nowMs;
}

/** How far the clocks may have drifted apart since the last answer. */
function driftIn(sinceMs: number): number {
  return Math.min(Math.max(0, sinceMs) * DRIFT_PER_MS, DRIFT_MS_MAX);
}
