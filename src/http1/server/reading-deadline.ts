import type { IncomingRequest } from "./incoming-request.ts";
import { READING, type Reading } from "./reading.ts";
import type { ServerLimits } from "./server-limits.ts";

/**
 * How long a connection has been in its state, and its request under way. Time advances only with
 * `isOver`, so a limit may take effect late by the time between two ticks, and never early.
 */
export class ReadingDeadline {
  readonly #limits: () => ServerLimits;
  /** When the first tick saw the current state; -1 before. */
  #sinceMs = -1;
  /** When the first tick saw the current request, later by the time in which it was held. */
  #begunMs = -1;
  #tickedMs = -1;
  /** While lingering: whether bytes came since the last tick, and when the last ones were seen. */
  #hasDiscarded = false;
  #quietSinceMs = -1;

  constructor(limits: () => ServerLimits) {
    this.#limits = limits;
  }

  /** The connection enters a state. */
  restart(): void {
    this.#sinceMs = -1;
  }

  /** The next bytes are of another request. */
  restartRequest(): void {
    this.#begunMs = -1;
  }

  /** While lingering: bytes came, and were discarded. */
  discarded(): void {
    this.#hasDiscarded = true;
  }

  /** Whether the state has lasted longer than its limit. `request` is the one under way. */
  isOver(reading: Reading, request: IncomingRequest | undefined, nowMs: number): boolean {
    const { limit } = reading;
    const passedMs = nowMs - this.#tickedMs;
    this.#tickedMs = nowMs;
    if (limit === undefined) return false;
    if (this.#sinceMs === -1) this.#sinceMs = nowMs;
    if (reading === READING.head || reading === READING.body) {
      if (this.#begunMs === -1) this.#begunMs = nowMs;
      else if (request?.isHeld) this.#begunMs += passedMs;
    }
    const sinceMs = limit === "requestTimeoutMs" ? this.#begunMs : this.#sinceMs;
    const own = limit === "requestTimeoutMs" ? request?.limits : undefined;
    return nowMs - sinceMs >= (own?.requestTimeoutMs ?? this.#limits()[limit]);
  }

  /**
   * While lingering: whether nothing has arrived for so long that the response has been received, or
   * never will be.
   */
  isQuiet(nowMs: number): boolean {
    if (this.#hasDiscarded || this.#quietSinceMs === -1) this.#quietSinceMs = nowMs;
    this.#hasDiscarded = false;
    return nowMs - this.#quietSinceMs >= this.#limits().lingerIdleMs;
  }
}
