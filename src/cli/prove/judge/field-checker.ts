import { windowRow } from "../../../core/quota/windows.ts";
import {
  isIn,
  type ObservedResponse,
  type PromisedLimit,
  type SentRequest,
  type TimeSpan,
} from "../trial/promises.ts";

/** A gateway knows the store's clock to within the time that a call may take. */
export const SLACK_MS = 120;
/** The most that the fields of a gateway in an outage may be behind, beside what the machine delays. */
const FIELDS_BEHIND_MS = 1_000;
const CLOCK_LIES_MAX = 100_000;

/**
 * Judges the rate limit fields and Retry-After of each response by itself
 * (docs/reference/http.md#rate-limit-fields), and learns the store's clock from them.
 */
export class FieldChecker {
  readonly #isClockOurs: boolean;
  readonly #note: (text: string) => void;
  /**
   * Fields that show a clock behind that of the store. Only a gateway in an outage may send them.
   */
  readonly #clockLies: (TimeSpan & { readonly text: string })[] = [];
  #untrue = 0;
  #aheadMs: TimeSpan;

  /** `isClockOurs`: the store runs on this machine. `note` is called with each finding, in words. */
  constructor(isClockOurs: boolean, note: (text: string) => void) {
    this.#isClockOurs = isClockOurs;
    this.#note = note;
    const bound = isClockOurs ? SLACK_MS : Number.POSITIVE_INFINITY;
    this.#aheadMs = { fromMs: -bound, toMs: bound };
  }

  /** Bounds of the store's clock minus this machine's. */
  get aheadMs(): TimeSpan {
    return this.#aheadMs;
  }

  /** Fields that are not true. `away` are the outages, in which a gateway's clock may be behind. */
  untrue(away: readonly TimeSpan[]): number {
    const clockLies = this.#clockLies.filter((lie) => !isIn(away, lie));
    for (const { text } of clockLies) this.#note(text);
    return this.#untrue + clockLies.length;
  }

  hasReset(sent: SentRequest, { resetSeconds }: ObservedResponse): boolean {
    const isThere = Number.isSafeInteger(resetSeconds);
    if (!isThere) this.lie(sent, "has no X-RateLimit-Reset");
    return isThere;
  }

  checkCost(sent: SentRequest, response: ObservedResponse, cost: number): void {
    if (response.cost !== cost)
      this.lie(sent, `says that it costs ${response.cost}, and not ${cost}`);
  }

  /** The window, the units that remain and the times, of an admitted request or a refusal. */
  check(
    sent: SentRequest,
    response: ObservedResponse,
    { promised, cost }: { readonly promised: PromisedLimit; readonly cost: number },
  ): void {
    const { status, remaining, resetSeconds } = response;
    const endMs = resetSeconds * 1_000;
    const { lengthMs } = windowRow(promised.window);
    if (endMs % lengthMs !== 0) {
      this.lie(sent, `resets at ${resetSeconds}, inside a ${promised.window}`);
    }
    // On a refusal, less than the cost remains. On an admitted request, the cost is subtracted
    // already.
    const most = status === 200 ? promised.limit - cost : cost - 1;
    if (!(remaining >= 0 && remaining <= most)) {
      this.lie(sent, `has ${remaining} remaining of ${promised.limit} with ${status}`);
    }
    this.#learnClock(sent, endMs, lengthMs);
    if (status === 429) this.checkRetryAfter(sent, response);
  }

  /** A window ends at its reset. A ban ends in the second before it. */
  checkRetryAfter(
    sent: SentRequest,
    { window, resetSeconds, retryAfterSeconds }: ObservedResponse,
  ): void {
    const endMs = resetSeconds * 1_000;
    const endsEarlierMs = window === "ban" ? 999 : 0;
    // The store's clock was between these two when it decided.
    const earliestMs = sent.sentMs + this.#aheadMs.fromMs;
    const latestMs = sent.endedMs + this.#aheadMs.toMs;
    const most = Math.max(1, Math.ceil((endMs - earliestMs) / 1_000));
    const least = Math.max(1, Math.ceil((endMs - endsEarlierMs - latestMs) / 1_000));
    const mostBehind = Math.ceil((endMs - earliestMs + FIELDS_BEHIND_MS) / 1_000);
    if (!(retryAfterSeconds >= least && retryAfterSeconds <= most)) {
      const text = `says Retry-After: ${retryAfterSeconds}, and ${least} to ${most} is true`;
      const isBehind = retryAfterSeconds > most && retryAfterSeconds <= mostBehind;
      this.lie(sent, text, isBehind);
    }
  }

  /** A response was sent within its window, so each one narrows the bounds of the store's clock. */
  #learnClock(sent: SentRequest, endMs: number, lengthMs: number): void {
    const fromMs = Math.max(this.#aheadMs.fromMs, endMs - lengthMs - sent.endedMs - SLACK_MS);
    const toMs = Math.min(this.#aheadMs.toMs, endMs - sent.sentMs + SLACK_MS);
    if (fromMs > toMs) {
      const text = `resets at ${endMs / 1_000}, which is not its window's end`;
      const isBehind = fromMs === this.#aheadMs.fromMs && fromMs - toMs <= FIELDS_BEHIND_MS;
      this.lie(sent, text, isBehind);
    } else if (!this.#isClockOurs) this.#aheadMs = { fromMs, toMs };
  }

  /** `isBehind`: the field shows a clock that is behind, which a gateway without its store may. */
  lie({ account, sentMs, endedMs }: SentRequest, what: string, isBehind = false): void {
    const text = `${account}: the answer at ${new Date(sentMs).toISOString()} ${what}`;
    if (!isBehind) {
      this.#untrue += 1;
      this.#note(text);
    } else if (this.#clockLies.length < CLOCK_LIES_MAX) {
      this.#clockLies.push({ fromMs: sentMs, toMs: endedMs, text });
    }
  }
}
