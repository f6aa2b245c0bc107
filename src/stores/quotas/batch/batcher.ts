import type { NewBan, QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import { heldUnits } from "../../../core/quota/meters.ts";
import { rateLimitRefusal } from "../../../core/quota/rate-limit-info.ts";
import { StoreFailure, setTimeoutAfterPoll } from "../../redis/store-failure.ts";
import type { OutageHandler, UncertainCharge } from "../outage-handler.ts";
import {
  type AccountRef,
  type AccountRequest,
  accountId,
  type ChargeResult,
  type StoreUnavailable,
} from "../quota-store.ts";
import {
  type CachedDecision,
  cacheDecision,
  findLostCount,
  type LostCount,
  type RoundTrip,
} from "./cached-decision.ts";
import {
  batchDelayMs,
  CALL_ACCOUNTS_MAX,
  type CallQueue,
  canSend,
  learnRoundTrip,
  type MergedRequest,
  newQueue,
  type StoreCall,
  takeBatch,
  waitForDecision,
} from "./call-queue.ts";
import type { DecisionCache, InvalidatedAccounts } from "./decision-cache.ts";
import { canMerge } from "./mergeable.ts";
import { StrikePacer } from "./strike-pacer.ts";

/** A decision for each request, or why there is none. Requests of one call share the ban policy. */
export type CallOutcome = QuotaDecision | { readonly failure: StoreFailure };

export type BatcherOptions = {
  /**
   * Decides up to 256 accounts in one call. The store charges nothing if the call reaches it after
   * `giveUpMs` on performance.now(). Never rejects; may stay pending for ever.
   */
  readonly call: (
    asks: readonly AccountRequest[],
    giveUpMs: number,
  ) => Promise<readonly CallOutcome[]>;
  /** The queue of an account. Different queues, the buckets of a Cluster, never share a call. */
  readonly queueOf: (name: AccountRef) => number;
  readonly answers: DecisionCache;
  readonly outage: OutageHandler;
  /**
   * Called with every decision of the store, and with the counts it has lost since the one before.
   */
  readonly onVerdict: (
    name: AccountRef,
    verdict: QuotaDecision,
    lost: LostCount | undefined,
  ) => void;
  /** Called when a call ends. `failure` is undefined if the store replied. */
  readonly onCalled: (failure: StoreFailure | undefined) => void;
  /** Called with units that may have been charged twice. */
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

/**
 * Decides waiting requests together (docs/architecture.md). While calls are in flight, requests
 * gather, and the next call carries all of them. A refusal that follows from the cached decision
 * costs no call. If it could be a strike, it goes with the next call or with a paced call of its
 * own.
 *
 * No request waits for a call longer than the outage handler allows. After that its requests are
 * decided without the store, and the call itself charges nothing any more
 * (docs/reference/store.md#deadlines).
 */
export class Batcher {
  readonly #options: BatcherOptions;
  readonly #queues = new Map<number, CallQueue>();
  readonly #strikes = new StrikePacer(this.#queues, (queue) => this.#flush(queue));

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  charge(
    name: AccountRef,
    ask: QuotaRequest,
  ): ChargeResult | StoreUnavailable | Promise<ChargeResult | StoreUnavailable> {
    const { answers, outage } = this.#options;
    const id = accountId(name);
    const known = answers.get(id);
    const refusal = known === undefined ? "no" : answers.refuses(known, ask);
    if (known !== undefined && refusal === "surely") return answers.refused(known, ask);
    if (known !== undefined && refusal === "strike") return this.#strike(id, name, ask, known);
    const queue = this.#queue(name);
    if (outage.isAway(queue.number)) return outage.decide(name, ask);

    let merged = queue.open.get(id);
    if (merged === undefined || !canMerge(merged.ask, ask)) {
      merged = { id, name, ask, known: undefined, waiting: [] };
      queue.open.set(id, merged);
      queue.asks.push(merged);
      this.#schedule(queue);
    }
    return waitForDecision(merged);
  }

  close(): void {
    this.#strikes.close();
  }

  /**
   * Sends a strike. Only one strike of an account is in flight at a time, and at most as many
   * accounts as fit in a call. The request waits for the store only if the strike could earn a ban.
   * Otherwise it is refused immediately, and only the strike is sent.
   */
  #strike(id: string, name: AccountRef, ask: QuotaRequest, known: CachedDecision) {
    const { answers, outage } = this.#options;
    const queue = this.#queue(name);
    const full = queue.strikes.length >= CALL_ACCOUNTS_MAX;
    if (known.refusal?.isStrikePending || full || outage.isAway(queue.number))
      return answers.refused(known, ask);
    if (known.refusal !== undefined) known.refusal.isStrikePending = true;
    const onItsWayMs = this.#strikes.longestMs + outage.timeoutMs;
    const waits = answers.mayEarnBan(known, ask, onItsWayMs);
    const asked = waits ? ask : { ...ask, strikesOnly: true };
    const merged: MergedRequest = { id, name, ask: asked, known, waiting: [] };
    queue.strikes.push(merged);
    this.#strikes.start();
    return waits ? waitForDecision(merged) : answers.refused(known, ask);
  }

  #queue(name: AccountRef): CallQueue {
    const number = this.#options.queueOf(name);
    let queue = this.#queues.get(number);
    if (queue === undefined) {
      queue = newQueue(number);
      this.#queues.set(number, queue);
    }
    return queue;
  }

  /**
   * Runs after the sockets of this turn are read, so that requests that arrived together share a
   * call.
   */
  #schedule(queue: CallQueue): void {
    if (queue.isScheduled || !canSend(queue)) return;
    queue.isScheduled = true;
    const go = () => {
      queue.isScheduled = false;
      if (queue.asks.length > 0 && canSend(queue)) this.#flush(queue);
    };
    const pauseMs = batchDelayMs(queue);
    if (pauseMs === 0) setImmediate(go);
    else setTimeout(go, pauseMs);
  }

  #flush(queue: CallQueue): void {
    const { outage } = this.#options;
    // Requests that waited for a call when the store became unreachable are decided without it now.
    if (outage.isAway(queue.number)) {
      for (const merged of takeBatch(queue)) this.#fail(merged);
      if (queue.asks.length > 0) this.#schedule(queue);
      return;
    }
    const preparing = outage.prepare(queue.number);
    if (preparing === undefined) this.#send(queue, takeBatch(queue));
    else this.#sendBehind(queue, preparing);
    if (queue.asks.length > 0) this.#schedule(queue);
  }

  /** The requests that wait now depend on the outcome of the work that precedes them. */
  #sendBehind(queue: CallQueue, preparing: Promise<void>): void {
    queue.isPreparing = true;
    const ready = () => {
      queue.isPreparing = false;
      if (queue.asks.length + queue.strikes.length > 0) this.#flush(queue);
    };
    preparing.then(ready, (failure: StoreFailure) => {
      queue.isPreparing = false;
      this.#called(queue, failure);
      while (queue.asks.length + queue.strikes.length > 0) {
        for (const merged of takeBatch(queue)) this.#fail(merged);
      }
    });
  }

  #send(queue: CallQueue, merged: readonly MergedRequest[]): void {
    const { answers, outage } = this.#options;
    const asks = merged.map((each) => {
      const { name, ask, waiting } = each;
      each.reserved = outage.reservedFor(queue.number, name, ask.limits);
      const { reserved } = each;
      const requests = ask.strikesOnly ? 1 : waiting.length;
      const kept = reserved === undefined ? {} : { reserved };
      return { name, ask: { ...ask, requests, strikesOnly: ask.strikesOnly ?? false, ...kept } };
    });
    const call: StoreCall = { asks: merged, isOver: false, answered: Promise.resolve() };
    const forgotten = answers.beginCall();
    const sentMs = performance.now();
    const { timeoutMs } = outage;
    queue.calls.push(call);
    const timer = setTimeoutAfterPoll(timeoutMs, () => {
      const message = `Redis: no answer in ${timeoutMs} ms`;
      this.#giveUp(queue, call, new StoreFailure("late", message, "unknown"));
    });
    call.answered = this.#options.call(asks, sentMs + timeoutMs).then((outcomes) => {
      clearTimeout(timer);
      answers.endCall(forgotten);
      if (call.isOver) this.#ranLate(call, outcomes);
      else this.#answered(queue, call, outcomes, { sentMs, forgotten });
    });
  }

  #answered(
    queue: CallQueue,
    call: StoreCall,
    outcomes: readonly CallOutcome[],
    { sentMs, forgotten }: { readonly sentMs: number; readonly forgotten: InvalidatedAccounts },
  ): void {
    const failed = outcomes.find((each) => failureOf(each) !== undefined);
    this.#end(queue, call, failureOf(failed));
    let trip: RoundTrip = { sentMs, receivedMs: performance.now(), nowMs: 0 };
    if (failed === undefined) learnRoundTrip(queue, trip.receivedMs - sentMs);
    call.asks.forEach((merged, i) => {
      const outcome = outcomes[i] as CallOutcome;
      if (failureOf(outcome) !== undefined) this.#fail(merged);
      else {
        const verdict = outcome as QuotaDecision;
        // One for all accounts of a call. Requests that were sent one by one were also decided one
        // by one.
        if (verdict.nowMs !== trip.nowMs) trip = { ...trip, nowMs: verdict.nowMs };
        this.#settle(merged, verdict, trip, forgotten);
      }
    });
    if (failed !== undefined) this.#tellUncertain(call, outcomes);
    if (queue.asks.length > 0) this.#schedule(queue);
  }

  /** Abandons this call: no request waits for it. */
  #giveUp(queue: CallQueue, call: StoreCall, failure: StoreFailure): void {
    if (call.isOver) return;
    this.#options.outage.onCallTimeout(queue.number, call.answered);
    this.#end(queue, call, failure);
    for (const merged of call.asks) this.#fail(merged);
    if (queue.asks.length > 0) this.#schedule(queue);
  }

  /**
   * Called when a call has ended. If it failed and requests are admitted from shares during an
   * outage, the other calls in flight are abandoned, because their answers do not count what is
   * admitted now.
   */
  #end(queue: CallQueue, call: StoreCall, failure: StoreFailure | undefined): void {
    call.isOver = true;
    queue.calls.splice(queue.calls.indexOf(call), 1);
    this.#called(queue, failure);
    if (failure === undefined || !this.#options.outage.admitsShares) return;
    for (const other of [...queue.calls]) this.#giveUp(queue, other, failure);
  }

  #called(queue: CallQueue, failure: StoreFailure | undefined): void {
    this.#options.onCalled(failure);
    this.#options.outage.onCallEnd(queue.number, failure);
  }

  #settle(
    merged: MergedRequest,
    verdict: QuotaDecision,
    trip: RoundTrip,
    forgotten: InvalidatedAccounts,
  ): void {
    const { id, name, ask, waiting, reserved } = merged;
    const { answers, onVerdict } = this.#options;
    const before = answers.get(id);
    onVerdict(name, verdict, findLostCount(before, ask, verdict));
    answers.put(id, cacheDecision(ask, verdict, trip, before), forgotten);
    if (waiting.length === 0) answers.putUnreportedBan(id, verdict.newBan);
    const { granted } = verdict;
    const { cost = 1 } = ask;
    const share = granted < waiting.length ? shareRefusal(verdict, cost, reserved) : undefined;
    for (let i = 0; i < waiting.length; i++) {
      const admitted = i < granted;
      if (share !== undefined && !admitted) {
        waiting[i]?.(share);
        continue;
      }
      const unspent = admitted ? granted - 1 - i : 0;
      // Reported to only one of the refused requests: a ban is earned once.
      const first = i === granted && verdict.newBan !== undefined;
      const answer = { verdict, unspent, admitted, by: "store" } as const;
      waiting[i]?.(first ? { ...answer, earned: verdict.newBan as NewBan } : answer);
    }
  }

  #fail({ name, ask, known, waiting }: MergedRequest): void {
    const { answers, outage } = this.#options;
    if (known?.refusal) known.refusal.isStrikePending = false;
    for (const answer of waiting) {
      if (known !== undefined && answers.refuses(known, ask) !== "no")
        answer(answers.refused(known, ask));
      else answer(outage.decide(name, ask));
    }
  }

  /** Called with the answer of a call whose requests were decided without it. */
  #ranLate(call: StoreCall, outcomes: readonly CallOutcome[]): void {
    call.asks.forEach((request, i) => {
      const outcome = outcomes[i] as CallOutcome;
      if (failureOf(outcome) !== undefined) return;
      this.#options.outage.onLateDecision(request, outcome as QuotaDecision);
    });
    this.#tellUncertain(call, outcomes);
  }

  /** Requests whose call may have run count as not run, and may be charged twice. */
  #tellUncertain(call: StoreCall, outcomes: readonly CallOutcome[]): void {
    const charges = call.asks.flatMap(({ name, known, ask: { cost = 1, limits }, waiting }, i) => {
      const lost = failureOf(outcomes[i])?.executed === "unknown" && known === undefined;
      const meters = lost ? heldUnits(limits) : [];
      if (!lost || (cost === 0 && meters.length === 0)) return [];
      const times = (units: number) => waiting.length * units;
      if (meters.length === 0) return [{ name, units: times(cost) }];
      const held = meters.map((one) => ({ name: one.name, units: times(one.units) }));
      return [{ name, units: times(cost), meters: held }];
    });
    if (charges.length > 0) this.#options.onUncertain(charges);
  }
}

/**
 * The refusal of requests that fit in the plan's limits, but not without the units that are kept
 * for other gateways; undefined if a limit or a ban refuses them.
 */
function shareRefusal(
  verdict: QuotaDecision,
  cost: number,
  reserved: readonly number[] | undefined,
): ChargeResult | undefined {
  if (reserved === undefined) return undefined;
  if (rateLimitRefusal(verdict, verdict.nowMs, cost) !== undefined) return undefined;
  const windows = verdict.windows.map((standing, i) => {
    return { ...standing, limit: Math.max(0, standing.limit - (reserved[i] ?? 0)) };
  });
  return { verdict: { ...verdict, windows }, unspent: 0, admitted: false, by: "share" };
}

function failureOf(outcome: CallOutcome | undefined): StoreFailure | undefined {
  return outcome !== undefined && "failure" in outcome ? outcome.failure : undefined;
}
