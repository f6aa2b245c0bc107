import type { CallQueue, Round } from "./call-queue.ts";

/** At most two rounds of a lane are in flight: one in Redis, one on its way. */
const ROUNDS_MAX = 2;

/** A round trip that takes this long goes to a Redis in another region. */
const FAR_MS = 40;

/**
 * The way to one node of the store. The calls of its buckets go together, in rounds. While rounds
 * are in flight, requests of all these buckets gather, and the next round carries them.
 */
export class Lane {
  readonly #send: (lane: Lane) => void;
  #queues: CallQueue[] = [];
  #rounds = 0;
  #isScheduled = false;
  #tripMs = 0;

  /** `send` takes queues of the lane and begins a round. */
  constructor(send: (lane: Lane) => void) {
    this.#send = send;
  }

  /** Whether a round may be sent now. */
  get isFree(): boolean {
    return this.#rounds < ROUNDS_MAX;
  }

  /** Gives the queue a turn, unless it waits for one. */
  add(queue: CallQueue): void {
    if (!queue.isInLane) {
      queue.isInLane = true;
      this.#queues.push(queue);
    }
    this.#schedule();
  }

  /**
   * Offers each queue that waits for a turn to `take`, which returns false if the round has no
   * place for it. That queue keeps its turn.
   */
  offer(take: (queue: CallQueue) => boolean): void {
    const queues = this.#queues;
    this.#queues = [];
    const left = queues.filter((queue) => {
      queue.isInLane = false;
      if (take(queue)) return false;
      queue.isInLane = true;
      return true;
    });
    // Ahead of those that were added during this, which were served in part.
    if (left.length > 0) this.#queues.unshift(...left);
    if (this.#queues.length > 0) this.#schedule();
  }

  begin(): Round {
    this.#rounds += 1;
    return { lane: this, isOver: false };
  }

  /**
   * Called when a call of the round has ended. The first one ends the round: the node answers all at
   * once, and what other nodes answer, of buckets that have moved, is not waited for.
   */
  end(round: Round): void {
    if (round.isOver) return;
    round.isOver = true;
    this.#rounds -= 1;
    if (this.#queues.length > 0) this.#schedule();
  }

  /** Learns from a round trip, upwards slowly: a stall of this process is no distance. */
  learnRoundTrip(tookMs: number): void {
    this.#tripMs = Math.min(tookMs, 2 * this.#tripMs + 1);
  }

  /**
   * How long requests gather before they take the second round to a distant Redis, in milliseconds.
   * Otherwise the turns of the event loop would separate requests that arrive together, and the
   * later ones would wait for a whole round trip.
   */
  get delayMs(): number {
    return this.#rounds > 0 && this.#tripMs >= FAR_MS ? this.#tripMs / 8 : 0;
  }

  /** Begins after the sockets of this turn are read, so that what arrived together shares it. */
  #schedule(): void {
    if (this.#isScheduled || !this.isFree) return;
    this.#isScheduled = true;
    const go = () => {
      this.#isScheduled = false;
      if (this.isFree) this.#send(this);
    };
    const pauseMs = this.delayMs;
    if (pauseMs === 0) setImmediate(go);
    else setTimeout(go, pauseMs);
  }
}
