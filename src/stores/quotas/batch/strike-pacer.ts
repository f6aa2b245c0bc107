import type { CallQueue } from "./call-queue.ts";

/**
 * The pause between two calls that carry only strikes: a gateway sends at most 12.5 a second,
 * whatever the flood. It also sends two messages about bans, a version, a heartbeat, and with keys
 * in Redis 2.2 commands for their version: under 19 a second, so that every single second stays
 * within 20.
 */
const PAUSE_MS = 80;

export type StrikePacerOptions = {
  /** Whether a call of the queue may be sent now. */
  readonly canSend: (queue: CallQueue) => boolean;
  /** Sends the strikes of a queue. */
  readonly flush: (queue: CallQueue) => void;
};

/** Paces the calls for strikes that no other request takes along. */
export class StrikePacer {
  readonly #queues: Map<number, CallQueue>;
  readonly #options: StrikePacerOptions;
  #timer: NodeJS.Timeout | undefined;
  #sentMs = Number.NEGATIVE_INFINITY;

  /** `queues` are those of the batch, in the order of their turns. */
  constructor(queues: Map<number, CallQueue>, options: StrikePacerOptions) {
    this.#queues = queues;
    this.#options = options;
  }

  /** How long a strike may wait for its turn, in milliseconds. */
  get longestMs(): number {
    return this.#queues.size * PAUSE_MS;
  }

  /** Called when a strike waits: it is sent when its pause is over. */
  start(): void {
    if (this.#timer !== undefined) return;
    const pauseMs = Math.max(0, this.#sentMs + PAUSE_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#send();
    }, Math.ceil(pauseMs));
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /**
   * Sends one queue at a time. The queue moves to the end of the order, so that each has its turn.
   */
  #send(): void {
    const waiting = [...this.#queues.values()].filter(({ strikes }) => strikes.length > 0);
    if (waiting.length === 0) return;
    this.#sentMs = performance.now();
    const queue = waiting.find(this.#options.canSend);
    if (queue !== undefined) {
      this.#queues.delete(queue.number);
      this.#queues.set(queue.number, queue);
      this.#options.flush(queue);
    }
    if (waiting.some(({ strikes }) => strikes.length > 0)) this.start();
  }
}
