import type { QuotaRequest } from "../../../core/quota/decide.ts";
import type { AccountRef } from "../account-ref.ts";
import type { ChargeResult, StoreUnavailable } from "../quota-store.ts";
import type { CachedDecision } from "./cached-decision.ts";
import { samePolicy } from "./mergeable.ts";

/** The most accounts, and so the most plans, that one call carries: see ARGV in decide.lua. */
export const CALL_ACCOUNTS_MAX = 256;

/** The requests of one account that wait to be decided together. */
export type MergedRequest = {
  readonly id: string;
  readonly accountRef: AccountRef;
  readonly quotaRequest: QuotaRequest;
  /** Set for a refusal that is already known, and may be a strike or cannot tell each window. */
  readonly cached: CachedDecision | undefined;
  /** Units of each limit that the store keeps for other gateways; known when the call is sent. */
  reserved?: readonly number[] | undefined;
  readonly waiting: ((answer: ChargeResult | StoreUnavailable) => void)[];
};

/** A request that the last answer about its account refuses. */
export type KnownRefusal = Pick<MergedRequest, "id" | "accountRef" | "quotaRequest"> & {
  readonly cached: CachedDecision;
};

/**
 * Calls that are sent to one node at once. `isOver`: an answer has arrived, or none is expected any
 * more. `lane`: the Lane of the node.
 */
export type Round = {
  readonly lane: { end(round: Round): void; learnRoundTrip(tookMs: number): void };
  isOver: boolean;
};

/**
 * The requests of one bucket in a round that is in flight. `isOver`: they were decided, by the
 * answer or without it. `answered` settles when the answer has arrived and was handled.
 */
export type StoreCall = {
  readonly queue: CallQueue;
  readonly round: Round;
  readonly requests: readonly MergedRequest[];
  isOver: boolean;
  answered: Promise<void>;
};

/** The requests that wait for the calls of one bucket, and those calls. */
export type CallQueue = {
  readonly number: number;
  requests: MergedRequest[];
  strikes: MergedRequest[];
  /** The requests of the queue that can still be merged with, by account: the last one of each. */
  open: Map<string, MergedRequest>;
  readonly calls: StoreCall[];
  /** Whether the queue is in its lane, for a turn. */
  isInLane: boolean;
  /** Whether work precedes the next call, which waits for it. */
  isPreparing: boolean;
  /** Until when, on performance.now(), requests wait for that work; undefined if there is none. */
  prepareUntilMs: number | undefined;
};

/** A queue has at most two calls in flight: one in Redis, one on its way. */
const CALLS_MAX = 2;

/** Whether a call of the queue may be sent now. */
export function canSend({ calls, isPreparing }: CallQueue): boolean {
  return calls.length < CALLS_MAX && !isPreparing;
}

export function newQueue(number: number): CallQueue {
  const idle = { isInLane: false, isPreparing: false, prepareUntilMs: undefined };
  return { number, requests: [], strikes: [], open: new Map(), calls: [], ...idle };
}

export function waitForDecision(merged: MergedRequest): Promise<ChargeResult | StoreUnavailable> {
  return new Promise((resolve) => merged.waiting.push(resolve));
}

/**
 * Lets nobody wait for the turn of a known refusal longer than `waitMs`: on a Cluster the turns of
 * all buckets take seconds. The store is asked all the same, for the refusals that follow.
 */
export function boundTurn(
  queue: CallQueue,
  merged: MergedRequest,
  waitMs: number,
  late: () => void,
): void {
  setTimeout(() => {
    const at = queue.strikes.indexOf(merged);
    if (at < 0) return;
    const quotaRequest = { ...merged.quotaRequest, strikesOnly: true };
    queue.strikes[at] = { ...merged, quotaRequest, waiting: [] };
    late();
  }, waitMs);
}

/**
 * The requests of the next call, at most `room`: the queue in its order, then strikes. They share the
 * policy, which is that of the first one unless it is given. Strikes under others do not hold them up.
 */
export function takeBatch(
  queue: CallQueue,
  room = CALL_ACCOUNTS_MAX,
  { bans } = firstOf(queue),
): MergedRequest[] {
  const fits = ({ quotaRequest }: MergedRequest) => samePolicy(quotaRequest.bans, bans);
  const end = queue.requests.findIndex((merged) => !fits(merged));
  const taken = queue.requests.splice(0, Math.min(room, end < 0 ? room : end));
  queue.strikes = queue.strikes.filter((merged) => {
    const isLeft = taken.length >= room || !fits(merged);
    if (!isLeft) taken.push(merged);
    return isLeft;
  });
  // A Map that grows and is emptied over and over keeps garbage alive (docs/decisions/hot-path.md).
  if (queue.requests.length === 0) queue.open = new Map();
  for (const { id } of queue.open.size > 0 ? taken : []) queue.open.delete(id);
  return taken;
}

/** The request that goes first. The queue has at least one. */
function firstOf(queue: CallQueue): QuotaRequest {
  return (queue.requests[0] ?? (queue.strikes[0] as MergedRequest)).quotaRequest;
}
