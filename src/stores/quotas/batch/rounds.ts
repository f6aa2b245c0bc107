import type { AccountRef } from "../account-ref.ts";
import {
  CALL_ACCOUNTS_MAX,
  type CallQueue,
  canSend,
  type MergedRequest,
  newQueue,
  takeBatch,
} from "./call-queue.ts";
import { Lane } from "./lane.ts";
import { PrecedingWork } from "./preceding-work.ts";
import { type Batch, type Decided, StoreCalls, type StoreCallsOptions } from "./store-calls.ts";
import { StrikePacer } from "./strike-pacer.ts";

export type RoundsOptions = StoreCallsOptions & {
  /** The queue of an account: its bucket on a Cluster, which can fail by itself. */
  readonly queueOf: (accountRef: AccountRef) => number;
  /** The node that has a queue now. Queues of one node share their rounds. */
  readonly nodeOf: (queue: number) => object;
};

/**
 * The requests that wait for the store: while rounds are in flight, requests gather in queues, and the
 * next round carries all of them, those of all queues of a node together. Known refusals go along, or
 * in a paced call of their own.
 */
export class Rounds {
  readonly #options: RoundsOptions;
  readonly #decided: Decided;
  readonly #queues = new Map<number, CallQueue>();
  readonly #lanes = new WeakMap<object, Lane>();
  readonly #calls: StoreCalls;
  readonly #strikes = new StrikePacer(this.#queues, {
    canSend: (queue) => canSend(queue) && this.#lane(queue).isFree,
    flush: (queue) => this.#flush(queue),
  });
  readonly #precedingWork: PrecedingWork;

  constructor(options: RoundsOptions, decided: Decided) {
    this.#options = options;
    this.#decided = decided;
    this.#calls = new StoreCalls(options, decided, (queue) => this.#schedule(queue));
    this.#precedingWork = new PrecedingWork(options.outage, {
      ended: (queue) => {
        if (queue.requests.length + queue.strikes.length > 0) this.#flush(queue);
      },
      failed: (queue, failure) => {
        this.#calls.tellEnd(queue, failure);
        while (queue.requests.length + queue.strikes.length > 0) {
          for (const merged of takeBatch(queue)) decided.fail(merged);
        }
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
    if (batches.length > 0) this.#calls.send(lane, batches);
    for (const { queue } of batches) this.#schedule(queue);
  }

  /** Sends what one queue has, without those that share its node. */
  #flush(queue: CallQueue): void {
    if (!this.#isReady(queue)) return;
    this.#calls.send(this.#lane(queue), [{ queue, merged: takeBatch(queue) }]);
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
}
