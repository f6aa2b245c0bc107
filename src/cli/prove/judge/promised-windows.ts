import { windowRow } from "../../../core/quota/windows.ts";
import {
  isIn,
  type PromisedLimit,
  type Promises,
  type SentRequest,
  type TimeSpan,
} from "../trial/promises.ts";

/**
 * After an outage a gateway leaves room for units that others may have admitted, until they have
 * charged them. For at most this time it reports a smaller limit, or refuses by its share.
 */
export const SHARES_MS_MAX = 5_000;
/** A gateway in an outage may be behind that clock by as much as its last reply was late. */
const BEHIND_MS = 300;
/** Windows that ended this long ago are judged, so that a long proof does not keep more. */
const JUDGED_AFTER_MS = 60_000;

type Charge = { readonly sentMs: number; readonly cost: number };

export type PromisedWindow = {
  readonly account: string;
  readonly promised: PromisedLimit;
  readonly endMs: number;
  /** Units that were certainly admitted in the window. */
  admitted: number;
  refused: number;
  /** Units that may count in it: admitted, possibly in the adjacent window, or unanswered. */
  charges: Charge[];
  /** Requests that the window refused; `sentMs` is the time at which the refusal arrived. */
  refusals: Charge[];
  falseRefusals: number;
  /** How often each value of Remaining was sent with an admitted request. */
  readonly remaining: Map<number, number>;
  /** Responses that reported another limit than the one promised. */
  otherLimits: number;
};

/** The promises that the windows of a proof did not keep, in units and in responses. */
type BrokenPromises = {
  readonly overLimit: number;
  readonly falseRefusals: number;
  /** Responses with a limit or a Remaining that was not true. */
  readonly untrue: number;
};

/** The windows in which requests of a proof were decided, and whether each kept its promise. */
export class PromisedWindows {
  readonly #promised: Promises;
  readonly #aheadMs: () => TimeSpan;
  readonly #note: (text: string) => void;
  readonly #windows = new Map<string, PromisedWindow>();

  /** `aheadMs`: bounds of the store's clock minus this machine's, as far as they are known. */
  constructor(promised: Promises, aheadMs: () => TimeSpan, note: (text: string) => void) {
    this.#promised = promised;
    this.#aheadMs = aheadMs;
    this.#note = note;
  }

  get count(): number {
    return this.#windows.size;
  }

  /** Requests that the windows refused. */
  get refused(): number {
    let refused = 0;
    for (const window of this.#windows.values()) refused += window.refused;
    return refused;
  }

  /** The window of an account's limit that ends at an instant. */
  find(account: string, promised: PromisedLimit, endMs: number): PromisedWindow {
    const name = `${account} ${labelOf(promised)} ${endMs}`;
    let window = this.#windows.get(name);
    if (window === undefined) {
      window = {
        ...{ account, promised, endMs, remaining: new Map() },
        ...{ admitted: 0, refused: 0, charges: [], refusals: [], falseRefusals: 0, otherLimits: 0 },
      };
      this.#windows.set(name, window);
    }
    return window;
  }

  /** The windows of a limit in which the store may have decided the request. */
  possible({ account, sentMs, endedMs }: SentRequest, limit: PromisedLimit): PromisedWindow[] {
    const { lengthMs } = windowRow(limit.window);
    const { fromMs, toMs } = this.#aheadMs();
    const knownMs = (ms: number) => (Number.isFinite(ms) ? ms : 0);
    const first = Math.floor((sentMs - BEHIND_MS + knownMs(fromMs)) / lengthMs);
    const last = Math.floor((endedMs + knownMs(toMs)) / lengthMs);
    const found: PromisedWindow[] = [];
    for (let i = first; i <= last; i++) found.push(this.find(account, limit, (i + 1) * lengthMs));
    return found;
  }

  /** Judges the refusals in windows that no request can be in any more. */
  judgeOld(nowMs: number): void {
    this.#judgeRefusals(nowMs - JUDGED_AFTER_MS);
  }

  /** Judges all windows. `away` are the outages, in which gateways decide by shares of the limit. */
  judge(away: readonly TimeSpan[]): BrokenPromises {
    this.#judgeRefusals(Number.POSITIVE_INFINITY);
    let [overLimit, falseRefusals, untrue] = [0, 0, 0];
    for (const window of this.#windows.values()) {
      const { window: name, limit } = window.promised;
      const startMs = window.endMs - windowRow(name).lengthMs;
      const settleMs = window.otherLimits > 0 ? SHARES_MS_MAX : 0;
      const isAway = isIn(away, { fromMs: startMs - settleMs, toMs: window.endMs });
      // docs/reference/store.md#away: the limit before the outage, and a share of each gateway
      // after that.
      const most = isAway ? 2 * limit + this.#promised.gateways - 1 : limit;
      if (window.admitted > most) {
        overLimit += window.admitted - most;
        this.#note(`${whereOf(window)}: ${window.admitted} admitted, the limit is ${most}`);
      }
      falseRefusals += window.falseRefusals;
      if (!isAway) untrue += this.#untrueOf(window);
    }
    return { overLimit, falseRefusals, untrue };
  }

  /** Finds refusals of requests that fitted, in windows that ended before `beforeMs`. */
  #judgeRefusals(beforeMs: number): void {
    for (const window of this.#windows.values()) {
      if (window.endMs >= beforeMs || window.charges.length + window.refusals.length === 0)
        continue;
      const { limit } = window.promised;
      const charges = window.charges.sort((a, b) => a.sentMs - b.sentMs);
      const uncertain = this.#promised.uncertainOf(window.account);
      let [at, used] = [0, uncertain];
      for (const refusal of window.refusals.sort((a, b) => a.sentMs - b.sentMs)) {
        for (; at < charges.length && (charges[at] as Charge).sentMs <= refusal.sentMs; at++) {
          used += (charges[at] as Charge).cost;
        }
        if (used + refusal.cost > limit) continue;
        window.falseRefusals += 1;
        this.#note(`${whereOf(window)}: refused ${refusal.cost} with ${used} of ${limit} used`);
      }
      window.charges = [];
      window.refusals = [];
    }
  }

  /**
   * The responses with another limit than that of the plan, and those that told a Remaining again.
   * Each is told once, because it counts down by one.
   */
  #untrueOf(window: PromisedWindow): number {
    const { remaining, otherLimits } = window;
    let untrue = otherLimits;
    if (otherLimits > 0) {
      const answers = otherLimits === 1 ? "an answer" : `${otherLimits} answers`;
      this.#note(`${whereOf(window)}: ${answers} told another X-RateLimit-Limit`);
    }
    for (const [value, count] of remaining) {
      if (count < 2) continue;
      untrue += count - 1;
      this.#note(`${whereOf(window)}: X-RateLimit-Remaining ${value} was told ${count} times`);
    }
    return untrue;
  }
}

/** The name of a limit in X-RateLimit-Window (docs/reference/http.md#windows). */
export function labelOf({ window, operation }: PromisedLimit): string {
  return operation === undefined ? window : `${operation}.${window}`;
}

function whereOf({ account, promised, endMs }: PromisedWindow): string {
  return `${account}, ${labelOf(promised)} to ${new Date(endMs).toISOString()}`;
}
