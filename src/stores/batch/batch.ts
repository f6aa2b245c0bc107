import type { Ask, Verdict } from "../../core/quota/decide.ts";
import {
  type AccountName,
  type Answer,
  accountId,
  type NoAnswer,
} from "../interface/quota-store.ts";
import type { StoreFailure } from "../interface/store-failure.ts";
import {
  type CountLost,
  countLost,
  type Known,
  know,
  Memory,
  refuses,
  type Trip,
  verdictSince,
} from "./last-answers.ts";
import { CALL_ACCOUNTS_MAX, type Group, type Lane, sameTerms, take, wait } from "./waiting.ts";

/** One account of a call; `ask.units` are the requests that wait for its verdict. */
export type NamedAsk = { readonly name: AccountName; readonly ask: Ask };

/** For each ask its verdict, or why there is none. Asks of one call share the ban policy. */
export type Outcome = Verdict | { readonly failure: StoreFailure };

/** Decides while the store is away (docs/reference/store.md#away): outage/fallback.ts is one. */
export type Gate = {
  /** True while the store, or what this lane asks of it, is known to be away: no ask goes out. */
  shut(lane: number): boolean;
  /** By the clock of the store: a call that has not run by then is not to charge any more. */
  deadlineMs?(): number | undefined;
  /** Decides one request here. `failure` is why the store did not; undefined while shut. */
  decide(name: AccountName, ask: Ask, failure: StoreFailure | undefined): Answer | NoAnswer;
  /** Told of the end of each call of a lane: `failure` is undefined when the call was answered. */
  called(lane: number, failure: StoreFailure | undefined): void;
};

export type BatchOptions = {
  /** Decides up to 256 accounts in one call. Never rejects. */
  readonly call: (asks: readonly NamedAsk[]) => Promise<readonly Outcome[]>;
  /** Asks of different lanes never share a call: the buckets of a Cluster. */
  readonly laneOf: (name: AccountName) => number;
  readonly gate: Gate;
  /** Told of every verdict of the store, and of what it has forgotten since the one before. */
  readonly onVerdict: (name: AccountName, verdict: Verdict, lost: CountLost | undefined) => void;
  /** The store's test clock, in milliseconds; without it, time since an answer is measured. */
  readonly clock?: (() => number) | undefined;
};

/** Two calls at most are under way in a lane: one in Redis, one on its way. */
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
  readonly #lanes = new Map<number, Lane>();
  readonly #memory = new Memory<Known>();
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
    const refusal = known !== undefined && sameTerms(known, ask) ? this.#refuses(known) : "no";
    if (known !== undefined && refusal === "surely") return this.#refused(known);
    if (known !== undefined && refusal === "strike") return this.#strike(id, name, ask, known);
    const lane = this.#lane(name);
    if (gate.shut(lane.number)) return gate.decide(name, ask, undefined);

    let group = lane.open.get(id);
    if (group === undefined || !sameTerms(group.ask, ask)) {
      group = { id, name, ask, known: undefined, waiting: [] };
      lane.open.set(id, group);
      lane.queue.push(group);
      this.#schedule(lane);
    }
    return wait(group);
  }

  lastKnown(name: AccountName): Verdict | undefined {
    const known = this.#memory.get(accountId(name));
    return known && verdictSince(known, this.#sinceReceived(known));
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
  #refuses(known: Known): ReturnType<typeof refuses> {
    if (known.whole === undefined) return "no";
    const { clock } = this.#options;
    const nowMs = clock ? clock() : known.trip.nowMs + performance.now() - known.trip.sentMs;
    return refuses(known, nowMs);
  }

  #sinceReceived({ trip: { nowMs, receivedMs } }: Known): number {
    const { clock } = this.#options;
    return clock ? clock() - nowMs : performance.now() - receivedMs;
  }

  #refused(known: Known): Answer {
    const verdict = verdictSince(known, this.#sinceReceived(known));
    return { verdict, unspent: 0, admitted: false, by: "store" };
  }

  /** One strike of an account is under way at a time, and as many accounts wait as fit in a call. */
  #strike(id: string, name: AccountName, ask: Ask, known: Known) {
    const lane = this.#lane(name);
    const full = lane.strikes.length >= CALL_ACCOUNTS_MAX;
    if (known.whole?.striking || full || this.#options.gate.shut(lane.number))
      return this.#refused(known);
    if (known.whole !== undefined) known.whole.striking = true;
    const group: Group = { id, name, ask, known, waiting: [] };
    lane.strikes.push(group);
    this.#paceStrikes();
    return wait(group);
  }

  #paceStrikes(): void {
    if (this.#strikeTimer !== undefined) return;
    const pauseMs = Math.max(0, this.#strikesSentMs + STRIKE_PAUSE_MS - performance.now());
    this.#strikeTimer = setTimeout(() => {
      this.#strikeTimer = undefined;
      this.#sendStrikes();
    }, Math.ceil(pauseMs));
  }

  /** One lane a time; the lane goes to the end of the order, so that each has its turn. */
  #sendStrikes(): void {
    const waiting = [...this.#lanes.values()].filter(({ strikes }) => strikes.length > 0);
    if (waiting.length === 0) return;
    this.#strikesSentMs = performance.now();
    const lane = waiting.find(({ calls }) => calls < CALLS_MAX);
    if (lane !== undefined) {
      this.#lanes.delete(lane.number);
      this.#lanes.set(lane.number, lane);
      this.#flush(lane);
    }
    if (waiting.length > 1 || lane === undefined) this.#paceStrikes();
  }

  #lane(name: AccountName): Lane {
    const number = this.#options.laneOf(name);
    let lane = this.#lanes.get(number);
    if (lane === undefined) {
      lane = { number, queue: [], strikes: [], open: new Map(), calls: 0, scheduled: false };
      this.#lanes.set(number, lane);
    }
    return lane;
  }

  /** After the sockets of this turn are read: requests that came together go together. */
  #schedule(lane: Lane): void {
    if (lane.scheduled || lane.calls >= CALLS_MAX) return;
    lane.scheduled = true;
    setImmediate(() => {
      lane.scheduled = false;
      if (lane.queue.length > 0 && lane.calls < CALLS_MAX) this.#flush(lane);
    });
  }

  #flush(lane: Lane): void {
    const groups = take(lane);
    // Asks that had to wait for a call while the store went away are decided without it now.
    if (this.#options.gate.shut(lane.number)) {
      for (const group of groups) this.#fail(group, undefined);
      if (lane.queue.length > 0) this.#schedule(lane);
      return;
    }
    const asks = groups.map(({ name, ask: { limits, bans }, waiting }) => {
      return { name, ask: { limits, bans, units: waiting.length } };
    });
    const forgotten = new Set<string>();
    this.#forgotten.add(forgotten);
    const sentMs = performance.now();
    lane.calls += 1;
    void this.#options.call(asks).then((outcomes) => {
      lane.calls -= 1;
      this.#forgotten.delete(forgotten);
      let trip: Trip = { sentMs, receivedMs: performance.now(), nowMs: 0 };
      const failed = outcomes.find((each) => failureOf(each) !== undefined);
      this.#options.gate.called(lane.number, failureOf(failed));
      groups.forEach((group, i) => {
        const outcome = outcomes[i] as Outcome;
        const failure = failureOf(outcome);
        if (failure !== undefined) this.#fail(group, failure);
        else {
          const verdict = outcome as Verdict;
          // One for all of a call; asks that went singly were decided one after the other.
          if (verdict.nowMs !== trip.nowMs) trip = { ...trip, nowMs: verdict.nowMs };
          this.#settle(group, verdict, trip, forgotten);
        }
      });
      if (lane.queue.length > 0) this.#schedule(lane);
    });
    if (lane.queue.length > 0) this.#schedule(lane);
  }

  #settle(group: Group, verdict: Verdict, trip: Trip, forgotten: ReadonlySet<string>): void {
    const { id, name, ask, waiting } = group;
    const before = this.#memory.get(id);
    this.#options.onVerdict(name, verdict, countLost(before, ask, verdict));
    if (forgotten.has(ALL) || forgotten.has(id)) this.#memory.delete(id);
    else this.#memory.set(id, know(ask, verdict, trip, before));
    const { granted } = verdict;
    for (let i = 0; i < waiting.length; i++) {
      const admitted = i < granted;
      waiting[i]?.({ verdict, unspent: admitted ? granted - 1 - i : 0, admitted, by: "store" });
    }
  }

  #fail({ name, ask, known, waiting }: Group, failure: StoreFailure | undefined): void {
    if (known?.whole) known.whole.striking = false;
    for (const answer of waiting) {
      if (known !== undefined && this.#refuses(known) !== "no") answer(this.#refused(known));
      else answer(this.#options.gate.decide(name, ask, failure));
    }
  }
}

function failureOf(outcome: Outcome | undefined): StoreFailure | undefined {
  return outcome !== undefined && "failure" in outcome ? outcome.failure : undefined;
}
