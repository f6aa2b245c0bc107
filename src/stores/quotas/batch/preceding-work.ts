import { lateFailure, type StoreFailure, withTimeout } from "../../redis/store-failure.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type { CallQueue } from "./call-queue.ts";

type Outcomes = {
  /** Called when the work is over, so that the requests of the queue can be sent. */
  readonly ended: (queue: CallQueue) => void;
  /** Called when it failed, or took longer than a call may. */
  readonly failed: (queue: CallQueue, failure: StoreFailure) => void;
};

/**
 * Lets the requests of a queue wait for the work that precedes their call, as charges that the
 * account owes. However often there is more of it, they wait for all of it no longer than for a call.
 */
export class PrecedingWork {
  readonly #outage: Pick<OutageHandler, "prepare" | "timeoutMs">;
  readonly #outcomes: Outcomes;

  constructor(outage: Pick<OutageHandler, "prepare" | "timeoutMs">, outcomes: Outcomes) {
    this.#outage = outage;
    this.#outcomes = outcomes;
  }

  /** Whether no work precedes the next call of the queue. If some does, the queue waits for it. */
  isOver(queue: CallQueue): boolean {
    const preparing = this.#outage.prepare(queue.number);
    if (preparing === undefined) queue.prepareUntilMs = undefined;
    else this.#wait(queue, preparing);
    return preparing === undefined;
  }

  #wait(queue: CallQueue, preparing: Promise<void>): void {
    const { timeoutMs } = this.#outage;
    const nowMs = performance.now();
    queue.isPreparing = true;
    queue.prepareUntilMs ??= nowMs + timeoutMs;
    const leftMs = queue.prepareUntilMs - nowMs;
    const prepared =
      leftMs > 0
        ? withTimeout(preparing, leftMs, timeoutMs)
        : preparing.then(() => Promise.reject(lateFailure(timeoutMs)));
    const ended = () => {
      queue.isPreparing = false;
      this.#outcomes.ended(queue);
    };
    prepared.then(ended, (failure: StoreFailure) => {
      queue.isPreparing = false;
      queue.prepareUntilMs = undefined;
      this.#outcomes.failed(queue, failure);
    });
  }
}
