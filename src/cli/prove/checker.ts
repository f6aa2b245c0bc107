import { type WindowName, windowRow } from "../../core/quota/windows.ts";

/** One request of the load, and its answer as the client saw it. Instants are Unix milliseconds. */
export type SentRequest = {
  readonly account: string;
  readonly sentMs: number;
  readonly endedMs: number;
  readonly answer: ObservedResponse | undefined;
};

/** Absent fields are NaN. */
export type ObservedResponse = {
  readonly status: number;
  readonly window: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetSeconds: number;
  readonly retryAfterSeconds: number;
};

/** The limit that an account was promised: of one short window. */
export type PromisedLimit = { readonly window: WindowName; readonly limit: number };

export type TimeSpan = { readonly fromMs: number; readonly toMs: number };

export type CheckReport = {
  readonly requests: number;
  readonly admitted: number;
  readonly refused: number;
  /** Sent, and never answered, because a gateway was killed. */
  readonly unanswered: number;
  readonly windows: number;
  /** Units admitted over the limits. */
  readonly overLimit: number;
  /** Refusals in windows that had room to their end. */
  readonly falseRefusals: number;
  readonly untrueHeaders: number;
  readonly otherAnswers: number;
  /** Refusals for the sake of a gateway's share: 503, while the limit had room. */
  readonly shareRefusals: number;
  readonly longestWaitMs: number;
  /** The first few findings, in words. */
  readonly examples: readonly string[];
};

/**
 * After it decided without the store a gateway leaves room for what the others may have admitted,
 * until they have charged it: for this long at most it tells a smaller limit.
 */
const SHARES_MS_MAX = 5_000;
/** A gateway knows the clock of the store to within the time that a call may take. */
const SLACK_MS = 60;
const EXAMPLES_MAX = 10;

type Window = {
  readonly account: string;
  readonly endMs: number;
  admitted: number;
  refused: number;
  unanswered: number;
  /** How often each value of Remaining was told to an admitted request. */
  readonly remaining: Map<number, number>;
  /** Answers that told another limit than the one promised. */
  otherLimits: number;
};

/**
 * Judges answers by nothing but what a client sees, and the promises of
 * docs/reference/http.md#windows: in each window at most the limit is admitted, nothing is refused
 * that fits, and each field says what is true.
 */
export class PromiseChecker {
  readonly #promised: ReadonlyMap<string, PromisedLimit>;
  readonly #gateways: number;
  readonly #windows = new Map<string, Window>();
  readonly #examples: string[] = [];
  readonly #admittedBy = new Map<string, number>();
  readonly #unansweredBy = new Map<string, number>();
  /** Bounds of the store's clock less ours. */
  #aheadMs: TimeSpan;
  #requests = 0;
  #untrue = 0;
  #others = 0;
  #shareRefusals = 0;
  #longestMs = 0;

  /** `isClockOurs`: the store runs on this machine; else its clock is learned from the answers. */
  constructor(
    promised: ReadonlyMap<string, PromisedLimit>,
    gateways: number,
    isClockOurs: boolean,
  ) {
    this.#promised = promised;
    this.#gateways = gateways;
    const bound = isClockOurs ? SLACK_MS : Number.POSITIVE_INFINITY;
    this.#aheadMs = { fromMs: -bound, toMs: bound };
  }

  take(shot: SentRequest): void {
    const { account, sentMs, endedMs, answer } = shot;
    const promised = this.#promised.get(account) as PromisedLimit;
    this.#requests += 1;
    this.#longestMs = Math.max(this.#longestMs, endedMs - sentMs);
    if (answer === undefined) {
      add(this.#unansweredBy, account);
      const lengthMs = windowRow(promised.window).lengthMs;
      const first = Math.floor((sentMs - SLACK_MS) / lengthMs);
      for (let i = first; i * lengthMs <= endedMs + SLACK_MS; i++) {
        this.#windowOf(account, (i + 1) * lengthMs).unanswered += 1;
      }
      return;
    }
    const { status, resetSeconds } = answer;
    // docs/reference/store.md#shares: no rate limit, told by its share and a wait of its own.
    if (isShareRefusal(answer, promised)) {
      this.#shareRefusals += 1;
      return;
    }
    if (status !== 200 && status !== 429) {
      this.#others += 1;
      this.#note(`${account} was answered ${status}`);
      return;
    }
    if (!Number.isSafeInteger(resetSeconds)) {
      this.#lie(shot, "has no X-RateLimit-Reset");
      return;
    }
    this.#checkFields(shot, answer, promised);
    const window = this.#windowOf(account, resetSeconds * 1_000);
    if (answer.limit !== promised.limit) window.otherLimits += 1;
    if (status === 429) window.refused += 1;
    else {
      window.admitted += 1;
      add(this.#admittedBy, account);
      add(window.remaining, answer.remaining);
    }
  }

  /** A client waited as it was told to, and was refused all the same. */
  deniedAfterWaiting(account: string, waitedSeconds: number): void {
    this.#untrue += 1;
    this.#note(`${account} waited the ${waitedSeconds} s of Retry-After and was refused again`);
  }

  admittedOf(account: string): number {
    return this.#admittedBy.get(account) ?? 0;
  }
  unansweredOf(account: string): number {
    return this.#unansweredBy.get(account) ?? 0;
  }

  /** `away`: while the store was, gateways decide by shares of the limit. */
  judged(away: readonly TimeSpan[]): CheckReport {
    let [overLimit, falseRefusals, admitted, refused, unanswered] = [0, 0, 0, 0, 0];
    for (const window of this.#windows.values()) {
      const { window: name, limit } = this.#promised.get(window.account) as PromisedLimit;
      const startMs = window.endMs - windowRow(name).lengthMs;
      const settleMs = window.otherLimits > 0 ? SHARES_MS_MAX : 0;
      const isAway = away.some(
        ({ fromMs, toMs }) => startMs <= toMs + settleMs && window.endMs >= fromMs,
      );
      // docs/reference/store.md#away: the limit before it went, and a share each afterwards.
      const most = isAway ? 2 * limit + this.#gateways - 1 : limit;
      const where = `${window.account}, ${name} to ${new Date(window.endMs).toISOString()}`;
      admitted += window.admitted;
      refused += window.refused;
      if (window.admitted > most) {
        overLimit += window.admitted - most;
        this.#note(`${where}: ${window.admitted} admitted, the limit is ${most}`);
      }
      if (isAway) continue;
      const used = window.admitted + window.unanswered;
      if (window.refused > 0 && used < limit) {
        falseRefusals += window.refused;
        this.#note(`${where}: ${window.refused} refused, and only ${used} of ${limit} used`);
      }
      this.#checkWindow(window, where);
    }
    for (const count of this.#unansweredBy.values()) unanswered += count;
    return {
      requests: this.#requests,
      ...{ admitted, refused, unanswered, windows: this.#windows.size },
      ...{ overLimit, falseRefusals, untrueHeaders: this.#untrue, otherAnswers: this.#others },
      shareRefusals: this.#shareRefusals,
      longestWaitMs: Math.round(this.#longestMs),
      examples: this.#examples,
    };
  }

  /** The limit is that of the plan, and each Remaining was told once: it counts down by one. */
  #checkWindow({ remaining, otherLimits }: Window, where: string): void {
    if (otherLimits > 0) {
      this.#untrue += otherLimits;
      this.#note(`${where}: ${otherLimits} answers told another X-RateLimit-Limit`);
    }
    for (const [value, count] of remaining) {
      if (count < 2) continue;
      this.#untrue += count - 1;
      this.#note(`${where}: X-RateLimit-Remaining ${value} was told ${count} times`);
    }
  }

  #checkFields(
    shot: SentRequest,
    answer: ObservedResponse,
    { window, limit }: PromisedLimit,
  ): void {
    const { status, remaining, resetSeconds, retryAfterSeconds } = answer;
    const endMs = resetSeconds * 1_000;
    const lengthMs = windowRow(window).lengthMs;
    if (answer.window !== window) this.#lie(shot, `names the window ${answer.window}`);
    if (endMs % lengthMs !== 0) this.#lie(shot, `resets at ${resetSeconds}, inside a ${window}`);
    if (!(remaining >= 0 && remaining < (status === 200 ? limit : 1))) {
      this.#lie(shot, `has ${remaining} remaining of ${limit} with ${status}`);
    }
    this.#learnClock(shot, endMs, lengthMs);
    if (status !== 429) return;
    // The store's clock read something between these two when it decided.
    const earliestMs = shot.sentMs + this.#aheadMs.fromMs;
    const latestMs = shot.endedMs + this.#aheadMs.toMs;
    const most = Math.max(1, Math.ceil((endMs - earliestMs) / 1_000));
    const least = Math.max(1, Math.ceil((endMs - latestMs) / 1_000));
    if (!(retryAfterSeconds >= least && retryAfterSeconds <= most)) {
      this.#lie(shot, `says Retry-After: ${retryAfterSeconds}, and ${least} to ${most} is true`);
    }
  }

  /** An answer came from within its window: so the clock of the store is known ever better. */
  #learnClock(shot: SentRequest, endMs: number, lengthMs: number): void {
    const fromMs = Math.max(this.#aheadMs.fromMs, endMs - lengthMs - shot.endedMs - SLACK_MS);
    const toMs = Math.min(this.#aheadMs.toMs, endMs - shot.sentMs + SLACK_MS);
    if (fromMs > toMs) this.#lie(shot, `resets at ${endMs / 1_000}, which is not its window's end`);
    else this.#aheadMs = { fromMs, toMs };
  }

  #lie({ account, sentMs }: SentRequest, what: string): void {
    this.#untrue += 1;
    this.#note(`${account}: the answer at ${new Date(sentMs).toISOString()} ${what}`);
  }

  #note(text: string): void {
    if (this.#examples.length < EXAMPLES_MAX) this.#examples.push(text);
  }

  #windowOf(account: string, endMs: number): Window {
    const name = `${account} ${endMs}`;
    let window = this.#windows.get(name);
    if (window === undefined) {
      const counts = { admitted: 0, refused: 0, unanswered: 0, otherLimits: 0 };
      window = { account, endMs, remaining: new Map(), ...counts };
      this.#windows.set(name, window);
    }
    return window;
  }
}

function add<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

const SHARE_RETRY_S_MAX = 5;

function isShareRefusal(
  { status, limit, window, retryAfterSeconds }: ObservedResponse,
  promised: PromisedLimit,
): boolean {
  const isShare = window === promised.window && limit < promised.limit;
  return (
    status === 503 && isShare && retryAfterSeconds >= 1 && retryAfterSeconds <= SHARE_RETRY_S_MAX
  );
}
