import { setTimeoutAfterPoll } from "../../../base/event-loop.ts";
import type { QuotaDecision } from "../../../core/quota/decide.ts";
import { isInMotion, lateFailure, type StoreFailure } from "../../redis/store-failure.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type { AccountRequest } from "../quota-store.ts";
import type { RoundTrip } from "./cached-decision.ts";
import type { CallQueue, MergedRequest, StoreCall } from "./call-queue.ts";
import type { DecisionCache, InvalidatedAccounts } from "./decision-cache.ts";
import type { Lane } from "./lane.ts";
import { type CallOutcome, decisionOf, failureOf, laterOf, uncertainCharges } from "./outcomes.ts";

export type StoreCallsOptions = {
  /**
   * Decides a round of up to 256 accounts, grouped by their queues; the outcomes of each group. The
   * store charges nothing for a group that reaches it after `giveUpMs` on performance.now(). Never
   * rejects; a group may stay pending for ever.
   */
  readonly call: (
    groups: readonly (readonly AccountRequest[])[],
    giveUpMs: number,
  ) => readonly Promise<readonly CallOutcome[]>[];
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

/** The accounts of one queue that go in a round. */
export type Batch = { readonly queue: CallQueue; readonly merged: readonly MergedRequest[] };

/** The calls in flight: sends a round and ends each of its calls, by its answer or without it. */
export class StoreCalls {
  readonly #options: StoreCallsOptions;
  readonly #decided: Decided;
  readonly #onFree: (queue: CallQueue) => void;

  /** `onFree` is called when a call of the queue is over, and the next one may be sent. */
  constructor(options: StoreCallsOptions, decided: Decided, onFree: (queue: CallQueue) => void) {
    this.#options = options;
    this.#decided = decided;
    this.#onFree = onFree;
  }

  /** Sends the batches as one round of the lane. */
  send(lane: Lane, batches: readonly Batch[]): void {
    const { decisionCache, outage } = this.#options;
    const { timeoutMs } = outage;
    const groups = batches.map((batch) => this.#requestsOf(batch));
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

  /** Reports the end of a call, or of the work that precedes one. */
  tellEnd(queue: CallQueue, failure: StoreFailure | undefined): void {
    this.#options.onCalled(failure);
    this.#options.outage.onCallEnd(queue.number, failure);
  }

  #requestsOf({ queue, merged }: Batch): AccountRequest[] {
    const { outage } = this.#options;
    return merged.map((each) => {
      const { accountRef, quotaRequest, waiting } = each;
      const { limits, strikesOnly = false } = quotaRequest;
      const reserved = outage.reservedFor(queue.number, accountRef, limits);
      each.reserved = reserved;
      const asked = { ...quotaRequest, requests: strikesOnly ? 1 : waiting.length, strikesOnly };
      return { accountRef, quotaRequest: reserved === undefined ? asked : { ...asked, reserved } };
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
      const decision = decisionOf(outcomes[i]);
      if (decision === undefined) {
        this.#decided.fail(merged);
        return;
      }
      // One trip serves all accounts of a call, unless their requests were sent and decided singly.
      if (decision.nowMs !== trip.nowMs) trip = { ...trip, nowMs: decision.nowMs };
      this.#decided.settle(merged, decision, trip, invalidated);
    });
    if (failed !== undefined) this.#tellUncertain(call.requests, outcomes);
    this.#onFree(call.queue);
  }

  /** Abandons this call: no request waits for it. */
  #giveUp(call: StoreCall, failure: StoreFailure): void {
    if (call.isOver) return;
    this.#options.outage.onCallTimeout(call.queue.number, call.answered);
    this.#end(call, failure);
    for (const merged of call.requests) this.#decided.fail(merged);
    this.#onFree(call.queue);
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
    this.tellEnd(queue, failure);
    if (failure === undefined || !this.#options.outage.admitsShares) return;
    const ids = isInMotion(failure) ? new Set(failed.map(({ id }) => id)) : undefined;
    for (const other of [...queue.calls]) {
      if (!ids || other.requests.some(({ id }) => ids.has(id))) this.#giveUp(other, failure);
    }
  }

  /** Called with the answer of a call for requests that were decided without it. */
  #ranLate(requests: readonly MergedRequest[], outcomes: readonly CallOutcome[]): void {
    requests.forEach((request, i) => {
      const decision = decisionOf(outcomes[i]);
      if (decision !== undefined) this.#options.outage.onLateDecision(request, decision);
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
