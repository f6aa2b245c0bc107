import type { Ask, Ban, Verdict } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import {
  type AccountName,
  type Answer,
  accountId,
  type NoAnswer,
} from "../interface/quota-store.ts";
import type { StoreFailure } from "../interface/store-failure.ts";
import { AgingMap } from "./aging-map.ts";
import { CALL_ACCOUNTS_MAX, type CallQueue, type MergedAsk, take, wait } from "./call-queue.ts";
import {
  type CountLost,
  countLost,
  type LastAnswer,
  refuses,
  remember,
  type Trip,
  verdictSince,
} from "./last-answers.ts";
import { sameTerms } from "./terms.ts";

/** One account of a call; `ask.units` are the requests that wait for its verdict. */
export type NamedAsk = { readonly name: AccountName; readonly ask: Ask };

/** For each ask its verdict, or why there is none. Asks of one call share the ban policy. */
export type Outcome = Verdict | { readonly failure: StoreFailure };

/** Decides while the store is away (docs/reference/store.md#away): outage/fallback.ts is one. */
export type Gate = {
  /** True while the store, or what this queue asks of it, is known to be away: no ask goes out. */
  isAway(queue: number): boolean;
  /** By the clock of the store: a call that has not run by then is not to charge any more. */
  deadlineMs?(): number | undefined;
  /** Decides one request here. `failure` is why the store did not; undefined while shut. */
  decide(name: AccountName, ask: Ask, failure: StoreFailure | undefined): Answer | NoAnswer;
  /** Told of the end of each call of a queue: `failure` is undefined when the call was answered. */
  called(queue: number, failure: StoreFailure | undefined): void;
};

export type BatchOptions = {
  /** Decides up to 256 accounts in one call. Never rejects. */
  readonly call: (asks: readonly NamedAsk[]) => Promise<readonly Outcome[]>;
  /** Asks of different queues never share a call: the buckets of a Cluster. */
  readonly queueOf: (name: AccountName) => number;
  readonly gate: Gate;
  /** Told of every verdict of the store, and of what it has forgotten since the one before. */
  readonly onVerdict: (name: AccountName, verdict: Verdict, lost: CountLost | undefined) => void;
  /** The store's test clock, in milliseconds; without it, time since an answer is measured. */
  readonly clock?: (() => number) | undefined;
};

/** Two calls at most are under way in a queue: one in Redis, one on its way. */
const CALLS_MAX = 2;
/**
 * Between two calls of nothing but strikes: at most 15 a second of a gateway, whatever the flood.
 * Bans that are told, the version that is read and the heartbeat keep it below 20 commands.
 */
const STRIKE_PAUSE_MS = 70;
/** Stands for every account; no account is named so. */
const ALL = "*";

/**
 * Requests that wait are decided together (docs/architecture.md): while calls are under way, asks
 * gather, and the next call carries all of them. Refusals that the last answer foretells cost no
 * call; those that could be strikes travel along, or in calls of their own that are paced.
 */
export class Batch {
  readonly #options: BatchOptions;
  readonly #queues = new Map<number, CallQueue>();
  readonly #memory = new AgingMap<LastAnswer>();
  #strikeTimer: NodeJS.Timeout | undefined;
  #strikesSentMs = Number.NEGATIVE_INFINITY;
  /** For each call under way, the accounts forgotten since it left: its verdict of them is old. */
  readonly #forgotten = new Set<Set<string>>();

  constructor(options: BatchOptions) {
    this.#options = options;
  }

  spend(name: AccountName, ask: Ask): Answer | NoAnswer | Promise<Answer | NoAnswer> {
    const { gate } = this.#options;
    const id = accountId(name);
    const known = this.#memory.get(id);
    const refusal = known === undefined ? "no" : this.#refuses(known, ask);
    if (known !== undefined && refusal === "surely") return this.#refused(known, ask);
    if (known !== undefined && refusal === "strike") return this.#strike(id, name, ask, known);
    const queue = this.#queue(name);
    if (gate.isAway(queue.number)) return gate.decide(name, ask, undefined);

    let merged = queue.open.get(id);
    if (merged === undefined || !sameTerms(merged.ask, ask)) {
      merged = { id, name, ask, known: undefined, waiting: [] };
      queue.open.set(id, merged);
      queue.asks.push(merged);
      this.#schedule(queue);
    }
    return wait(merged);
  }

  lastKnown(name: AccountName, limits?: readonly Limit[]): Verdict | undefined {
    const known = this.#memory.get(accountId(name));
    return known && verdictSince(known, this.#sinceReceived(known), limits);
  }

  forget(name?: AccountName): void {
    for (const since of this.#forgotten) since.add(name === undefined ? ALL : accountId(name));
    if (name === undefined) this.#memory.clear();
    else this.#memory.delete(accountId(name));
  }

  close(): void {
    clearTimeout(this.#strikeTimer);
  }

  /** Counted from when the call was sent: early costs a command, late would break a promise. */
  #refuses(known: LastAnswer, ask: Ask): ReturnType<typeof refuses> {
    if (known.whole === undefined) return "no";
    const { clock } = this.#options;
    const nowMs = clock ? clock() : known.trip.nowMs + performance.now() - known.trip.sentMs;
    return refuses(known, ask, nowMs);
  }

  #sinceReceived({ trip: { nowMs, receivedMs } }: LastAnswer): number {
    const { clock } = this.#options;
    return clock ? clock() - nowMs : performance.now() - receivedMs;
  }

  #refused(known: LastAnswer, ask: Ask): Answer {
    const verdict = verdictSince(known, this.#sinceReceived(known), ask.limits);
    return { verdict, unspent: 0, admitted: false, by: "memory" };
  }

  /** One strike of an account is under way at a time, and as many accounts wait as fit in a call. */
  #strike(id: string, name: AccountName, ask: Ask, known: LastAnswer) {
    const queue = this.#queue(name);
    const full = queue.strikes.length >= CALL_ACCOUNTS_MAX;
    if (known.whole?.striking || full || this.#options.gate.isAway(queue.number))
      return this.#refused(known, ask);
    if (known.whole !== undefined) known.whole.striking = true;
    const merged: MergedAsk = { id, name, ask, known, waiting: [] };
    queue.strikes.push(merged);
    this.#paceStrikes();
    return wait(merged);
  }

  #paceStrikes(): void {
    if (this.#strikeTimer !== undefined) return;
    const pauseMs = Math.max(0, this.#strikesSentMs + STRIKE_PAUSE_MS - performance.now());
    this.#strikeTimer = setTimeout(() => {
      this.#strikeTimer = undefined;
      this.#sendStrikes();
    }, Math.ceil(pauseMs));
  }

  /** One queue a time; the queue goes to the end of the order, so that each has its turn. */
  #sendStrikes(): void {
    const waiting = [...this.#queues.values()].filter(({ strikes }) => strikes.length > 0);
    if (waiting.length === 0) return;
    this.#strikesSentMs = performance.now();
    const queue = waiting.find(({ calls }) => calls < CALLS_MAX);
    if (queue !== undefined) {
      this.#queues.delete(queue.number);
      this.#queues.set(queue.number, queue);
      this.#flush(queue);
    }
    if (waiting.length > 1 || queue === undefined) this.#paceStrikes();
  }

  #queue(name: AccountName): CallQueue {
    const number = this.#options.queueOf(name);
    let queue = this.#queues.get(number);
    if (queue === undefined) {
      queue = { number, asks: [], strikes: [], open: new Map(), calls: 0, scheduled: false };
      this.#queues.set(number, queue);
    }
    return queue;
  }

  /** After the sockets of this turn are read: requests that came together go together. */
  #schedule(queue: CallQueue): void {
    if (queue.scheduled || queue.calls >= CALLS_MAX) return;
    queue.scheduled = true;
    setImmediate(() => {
      queue.scheduled = false;
      if (queue.asks.length > 0 && queue.calls < CALLS_MAX) this.#flush(queue);
    });
  }

  #flush(queue: CallQueue): void {
    const merged = take(queue);
    // Asks that had to wait for a call while the store went away are decided without it now.
    if (this.#options.gate.isAway(queue.number)) {
      for (const one of merged) this.#fail(one, undefined);
      if (queue.asks.length > 0) this.#schedule(queue);
      return;
    }
    const asks = merged.map(({ name, ask: { limits, bans, cost = 1 }, waiting }) => {
      return { name, ask: { limits, bans, units: waiting.length, cost } };
    });
    const forgotten = new Set<string>();
    this.#forgotten.add(forgotten);
    const sentMs = performance.now();
    queue.calls += 1;
    void this.#options.call(asks).then((outcomes) => {
      queue.calls -= 1;
      this.#forgotten.delete(forgotten);
      let trip: Trip = { sentMs, receivedMs: performance.now(), nowMs: 0 };
      const failed = outcomes.find((each) => failureOf(each) !== undefined);
      this.#options.gate.called(queue.number, failureOf(failed));
      merged.forEach((one, i) => {
        const outcome = outcomes[i] as Outcome;
        const failure = failureOf(outcome);
        if (failure !== undefined) this.#fail(one, failure);
        else {
          const verdict = outcome as Verdict;
          // One for all of a call; asks that went singly were decided one after the other.
          if (verdict.nowMs !== trip.nowMs) trip = { ...trip, nowMs: verdict.nowMs };
          this.#settle(one, verdict, trip, forgotten);
        }
      });
      if (queue.asks.length > 0) this.#schedule(queue);
    });
    if (queue.asks.length > 0) this.#schedule(queue);
  }

  #settle(merged: MergedAsk, verdict: Verdict, trip: Trip, forgotten: ReadonlySet<string>): void {
    const { id, name, ask, waiting } = merged;
    const before = this.#memory.get(id);
    this.#options.onVerdict(name, verdict, countLost(before, ask, verdict));
    if (forgotten.has(ALL) || forgotten.has(id)) this.#memory.delete(id);
    else this.#memory.set(id, remember(ask, verdict, trip, before));
    const { granted } = verdict;
    const { cost = 1 } = ask;
    for (let i = 0; i < waiting.length; i++) {
      const admitted = i < granted;
      const unspent = admitted ? (granted - 1 - i) * cost : 0;
      // Told to one of the refused alone: a ban is earned once.
      const first = i === granted && verdict.earned !== undefined;
      const answer = { verdict, unspent, admitted, by: "store" } as const;
      waiting[i]?.(first ? { ...answer, earned: verdict.earned as Ban } : answer);
    }
  }

  #fail({ name, ask, known, waiting }: MergedAsk, failure: StoreFailure | undefined): void {
    if (known?.whole) known.whole.striking = false;
    for (const answer of waiting) {
      if (known !== undefined && this.#refuses(known, ask) !== "no")
        answer(this.#refused(known, ask));
      else answer(this.#options.gate.decide(name, ask, failure));
    }
  }
}

function failureOf(outcome: Outcome | undefined): StoreFailure | undefined {
  return outcome !== undefined && "failure" in outcome ? outcome.failure : undefined;
}
