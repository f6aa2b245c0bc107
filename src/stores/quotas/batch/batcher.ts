import { setTimeoutAfterPoll } from "../../../base/event-loop.ts";
import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import { isInMotion, lateFailure, type StoreFailure } from "../../redis/store-failure.ts";
import { type AccountRef, accountId } from "../account-ref.ts";
import type { LostCount, OutageHandler, UncertainCharge } from "../outage-handler.ts";
import type { AccountRequest, ChargeResult, StoreUnavailable } from "../quota-store.ts";
import { cacheDecision, findLostCount, type PacedKind, type RoundTrip } from "./cached-decision.ts";
import {
  boundTurn,
  CALL_ACCOUNTS_MAX,
  type CallQueue,
  canSend,
  isPaced,
  type KnownRefusal,
  type MergedRequest,
  newQueue,
  type StoreCall,
  takeBatch,
  waitForDecision,
} from "./call-queue.ts";
import type { DecisionCache, InvalidatedAccounts } from "./decision-cache.ts";
import { Lane } from "./lane.ts";
import { canMerge } from "./mergeable.ts";
import { answerWaiting, type CallOutcome, failureOf, uncertainCharges } from "./outcomes.ts";
import { PrecedingWork } from "./preceding-work.ts";
import { StrikePacer } from "./strike-pacer.ts";

export type BatcherOptions = {
  /**
   * Decides a round of up to 256 accounts, grouped by their queues; the outcomes of each group. The
   * store charges nothing for a group that reaches it after `giveUpMs` on performance.now(). Never
   * rejects; a group may stay pending for ever.
   */
  readonly call: (
    groups: readonly (readonly AccountRequest[])[],
    giveUpMs: number,
  ) => readonly Promise<readonly CallOutcome[]>[];
  /** The queue of an account: its bucket on a Cluster, which can fail by itself. */
  readonly queueOf: (accountRef: AccountRef) => number;
  /** The node that has a queue now. Queues of one node share their rounds. */
  readonly nodeOf: (queue: number) => object;
  /** The clock of the node that has a queue, if the store has a clock of its own. */
  readonly clockOf?: (queue: number) => RoundTrip["clock"];
  readonly decisionCache: DecisionCache;
  readonly outage: OutageHandler;
  /**
   * Called with every decision of the store, and with the counts it has lost since the one before.
   */
  readonly onVerdict: (
    accountRef: AccountRef,
    decision: QuotaDecision,
    lost: LostCount | undefined,
  ) => void;
  /** Called when a call ends. `failure` is undefined if the store replied. */
  readonly onCalled: (failure: StoreFailure | undefined) => void;
  /** Called with units that may have been charged twice. */
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

/** The accounts of one queue that go in the next round. */
type Batch = { readonly queue: CallQueue; readonly merged: readonly MergedRequest[] };

/**
 * Decides waiting requests together (docs/architecture.md). While rounds are in flight, requests
 * gather, and the next round carries all of them. A refusal that follows from the cached decision
 * costs no call, or goes with a paced one if it could be a strike or cannot tell each window.
 *
 * No request waits for a call longer than the outage handler allows. After that its requests are
 * decided without the store, and the call itself charges nothing any more
 * (docs/reference/store.md#deadlines).
 */
export class Batcher {
  readonly #options: BatcherOptions;
  readonly #queues = new Map<number, CallQueue>();
  readonly #lanes = new WeakMap<object, Lane>();
  readonly #strikes = new StrikePacer(this.#queues, {
    canSend: (queue) => canSend(queue) && this.#lane(queue).isFree,
    flush: (queue) => this.#flush(queue),
  });

  readonly #precedingWork: PrecedingWork;

  constructor(options: BatcherOptions) {
    this.#options = options;
    this.#precedingWork = new PrecedingWork(options.outage, {
      ended: (queue) => {
        if (queue.requests.length + queue.strikes.length > 0) this.#flush(queue);
      },
      failed: (queue, failure) => {
        this.#called(queue, failure);
        this.#failAll(queue);
      },
    });
  }

  charge(
    accountRef: AccountRef,
    quotaRequest: QuotaRequest,
  ): ChargeResult | StoreUnavailable | Promise<ChargeResult | StoreUnavailable> {
    const { decisionCache, outage } = this.#options;
    const id = accountId(accountRef);
    const cached = decisionCache.get(id);
    const refusal = cached === undefined ? "no" : decisionCache.refuses(id, cached, quotaRequest);
    if (cached !== undefined && refusal === "surely")
      return this.#refused(accountRef, cached, quotaRequest);
    if (cached !== undefined && isPaced(refusal))
      return this.#sendPaced({ id, accountRef, quotaRequest, cached }, refusal);
    const queue = this.#queue(accountRef);
    if (outage.isAway(queue.number)) {
      return cached !== undefined && refusal === "unnoted"
        ? this.#refused(accountRef, cached, quotaRequest)
        : outage.decide(accountRef, quotaRequest);
    }

    const barred = cached !== undefined && decisionCache.banOf(cached, quotaRequest) !== undefined;
    const asked = barred ? { ...quotaRequest, strikesOnly: true } : quotaRequest;
    let merged = queue.open.get(id);
    if (merged === undefined || !canMerge(merged.quotaRequest, asked)) {
      const known = barred ? cached : undefined;
      merged = { id, accountRef, quotaRequest: asked, cached: known, waiting: [] };
      queue.open.set(id, merged);
      queue.requests.push(merged);
      this.#schedule(queue);
    }
    return waitForDecision(merged);
  }

  close(): void {
    this.#strikes.close();
  }

  /**
   * Sends a known refusal. Only one of an account is in flight at a time, and at most as many
   * accounts as fit in a call. The request waits for the store if the usage of a window is unknown,
   * or if its strike could earn a ban. Otherwise it is refused immediately, and only the strike is
   * sent.
   */
  #sendPaced({ id, accountRef, quotaRequest, cached }: KnownRefusal, kind: PacedKind) {
    const { decisionCache, outage } = this.#options;
    const queue = this.#queue(accountRef);
    const full = queue.strikes.length >= CALL_ACCOUNTS_MAX;
    if (cached.refusal?.pending !== undefined || full || outage.isAway(queue.number))
      return this.#refused(accountRef, cached, quotaRequest);
    if (cached.refusal !== undefined) cached.refusal.pending = kind;
    const onItsWayMs = this.#strikes.longestMs + outage.timeoutMs;
    const waits =
      kind === "incomplete" || decisionCache.mayEarnBan(cached, quotaRequest, onItsWayMs);
    const barred = !waits || decisionCache.banOf(cached, quotaRequest) !== undefined;
    const asked = barred ? { ...quotaRequest, strikesOnly: true } : quotaRequest;
    const merged: MergedRequest = { id, accountRef, quotaRequest: asked, cached, waiting: [] };
    queue.strikes.push(merged);
    this.#strikes.start();
    if (kind === "incomplete") boundTurn(queue, merged, outage.timeoutMs, () => this.#fail(merged));
    return waits ? waitForDecision(merged) : this.#refused(accountRef, cached, quotaRequest);
  }

  #refused(accountRef: AccountRef, cached: KnownRefusal["cached"], quotaRequest: QuotaRequest) {
    const { decisionCache, outage } = this.#options;
    return outage.withOwed(accountRef, decisionCache.refused(cached, quotaRequest));
  }

  #queue(accountRef: AccountRef): CallQueue {
    const number = this.#options.queueOf(accountRef);
    let queue = this.#queues.get(number);
    if (queue === undefined) {
      queue = newQueue(number);
      this.#queues.set(number, queue);
    }
    return queue;
  }

  #lane({ number }: CallQueue): Lane {
    const node = this.#options.nodeOf(number);
    let lane = this.#lanes.get(node);
    if (lane === undefined) {
      lane = new Lane((free) => this.#sendRound(free));
      this.#lanes.set(node, lane);
    }
    return lane;
  }

  #schedule(queue: CallQueue): void {
    if (queue.requests.length > 0 && canSend(queue)) this.#lane(queue).add(queue);
  }

  /** Sends what the queues of the lane have, in their turns, as long as it fits in one round. */
  #sendRound(lane: Lane): void {
    const batches: Batch[] = [];
    let room = CALL_ACCOUNTS_MAX;
    lane.offer((queue) => {
      if (queue.requests.length === 0 || !canSend(queue)) return true;
      if (room === 0) return false;
      if (!this.#isReady(queue)) return true;
      const merged = takeBatch(queue, room, batches[0]?.merged[0]?.quotaRequest);
      if (merged.length === 0) return false;
      room -= merged.length;
      batches.push({ queue, merged });
      return true;
    });
    if (batches.length > 0) this.#send(lane, batches);
    for (const { queue } of batches) this.#schedule(queue);
  }

  /** Sends what one queue has, without those that share its node. */
  #flush(queue: CallQueue): void {
    if (!this.#isReady(queue)) return;
    this.#send(this.#lane(queue), [{ queue, merged: takeBatch(queue) }]);
    this.#schedule(queue);
  }

  /**
   * Whether the requests of the queue can be sent now. If the store became unreachable while they
   * waited, they are decided without it. If work precedes them, they are sent behind it.
   */
  #isReady(queue: CallQueue): boolean {
    const { outage } = this.#options;
    if (outage.isAway(queue.number)) {
      queue.prepareUntilMs = undefined;
      for (const merged of takeBatch(queue)) this.#fail(merged);
      this.#schedule(queue);
      return false;
    }
    return this.#precedingWork.isOver(queue);
  }

  /** Decides all that wait in the queue without the store. */
  #failAll(queue: CallQueue): void {
    while (queue.requests.length + queue.strikes.length > 0) {
      for (const merged of takeBatch(queue)) this.#fail(merged);
    }
  }

  #send(lane: Lane, batches: readonly Batch[]): void {
    const { decisionCache, outage } = this.#options;
    const { timeoutMs } = outage;
    const groups = batches.map((batch) => this.#asksOf(batch));
    const invalidated = decisionCache.beginCall();
    const sentMs = performance.now();
    const round = lane.begin();
    const calls = batches.map(({ queue, merged }): StoreCall => {
      const call = { queue, round, requests: merged, isOver: false, answered: Promise.resolve() };
      queue.calls.push(call);
      return call;
    });
    const timer = setTimeoutAfterPoll(timeoutMs, () => {
      const failure = lateFailure(timeoutMs);
      for (const call of calls) this.#giveUp(call, failure);
    });
    let unanswered = calls.length;
    this.#options.call(groups, sentMs + timeoutMs).forEach((answer, i) => {
      const call = calls[i] as StoreCall;
      call.answered = answer.then((outcomes) => {
        unanswered -= 1;
        if (unanswered === 0) {
          clearTimeout(timer);
          decisionCache.endCall(invalidated);
        }
        if (call.isOver) this.#ranLate(call, outcomes);
        else this.#answered(call, outcomes, { sentMs, invalidated });
      });
    });
  }

  #asksOf({ queue, merged }: Batch): AccountRequest[] {
    return merged.map((each) => {
      const { accountRef, quotaRequest, waiting } = each;
      each.reserved = this.#options.outage.reservedFor(
        queue.number,
        accountRef,
        quotaRequest.limits,
      );
      const { reserved } = each;
      const requests = quotaRequest.strikesOnly ? 1 : waiting.length;
      const kept = reserved === undefined ? {} : { reserved };
      return {
        accountRef,
        quotaRequest: {
          ...quotaRequest,
          requests,
          strikesOnly: quotaRequest.strikesOnly ?? false,
          ...kept,
        },
      };
    });
  }

  #answered(
    call: StoreCall,
    outcomes: readonly CallOutcome[],
    { sentMs, invalidated }: { readonly sentMs: number; readonly invalidated: InvalidatedAccounts },
  ): void {
    const failed = outcomes.find((each) => failureOf(each) !== undefined);
    const clock = this.#options.clockOf?.(call.queue.number);
    let trip: RoundTrip = { sentMs, receivedMs: performance.now(), nowMs: 0, clock };
    if (failed === undefined) call.round.lane.learnRoundTrip(trip.receivedMs - sentMs);
    const concerned = failed && call.requests.filter((_, i) => failureOf(outcomes[i]));
    this.#end(call, failureOf(failed), concerned);
    call.requests.forEach((merged, i) => {
      const outcome = outcomes[i] as CallOutcome;
      if (failureOf(outcome) !== undefined) this.#fail(merged);
      else {
        const decision = outcome as QuotaDecision;
        // One for all accounts of a call. Requests that were sent one by one were also decided one
        // by one.
        if (decision.nowMs !== trip.nowMs) trip = { ...trip, nowMs: decision.nowMs };
        this.#settle(merged, decision, trip, invalidated);
      }
    });
    if (failed !== undefined) this.#tellUncertain(call, outcomes);
    this.#schedule(call.queue);
  }

  /** Abandons this call: no request waits for it. */
  #giveUp(call: StoreCall, failure: StoreFailure): void {
    if (call.isOver) return;
    this.#options.outage.onCallTimeout(call.queue.number, call.answered);
    this.#end(call, failure);
    for (const merged of call.requests) this.#fail(merged);
    this.#schedule(call.queue);
  }

  /**
   * Called when a call has ended. If it failed and requests are admitted from shares during an
   * outage, the other calls of the queue in flight are abandoned, because their answers do not count
   * what is admitted now. While a slot moves, that is admitted only for the accounts of `failed`.
   */
  #end(call: StoreCall, failure: StoreFailure | undefined, failed = call.requests): void {
    const { queue, round } = call;
    call.isOver = true;
    queue.calls.splice(queue.calls.indexOf(call), 1);
    round.lane.end(round);
    this.#called(queue, failure);
    if (failure === undefined || !this.#options.outage.admitsShares) return;
    const ids = isInMotion(failure) ? new Set(failed.map(({ id }) => id)) : undefined;
    for (const other of [...queue.calls]) {
      if (!ids || other.requests.some(({ id }) => ids.has(id))) this.#giveUp(other, failure);
    }
  }

  #called(queue: CallQueue, failure: StoreFailure | undefined): void {
    this.#options.onCalled(failure);
    this.#options.outage.onCallEnd(queue.number, failure);
  }

  #settle(
    merged: MergedRequest,
    decision: QuotaDecision,
    trip: RoundTrip,
    invalidated: InvalidatedAccounts,
  ): void {
    const { id, accountRef, quotaRequest, waiting } = merged;
    const { decisionCache, onVerdict } = this.#options;
    const before = decisionCache.get(id);
    onVerdict(accountRef, decision, findLostCount(before, quotaRequest, decision));
    const barred = quotaRequest.strikesOnly && waiting.length > 0 && decision.ban === undefined;
    // A lifted ban is dropped by a message, so that one which is still known is lost in the store.
    const ban = barred && before ? decisionCache.banOf(before, quotaRequest) : decision.ban;
    const told = ban === decision.ban ? decision : { ...decision, ban };
    const asked = quotaRequest.strikesOnly ? 1 : waiting.length;
    decisionCache.put(id, cacheDecision(quotaRequest, told, trip, before, asked), invalidated);
    if (waiting.length === 0) decisionCache.putUnreportedBan(id, decision.newBan);
    if (barred && ban === undefined) this.#askAgain(merged);
    else answerWaiting(merged, told);
  }

  /** Asks for the requests that went as those of a banned account, whose ban was lifted meanwhile. */
  #askAgain({ accountRef, quotaRequest, waiting }: MergedRequest): void {
    const asked = { ...quotaRequest, strikesOnly: false };
    for (const answer of waiting) void Promise.resolve(this.charge(accountRef, asked)).then(answer);
  }

  #fail({ id, accountRef, quotaRequest, cached, waiting }: MergedRequest): void {
    const { decisionCache, outage } = this.#options;
    const latest = decisionCache.get(id);
    const known = cached ?? latest;
    if (cached?.refusal) cached.refusal.pending = undefined;
    // A message may have replaced the decision meanwhile by one with other counts.
    if (cached && latest?.refusal) latest.refusal.pending = undefined;
    for (const answer of waiting) {
      const isRefused = known && decisionCache.refuses(id, known, quotaRequest) !== "no";
      if (isRefused) answer(this.#refused(accountRef, known, quotaRequest));
      else answer(outage.decide(accountRef, quotaRequest));
    }
  }

  /** Called with the answer of a call whose requests were decided without it. */
  #ranLate(call: StoreCall, outcomes: readonly CallOutcome[]): void {
    call.requests.forEach((request, i) => {
      const outcome = outcomes[i] as CallOutcome;
      if (failureOf(outcome) !== undefined) return;
      this.#options.outage.onLateDecision(request, outcome as QuotaDecision);
    });
    this.#tellUncertain(call, outcomes);
  }

  #tellUncertain(call: StoreCall, outcomes: readonly CallOutcome[]): void {
    const charges = uncertainCharges(call.requests, outcomes);
    if (charges.length > 0) this.#options.onUncertain(charges);
  }
}
