import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Connection, type Message } from "./connection.ts";
import { startTicker } from "./ticker.ts";

export type TrafficOptions = {
  readonly port: number;
  readonly connections: number;
  /** Requests a second, whatever the answers do; undefined: each connection asks without pause. */
  readonly ratePerSecond?: number | undefined;
  /** The next request. */
  next(): Message;
};

/** Answers since the last `take`. */
export type Taken = {
  readonly answers: number;
  readonly seconds: number;
  /** Answers by status. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Requests whose connection ended before the answer. */
  readonly broken: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
};

/** A tick that comes late asks for what it missed, up to so many at once. */
const WAITING_MAX = 10_000;
const DRAIN_MS_MAX = 2_000;

/** Requests over many connections, from when it is made until `close`. */
export class Traffic {
  readonly #options: TrafficOptions;
  readonly #connections: readonly Connection[];
  readonly #idle: Connection[] = [];
  /** When each request was due that waits for a connection. */
  readonly #waiting: number[] = [];
  readonly #histogram: RecordableHistogram = createHistogram({ lowest: 1, highest: 60_000_000 });
  readonly #stopTicker: (() => void) | undefined;
  #statuses = new Map<number, number>();
  #answers = 0;
  #broken = 0;
  #underWay = 0;
  #closing = false;
  #sinceMs = performance.now();

  constructor(options: TrafficOptions) {
    this.#options = options;
    const events = {
      onIdle: (connection: Connection) => this.#onIdle(connection),
      onAnswer: (status: number, ms: number) => this.#onAnswer(status, ms),
      onBroken: () => {
        this.#broken += 1;
        this.#underWay -= 1;
      },
    };
    this.#connections = Array.from({ length: options.connections }, () => {
      return new Connection(options.port, events);
    });
    const { ratePerSecond } = options;
    if (ratePerSecond !== undefined) {
      this.#stopTicker = startTicker(ratePerSecond, () => this.#onTick());
    }
  }

  /** Whole answers since the last `take`. */
  get answers(): number {
    return this.#answers;
  }

  /** The figures since the last call, or since the beginning; they begin anew. */
  take(): Taken {
    const nowMs = performance.now();
    const taken = {
      answers: this.#answers,
      seconds: (nowMs - this.#sinceMs) / 1000,
      statuses: this.#statuses,
      broken: this.#broken,
      p50Ms: this.#histogram.percentile(50) / 1000,
      p99Ms: this.#histogram.percentile(99) / 1000,
    };
    this.#histogram.reset();
    this.#statuses = new Map();
    this.#answers = 0;
    this.#broken = 0;
    this.#sinceMs = nowMs;
    return taken;
  }

  /** Asks no more, and waits for the answers under way, but not for long. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#stopTicker?.();
    const endMs = performance.now() + DRAIN_MS_MAX;
    while (this.#underWay > 0 && performance.now() < endMs) await sleep(5);
    for (const connection of this.#connections) connection.close();
  }

  #onIdle(connection: Connection): void {
    if (this.#closing) return;
    const dueMs =
      this.#options.ratePerSecond === undefined ? performance.now() : this.#waiting.shift();
    if (dueMs === undefined) this.#idle.push(connection);
    else this.#send(connection, dueMs);
  }

  /** A request that finds no connection free waits, and its wait is part of how long it took. */
  #onTick(): void {
    const connection = this.#idle.shift();
    if (connection !== undefined) this.#send(connection, performance.now());
    else if (this.#waiting.length < WAITING_MAX) this.#waiting.push(performance.now());
  }

  #send(connection: Connection, dueMs: number): void {
    this.#underWay += 1;
    connection.send(this.#options.next(), dueMs);
  }

  #onAnswer(status: number, ms: number): void {
    this.#underWay -= 1;
    this.#answers += 1;
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
    this.#histogram.record(Math.max(1, Math.round(ms * 1000)));
  }
}
