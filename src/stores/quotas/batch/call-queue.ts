import type { QuotaRequest } from "../../../core/quota/decide.ts";
import type { AccountRef, ChargeResult, StoreUnavailable } from "../quota-store.ts";
import type { CachedDecision } from "./cached-decision.ts";
import { samePolicy } from "./mergeable.ts";

/** How many accounts a call carries at most, and so how many plans: see ARGV in decide.lua. */
export const CALL_ACCOUNTS_MAX = 256;

/** The requests of one account that wait to be decided together. */
export type MergedRequest = {
  readonly id: string;
  readonly name: AccountRef;
  readonly ask: QuotaRequest;
  /** Set for a refusal that is known already and may be a strike. */
  readonly known: CachedDecision | undefined;
  /** Units of each limit that the store keeps for other gateways; known when the call goes. */
  reserved?: readonly number[] | undefined;
  readonly waiting: ((answer: ChargeResult | StoreUnavailable) => void)[];
};

/**
 * A call under way. `isOver`: its requests were decided, by its answer or without it. `answered`
 * settles when its answer has come and was dealt with.
 */
export type StoreCall = {
  readonly asks: readonly MergedRequest[];
  isOver: boolean;
  answered: Promise<void>;
};

/** The asks that wait for the calls of one bucket, and those calls. */
export type CallQueue = {
  readonly number: number;
  asks: MergedRequest[];
  strikes: MergedRequest[];
  /** The asks of the queue that take more waiters, by account: of each its last. */
  open: Map<string, MergedRequest>;
  readonly calls: StoreCall[];
  isScheduled: boolean;
  /** Something goes ahead of the next call, which waits for it. */
  isPreparing: boolean;
  /** How long a call takes there and back. It rises slowly: a stall of this process is no distance. */
  tripMs: number;
};

/** Two calls at most are under way in a queue: one in Redis, one on its way. */
const CALLS_MAX = 2;

/** Whether a call of the queue may go now. */
export function canSend({ calls, isPreparing }: CallQueue): boolean {
  return calls.length < CALLS_MAX && !isPreparing;
}

/** Calls that take this long there and back go to a Redis in another region. */
const FAR_MS = 40;

/**
 * How long asks gather before they take the second call to a Redis that is far, in milliseconds. Asks
 * that come together would else be parted by the turns of the event loop, and the later ones wait
 * for a whole trip.
 */
export function batchDelayMs({ calls, tripMs }: CallQueue): number {
  return calls.length > 0 && tripMs >= FAR_MS ? tripMs / 8 : 0;
}

export function learnRoundTrip(queue: CallQueue, tookMs: number): void {
  queue.tripMs = Math.min(tookMs, 2 * queue.tripMs + 1);
}

export function newQueue(number: number): CallQueue {
  const idle = { isScheduled: false, isPreparing: false, tripMs: 0 };
  return { number, asks: [], strikes: [], open: new Map(), calls: [], ...idle };
}

export function waitForDecision(merged: MergedRequest): Promise<ChargeResult | StoreUnavailable> {
  return new Promise((resolve) => merged.waiting.push(resolve));
}

/** The asks of the next call: the queue in its order, then strikes, while they share the policy. There is one. */
export function takeBatch(queue: CallQueue): MergedRequest[] {
  const first = queue.asks[0] ?? (queue.strikes[0] as MergedRequest);
  const taken: MergedRequest[] = [];
  for (const source of [queue.asks, queue.strikes]) {
    let count = 0;
    for (const merged of source) {
      if (taken.length >= CALL_ACCOUNTS_MAX || !samePolicy(merged.ask.bans, first.ask.bans)) break;
      taken.push(merged);
      count += 1;
    }
    source.splice(0, count);
  }
  // A Map that grows and is emptied over and over keeps garbage alive (docs/decisions/hot-path.md).
  if (queue.asks.length === 0) queue.open = new Map();
  for (const { id } of queue.open.size > 0 ? taken : []) queue.open.delete(id);
  return taken;
}
