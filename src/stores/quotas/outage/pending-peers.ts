import type { Peers } from "./heartbeat.ts";

/** How long a gateway may take to return. After that it counts as dead, and its share with it. */
const BACK_MS_MAX = 5_000;
const NEVER = Number.POSITIVE_INFINITY;

/**
 * The other gateways that may have admitted requests from their shares and not charged them yet.
 * The set is filled when an outage begins. A gateway leaves it when its heartbeat says that it owes
 * nothing from before the store came back, or when it does not return in time. Gateways are known
 * by name, so one that joined later replaces none of them. A gateway that was pending in the
 * previous outage stays pending.
 */
export class PendingPeers {
  /** By name: until when the gateway is waited for, on performance.now(). */
  readonly #untilMs = new Map<string, number>();
  readonly #known: ReadonlySet<string>;
  /**
   * The number of gateways that share the limits and were not seen: they may have started while the
   * store was unreachable. A gateway whose name was unknown counts as one of them.
   */
  readonly #unseen: number;
  readonly #joined = new Set<string>();
  #unseenUntilMs = NEVER;
  /** When the store came back, on bucket 0's clock; undefined until then. */
  #sinceMs: number | undefined;

  /**
   * `gateways` is how many share the limits, including this one, as its own share was calculated.
   * `peers` are the names of the others, undefined before the first answer to a heartbeat.
   */
  constructor(gateways: number, peers: ReadonlySet<string> | undefined, before?: PendingPeers) {
    if (before !== undefined) {
      for (const [name, untilMs] of before.#untilMs) this.#untilMs.set(name, untilMs);
    }
    for (const name of peers ?? []) this.#untilMs.set(name, NEVER);
    this.#known = new Set(this.#untilMs.keys());
    this.#unseen = Math.max(0, gateways - 1 - this.#known.size);
  }

  /** The number of pending gateways, always without this one. */
  get count(): number {
    const nowMs = performance.now();
    let count = nowMs < this.#unseenUntilMs ? Math.max(0, this.#unseen - this.#joined.size) : 0;
    for (const untilMs of this.#untilMs.values()) if (nowMs < untilMs) count += 1;
    return count;
  }

  /** Called when the store answers: from now on the others have a limited time to come back too. */
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
