import {
  type CheckReport,
  isIn,
  type ObservedResponse,
  type PromisedLimit,
  type PromisedOperation,
  type Promises,
  type SentRequest,
  type TimeSpan,
} from "../trial/promises.ts";
import { FieldChecker, SLACK_MS } from "./field-checker.ts";
import {
  labelOf,
  type PromisedWindow,
  PromisedWindows,
  SHARES_MS_MAX,
} from "./promised-windows.ts";

const EXAMPLES_MAX = 10;
const ENOUGH = 100;

/** A ban that ran from a response until at least `untilMs`. */
type SeenBan = { readonly seenMs: number; readonly untilMs: number };

/**
 * Judges responses only by what a client sees, against the promises of
 * docs/reference/http.md#windows: each window admits at most the limit, no request that fits is
 * refused, whatever happens to the store, and each field is true.
 */
export class PromiseChecker {
  readonly #promised: Promises;
  readonly #windows: PromisedWindows;
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
    const note = (text: string) => this.#note(text);
    this.#fields = new FieldChecker(promised.isClockOurs, note);
    this.#windows = new PromisedWindows(promised, () => this.#fields.aheadMs, note);
  }

  take(sent: SentRequest): void {
    const { account, sentMs, endedMs, response } = sent;
    const { cost } = this.#operation(sent);
    const limits = this.#limitsOf(sent);
    this.#requests += 1;
    this.#longestMs = Math.max(this.#longestMs, endedMs - sentMs);
    if (this.#requests % 1_000 === 0) this.#windows.judgeOld(sentMs);
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
    const window = this.#windows.find(account, named, response.resetSeconds * 1_000);
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
    return this.#admitted > ENOUGH && this.#windows.refused > ENOUGH;
  }

  /** `away` are the outages, in which gateways decide by shares of the limit. */
  report(away: readonly TimeSpan[]): CheckReport {
    const { overLimit, falseRefusals, untrue } = this.#windows.judge(away);
    const untrueFields = this.#fields.untrue(away);
    const shares = this.#unavailable.filter((one) => {
      return isIn(away, { fromMs: one.fromMs - SHARES_MS_MAX, toMs: one.toMs });
    });
    return {
      requests: this.#requests,
      ...{ admitted: this.#admitted, refused: this.#windows.refused, unanswered: this.#unanswered },
      ...{ windows: this.#windows.count, overLimit },
      falseRefusals: falseRefusals + this.#unearned,
      untrueHeaders: this.#untrue + untrue + untrueFields,
      otherAnswers: this.#others + this.#unavailable.length - shares.length,
      shareRefusals: this.#shareRefusals + shares.length,
      bannedRefusals: this.#banned,
      bansIgnored: this.#ignored.filter((one) => !isIn(away, one)).length,
      longestWaitMs: Math.round(this.#longestMs),
      examples: this.#examples,
    };
  }

  get #admitted(): number {
    let admitted = 0;
    for (const units of this.#admittedBy.values()) admitted += units;
    return admitted;
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
    {
      named,
      others,
    }: { readonly named: PromisedWindow; readonly others: readonly PromisedLimit[] },
  ): void {
    const { account, sentMs, endedMs } = sent;
    add(this.#admittedBy, account, cost);
    named.admitted += cost;
    named.charges.push({ sentMs, cost });
    for (const limit of others) {
      const windows = this.#windows.possible(sent, limit);
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
      for (const window of this.#windows.possible(sent, limit))
        window.charges.push({ sentMs, cost });
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

  #note(text: string): void {
    if (this.#examples.length < EXAMPLES_MAX) this.#examples.push(text);
  }
}

function add<K>(counts: Map<K, number>, key: K, units: number): void {
  counts.set(key, (counts.get(key) ?? 0) + units);
}

const SHARE_RETRY_S_MAX = 5;
