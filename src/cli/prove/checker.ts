import { windowRow } from "../../core/quota/windows.ts";
import { FieldChecker, SLACK_MS } from "./field-checker.ts";
import {
  type CheckReport,
  isIn,
  type ObservedResponse,
  type PromisedLimit,
  type PromisedOperation,
  type Promises,
  type SentRequest,
  type TimeSpan,
} from "./promises.ts";

/**
 * After an outage a gateway leaves room for units that others may have admitted, until they have
 * charged them. For at most this time it reports a smaller limit.
 */
const SHARES_MS_MAX = 5_000;
/** A gateway in an outage may be behind that clock by as much as its last reply was late. */
const BEHIND_MS = 300;
const EXAMPLES_MAX = 10;
const ENOUGH = 100;

type Charge = { readonly sentMs: number; readonly cost: number };

type Window = {
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

/** A ban that ran from a response until at least `untilMs`. */
type SeenBan = { readonly seenMs: number; readonly untilMs: number };

/** Windows that ended this long ago are judged, so that a long proof does not keep more. */
const JUDGED_AFTER_MS = 60_000;

/**
 * Judges responses only by what a client sees, against the promises of
 * docs/reference/http.md#windows: each window admits at most the limit, no request that fits is
 * refused, whatever happens to the store, and each field is true.
 */
export class PromiseChecker {
  readonly #promised: Promises;
  readonly #windows = new Map<string, Window>();
  readonly #bans = new Map<string, SeenBan>();
  readonly #ignored: TimeSpan[] = [];
  readonly #unavailable: TimeSpan[] = [];
  readonly #fields: FieldChecker;
  readonly #examples: string[] = [];
  readonly #admittedBy = new Map<string, number>();
  readonly #unansweredBy = new Map<string, number>();
  #requests = 0;
  #unanswered = 0;
  #untrue = 0;
  #others = 0;
  #shareRefusals = 0;
  #banned = 0;
  #unearned = 0;
  #longestMs = 0;

  constructor(promised: Promises) {
    this.#promised = promised;
    this.#fields = new FieldChecker(promised.isClockOurs, (text) => this.#note(text));
  }

  take(sent: SentRequest): void {
    const { account, sentMs, endedMs, response } = sent;
    const { cost } = this.#operation(sent);
    const limits = this.#limitsOf(sent);
    this.#requests += 1;
    this.#longestMs = Math.max(this.#longestMs, endedMs - sentMs);
    if (this.#requests % 1_000 === 0) this.#judgeOld(sentMs - JUDGED_AFTER_MS);
    if (response === undefined) {
      this.#unanswered += 1;
      add(this.#unansweredBy, account, cost);
      this.#mayCount(sent, limits);
      return;
    }
    if (response.status === 503) this.#takeUnavailable(sent, response, limits);
    else if (response.status === 200 || response.status === 429) this.#takeDecided(sent, response);
    else {
      this.#others += 1;
      this.#note(`${account} was answered ${response.status}`);
    }
  }

  /** Takes a request that was admitted, or refused by a window or a ban. */
  #takeDecided(sent: SentRequest, response: ObservedResponse): void {
    const { account, endedMs } = sent;
    const { cost } = this.#operation(sent);
    const limits = this.#limitsOf(sent);
    if (!this.#fields.hasReset(sent, response)) return;
    this.#fields.checkCost(sent, response, cost);
    if (response.status === 429 && response.window === "ban") {
      this.#takeBan(sent, response);
      return;
    }
    const named = limits.find((limit) => labelOf(limit) === response.window);
    if (named === undefined) {
      this.#fields.lie(sent, `names the window ${response.window}`);
      return;
    }
    this.#fields.check(sent, response, { promised: named, cost });
    const window = this.#windowOf(account, named, response.resetSeconds * 1_000);
    if (response.limit !== named.limit) window.otherLimits += 1;
    if (response.status === 429) {
      window.refused += 1;
      window.refusals.push({ sentMs: endedMs, cost });
      return;
    }
    add(window.remaining, response.remaining, 1);
    this.#admit(sent, cost, { named: window, others: limits.filter((one) => one !== named) });
  }

  /** Called when a client waited as it was told to and was refused all the same. */
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

  /** Whether enough was admitted, and refused by limits, to say that promises were kept. */
  get hasSeenEnough(): boolean {
    let [admitted, refused] = [0, 0];
    for (const units of this.#admittedBy.values()) admitted += units;
    for (const window of this.#windows.values()) refused += window.refused;
    return admitted > ENOUGH && refused > ENOUGH;
  }

  /** `away` are the outages, in which gateways decide by shares of the limit. */
  report(away: readonly TimeSpan[]): CheckReport {
    this.#judgeOld(Number.POSITIVE_INFINITY);
    let [overLimit, falseRefusals, admitted, refused] = [0, this.#unearned, 0, 0];
    for (const window of this.#windows.values()) {
      const { window: name, limit } = window.promised;
      const startMs = window.endMs - windowRow(name).lengthMs;
      const settleMs = window.otherLimits > 0 ? SHARES_MS_MAX : 0;
      const isAway = isIn(away, { fromMs: startMs - settleMs, toMs: window.endMs });
      // docs/reference/store.md#away: the limit before the outage, and a share of each gateway
      // after that.
      const most = isAway ? 2 * limit + this.#promised.gateways - 1 : limit;
      const where = whereOf(window);
      refused += window.refused;
      if (window.admitted > most) {
        overLimit += window.admitted - most;
        this.#note(`${where}: ${window.admitted} admitted, the limit is ${most}`);
      }
      falseRefusals += window.falseRefusals;
      if (!isAway) this.#checkWindow(window, where);
    }
    for (const units of this.#admittedBy.values()) admitted += units;
    const untrueFields = this.#fields.untrue(away);
    const shares = this.#unavailable.filter((one) => {
      return isIn(away, { fromMs: one.fromMs - SHARES_MS_MAX, toMs: one.toMs });
    });
    return {
      requests: this.#requests,
      ...{ admitted, refused, unanswered: this.#unanswered, windows: this.#windows.size },
      ...{ overLimit, falseRefusals, untrueHeaders: this.#untrue + untrueFields },
      otherAnswers: this.#others + this.#unavailable.length - shares.length,
      shareRefusals: this.#shareRefusals + shares.length,
      bannedRefusals: this.#banned,
      bansIgnored: this.#ignored.filter((one) => !isIn(away, one)).length,
      longestWaitMs: Math.round(this.#longestMs),
      examples: this.#examples,
    };
  }

  #operation({ operation }: SentRequest): PromisedOperation {
    return this.#promised.operations.get(operation) as PromisedOperation;
  }

  #limitsOf(sent: SentRequest): readonly PromisedLimit[] {
    const own = this.#promised.limits.get(sent.account) ?? [];
    return [...own, ...this.#operation(sent).limits];
  }

  /** Every window of the account takes the cost. The window that the response names is certain. */
  #admit(
    sent: SentRequest,
    cost: number,
    { named, others }: { readonly named: Window; readonly others: readonly PromisedLimit[] },
  ): void {
    const { account, sentMs, endedMs } = sent;
    add(this.#admittedBy, account, cost);
    named.admitted += cost;
    named.charges.push({ sentMs, cost });
    for (const limit of others) {
      const windows = this.#windowsAt(sent, limit);
      for (const window of windows) window.charges.push({ sentMs, cost });
      const [only, ...further] = windows;
      if (only !== undefined && further.length === 0) only.admitted += cost;
    }
    const ban = this.#bans.get(account);
    if (ban !== undefined && sentMs > ban.seenMs && endedMs < ban.untilMs) {
      this.#ignored.push({ fromMs: sentMs, toMs: endedMs });
      this.#note(`${account} was admitted during a ban`);
    }
  }

  /**
   * A share refusal names its share. Any other 503 is one only during an outage. Either may count
   * until the late answer of its call, which takes it back.
   */
  #takeUnavailable(
    sent: SentRequest,
    response: ObservedResponse,
    limits: readonly PromisedLimit[],
  ): void {
    const { account, sentMs, endedMs } = sent;
    this.#mayCount(sent, limits);
    const { retryAfterSeconds, window, limit } = response;
    const waits = retryAfterSeconds >= 1 && retryAfterSeconds <= SHARE_RETRY_S_MAX;
    const named = limits.find((one) => labelOf(one) === window);
    if (waits && named !== undefined && limit < named.limit) this.#shareRefusals += 1;
    else if (waits) this.#unavailable.push({ fromMs: sentMs, toMs: endedMs });
    else {
      this.#others += 1;
      this.#note(`${account} was answered 503 with Retry-After ${retryAfterSeconds}`);
    }
  }

  #mayCount(sent: SentRequest, limits: readonly PromisedLimit[]): void {
    const { sentMs } = sent;
    const { cost } = this.#operation(sent);
    for (const limit of limits) {
      for (const window of this.#windowsAt(sent, limit)) window.charges.push({ sentMs, cost });
    }
  }

  #takeBan(sent: SentRequest, response: ObservedResponse): void {
    const { account, endedMs } = sent;
    this.#banned += 1;
    this.#fields.checkRetryAfter(sent, response);
    // The end is rounded up to a whole second.
    const untilMs = (response.resetSeconds - 1) * 1_000 - SLACK_MS;
    this.#bans.set(account, { seenMs: endedMs, untilMs });
    if (!this.#promised.patient.has(account)) return;
    this.#unearned += 1;
    this.#note(`${account} was banned, and had waited as it was told`);
  }

  /** The windows of a limit in which the store may have decided the request. */
  #windowsAt({ account, sentMs, endedMs }: SentRequest, limit: PromisedLimit): Window[] {
    const { lengthMs } = windowRow(limit.window);
    const { fromMs, toMs } = this.#fields.aheadMs;
    const knownMs = (ms: number) => (Number.isFinite(ms) ? ms : 0);
    const first = Math.floor((sentMs - BEHIND_MS + knownMs(fromMs)) / lengthMs);
    const last = Math.floor((endedMs + knownMs(toMs)) / lengthMs);
    const found: Window[] = [];
    for (let i = first; i <= last; i++) {
      found.push(this.#windowOf(account, limit, (i + 1) * lengthMs));
    }
    return found;
  }

  /** Finds refusals of requests that fitted, in windows that ended before `beforeMs`. */
  #judgeOld(beforeMs: number): void {
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
   * The limit is that of the plan. Each Remaining is reported once, because it counts down by one.
   */
  #checkWindow({ remaining, otherLimits }: Window, where: string): void {
    if (otherLimits > 0) {
      this.#untrue += otherLimits;
      const answers = otherLimits === 1 ? "an answer" : `${otherLimits} answers`;
      this.#note(`${where}: ${answers} told another X-RateLimit-Limit`);
    }
    for (const [value, count] of remaining) {
      if (count < 2) continue;
      this.#untrue += count - 1;
      this.#note(`${where}: X-RateLimit-Remaining ${value} was told ${count} times`);
    }
  }

  #note(text: string): void {
    if (this.#examples.length < EXAMPLES_MAX) this.#examples.push(text);
  }

  #windowOf(account: string, promised: PromisedLimit, endMs: number): Window {
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
}

function add<K>(counts: Map<K, number>, key: K, units: number): void {
  counts.set(key, (counts.get(key) ?? 0) + units);
}

const SHARE_RETRY_S_MAX = 5;

function labelOf({ window, operation }: PromisedLimit): string {
  return operation === undefined ? window : `${operation}.${window}`;
}

function whereOf({ account, promised, endMs }: Window): string {
  return `${account}, ${labelOf(promised)} to ${new Date(endMs).toISOString()}`;
}
