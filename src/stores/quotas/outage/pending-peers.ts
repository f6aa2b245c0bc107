import type { Peers } from "./heartbeat.ts";

/** A gateway that is not back by then has died, and its share with it. */
const BACK_MS_MAX = 5_000;
const NEVER = Number.POSITIVE_INFINITY;

/**
 * The other gateways that may have admitted requests from their shares and not charged them yet. It
 * begins with an outage; each that says in a heartbeat that it owes nothing from before the store was
 * back leaves it, and so does one that is not back in time. They are known by name: a gateway that
 * joined since stands for none of them. One that was pending in the outage before stays pending.
 */
export class PendingPeers {
  /** By name: until when it is waited for, on performance.now(). */
  readonly #untilMs = new Map<string, number>();
  readonly #known: ReadonlySet<string>;
  /**
   * Gateways that are expected, where none could be seen yet. A name that was unknown is one of them.
   */
  readonly #unseen: number;
  readonly #joined = new Set<string>();
  #unseenUntilMs = NEVER;
  /** When the store was seen to be back, on its clock of bucket 0; undefined until then. */
  #sinceMs: number | undefined;

  /**
   * `gateways` is how many share the limits, this one too; `peers` are the others by name, undefined
   * before a heartbeat was answered.
   */
  constructor(gateways: number, peers: ReadonlySet<string> | undefined, before?: PendingPeers) {
    if (before !== undefined) {
      for (const [name, untilMs] of before.#untilMs) this.#untilMs.set(name, untilMs);
    }
    for (const name of peers ?? []) this.#untilMs.set(name, NEVER);
    this.#known = new Set(this.#untilMs.keys());
    this.#unseen = peers === undefined ? Math.max(0, gateways - 1 - this.#known.size) : 0;
  }

  /** How many there are; never this gateway itself. */
  get count(): number {
    const nowMs = performance.now();
    let count = nowMs < this.#unseenUntilMs ? Math.max(0, this.#unseen - this.#joined.size) : 0;
    for (const untilMs of this.#untilMs.values()) if (nowMs < untilMs) count += 1;
    return count;
  }

  /** Called when the store answers: from now on the others have so long to come back too. */
  onStoreBack(storeNowMs: number): void {
    if (this.#sinceMs !== undefined) return;
    this.#sinceMs = storeNowMs;
    this.#unseenUntilMs = performance.now() + BACK_MS_MAX;
    for (const [name, untilMs] of this.#untilMs) {
      if (untilMs === NEVER) this.#untilMs.set(name, this.#unseenUntilMs);
    }
  }

  /** Called with the answer to a heartbeat. */
  onHeartbeat(peers: Peers): void {
    if (this.#sinceMs === undefined) return;
    for (const [name, settledMs] of peers) {
      if (settledMs <= this.#sinceMs) continue;
      this.#untilMs.delete(name);
      if (!this.#known.has(name)) this.#joined.add(name);
    }
  }
}
