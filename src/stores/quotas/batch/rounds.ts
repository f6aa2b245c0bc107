import { setTimeoutAfterPoll } from "../../../base/event-loop.ts";
import type { QuotaDecision } from "../../../core/quota/decide.ts";
import { isInMotion, lateFailure, type StoreFailure } from "../../redis/store-failure.ts";
import type { AccountRef } from "../account-ref.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type { AccountRequest } from "../quota-store.ts";
import type { RoundTrip } from "./cached-decision.ts";
import {
  CALL_ACCOUNTS_MAX,
  type CallQueue,
  canSend,
  type MergedRequest,
  newQueue,
  type StoreCall,
  takeBatch,
} from "./call-queue.ts";
import type { DecisionCache, InvalidatedAccounts } from "./decision-cache.ts";
import { Lane } from "./lane.ts";
import { type CallOutcome, failureOf, laterOf, uncertainCharges } from "./outcomes.ts";
import { PrecedingWork } from "./preceding-work.ts";
import { StrikePacer } from "./strike-pacer.ts";

export type RoundsOptions = {
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
  readonly decisionCache: Pick<DecisionCache, "beginCall" | "endCall">;
  readonly outage: OutageHandler;
  /** Called when a call ends. `failure` is undefined if the store replied. */
  readonly onCalled: (failure: StoreFailure | undefined) => void;
  /** Called with units that may have been charged twice. */
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

/** The two ends of a request that went with a call. */
export type Decided = {
  /** Called with the store's decision. */
  readonly settle: (
    merged: MergedRequest,
    decision: QuotaDecision,
    trip: RoundTrip,
    invalidated: InvalidatedAccounts,
  ) => void;
  /** Called if there is none: the requests are decided without the store. */
  readonly fail: (merged: MergedRequest) => void;
};

/** The accounts of one queue that go in the next round. */
type Batch = { readonly queue: CallQueue; readonly merged: readonly MergedRequest[] };

/**
 * The calls to the store: while rounds are in flight, requests gather in queues, and the next round
 * carries all of them, those of all queues of a node together. Known refusals go along, or in a paced
 * call of their own.
 */
export class Rounds {
  readonly #options: RoundsOptions;
  readonly #decided: Decided;
  readonly #queues = new Map<number, CallQueue>();
  readonly #lanes = new WeakMap<object, Lane>();
  readonly #strikes = new StrikePacer(this.#queues, {
    canSend: (queue) => canSend(queue) && this.#lane(queue).isFree,
    flush: (queue) => this.#flush(queue),
  });

  readonly #precedingWork: PrecedingWork;

  constructor(options: RoundsOptions, decided: Decided) {
    this.#options = options;
    this.#decided = decided;
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

  /** How long a known refusal may wait for its turn, in milliseconds. */
  get longestPauseMs(): number {
    return this.#strikes.longestMs;
  }

  close(): void {
    this.#strikes.close();
  }

  /** The queue of an account. */
  queueOf(accountRef: AccountRef): CallQueue {
    const number = this.#options.queueOf(accountRef);
    let queue = this.#queues.get(number);
    if (queue === undefined) {
      queue = newQueue(number);
      this.#queues.set(number, queue);
    }
    return queue;
  }

  /** Sends the request with the next round. Further ones of its account can be merged with it. */
  add(queue: CallQueue, merged: MergedRequest): void {
    queue.open.set(merged.id, merged);
    queue.requests.push(merged);
    this.#schedule(queue);
  }

  /** Sends the known refusal with the next round, or in a paced call of its own. */
  addKnown(queue: CallQueue, merged: MergedRequest): void {
    queue.strikes.push(merged);
    this.#strikes.start();
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
      for (const merged of takeBatch(queue)) this.#decided.fail(merged);
      this.#schedule(queue);
      return false;
    }
    return this.#precedingWork.isOver(queue);
  }

  /** Decides all that wait in the queue without the store. */
  #failAll(queue: CallQueue): void {
    while (queue.requests.length + queue.strikes.length > 0) {
      for (const merged of takeBatch(queue)) this.#decided.fail(merged);
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
        if (call.isOver) this.#ranLate(call.requests, outcomes);
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
      if (failureOf(outcome) !== undefined) this.#decided.fail(merged);
      else {
        const decision = outcome as QuotaDecision;
        // One for all accounts of a call. Requests that were sent one by one were also decided one
        // by one.
        if (decision.nowMs !== trip.nowMs) trip = { ...trip, nowMs: decision.nowMs };
        this.#decided.settle(merged, decision, trip, invalidated);
      }
    });
    if (failed !== undefined) this.#tellUncertain(call.requests, outcomes);
    this.#schedule(call.queue);
  }

  /** Abandons this call: no request waits for it. */
  #giveUp(call: StoreCall, failure: StoreFailure): void {
    if (call.isOver) return;
    this.#options.outage.onCallTimeout(call.queue.number, call.answered);
    this.#end(call, failure);
    for (const merged of call.requests) this.#decided.fail(merged);
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

  /** Called with the answer of a call for requests that were decided without it. */
  #ranLate(requests: readonly MergedRequest[], outcomes: readonly CallOutcome[]): void {
    requests.forEach((request, i) => {
      const outcome = outcomes[i] as CallOutcome;
      if (failureOf(outcome) !== undefined) return;
      this.#options.outage.onLateDecision(request, outcome as QuotaDecision);
    });
    this.#tellUncertain(requests, outcomes);
  }

  /** Reports what may be charged twice; of requests whose answer may still come, when it has not. */
  #tellUncertain(requests: readonly MergedRequest[], outcomes: readonly CallOutcome[]): void {
    const later = outcomes.flatMap((outcome) => laterOf(outcome) ?? []);
    const open = requests.filter((_, i) => laterOf(outcomes[i]) !== undefined);
    if (open.length > 0) void Promise.all(later).then((late) => this.#ranLate(open, late));
    const charges = uncertainCharges(requests, outcomes);
    if (charges.length > 0) this.#options.onUncertain(charges);
  }
}
