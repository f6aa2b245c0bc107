/** A request that waits for a connection of one upstream. */
export type Waiter<T> = {
  readonly account: string;
  readonly onFree: (connection: T) => void;
  readonly fresh: boolean;
};

/** An account that holds this share of the connections is a large holder … */
const LARGE = 1 / 2;
/** … and gets a further one only while this share stays free for all others. */
const KEPT_FREE = 1 / 8;

/**
 * Shares the connections of one upstream among accounts (docs/reference/edge.md#connection-shares), so
 * that one account's slow requests never take the last one. Requests that wait are served by
 * accounts in turn, those of an account in their order.
 */
export class ConnectionShares<T> {
  readonly #connectionsMax: number;
  readonly #heldBy = new Map<string, number>();
  readonly #waiting = new Map<string, Set<Waiter<T>>>();
  #held = 0;

  constructor(connectionsMax: number) {
    this.#connectionsMax = connectionsMax;
  }

  /** Whether the account may hold one connection more now. */
  mayTake(account: string): boolean {
    const free = this.#connectionsMax - this.#held;
    if (free <= 0) return false;
    const isLarge = (this.#heldBy.get(account) ?? 0) >= LARGE * this.#connectionsMax;
    return !isLarge || free - 1 >= KEPT_FREE * this.#connectionsMax;
  }

  taken(account: string): void {
    this.#held += 1;
    this.#heldBy.set(account, (this.#heldBy.get(account) ?? 0) + 1);
  }

  returned(account: string): void {
    this.#held -= 1;
    const left = (this.#heldBy.get(account) as number) - 1;
    if (left === 0) this.#heldBy.delete(account);
    else this.#heldBy.set(account, left);
  }

  wait(waiter: Waiter<T>): void {
    const queue = this.#waiting.get(waiter.account) ?? new Set();
    this.#waiting.set(waiter.account, queue.add(waiter));
  }

  /** False where it does not wait any more. */
  giveUp(waiter: Waiter<T>): boolean {
    const queue = this.#waiting.get(waiter.account);
    if (!queue?.delete(waiter)) return false;
    if (queue.size === 0) this.#waiting.delete(waiter.account);
    return true;
  }

  /** Takes out the request whose turn it is, of an account that may take a connection now. */
  next(): Waiter<T> | undefined {
    for (const [account, queue] of this.#waiting) {
      if (!this.mayTake(account)) continue;
      const [waiter] = queue as Iterable<Waiter<T>>;
      this.#waiting.delete(account);
      queue.delete(waiter as Waiter<T>);
      if (queue.size > 0) this.#waiting.set(account, queue);
      return waiter;
    }
    return undefined;
  }
}
