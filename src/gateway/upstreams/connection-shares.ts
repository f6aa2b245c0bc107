import { isAddressName } from "../../core/keys/records.ts";

/** A request that waits for a connection of one upstream. */
type Waiter = {
  readonly account: string;
  /** Called when the account has been given one of the connections. */
  readonly onFree: () => void;
};

/** A holder with this share of the connections is a large one … */
const LARGE = 1 / 2;
/** … and gets another connection only while this share stays free for all others. */
const KEPT_FREE = 1 / 8;

/** The one holder for all client addresses without a key. No account has this name. */
const ADDRESSES = "addr:";

/** The holder of an account: the account itself, or the one that all client addresses share. */
export function holderOf(account: string): string {
  return isAddressName(account) ? ADDRESSES : account;
}

/** The most connections that all client addresses have together. */
function mostOfAddresses(connectionsMax: number): number {
  return Math.max(1, Math.floor(connectionsMax - KEPT_FREE * connectionsMax));
}

/**
 * How many connections each holder has. Holders that have none any more stay in the Map until there
 * are many of them, and then it is replaced: a Map that grows and shrinks with each request keeps
 * garbage alive (docs/decisions/hot-path.md).
 */
class Holders {
  connectionsMax: number;
  #heldBy = new Map<string, number>();
  held = 0;

  constructor(connectionsMax: number) {
    this.connectionsMax = connectionsMax;
  }

  /** Whether the holder may have one more connection now. */
  mayTake(holder: string): boolean {
    const free = this.connectionsMax - this.held;
    if (free <= 0) return false;
    const isLarge = (this.#heldBy.get(holder) ?? 0) >= LARGE * this.connectionsMax;
    return !isLarge || free - 1 >= KEPT_FREE * this.connectionsMax;
  }

  taken(holder: string): void {
    this.held += 1;
    this.#heldBy.set(holder, (this.#heldBy.get(holder) ?? 0) + 1);
  }

  returned(holder: string): void {
    this.held -= 1;
    this.#heldBy.set(holder, (this.#heldBy.get(holder) as number) - 1);
    if (this.#heldBy.size <= 2 * this.connectionsMax) return;
    const held = new Map<string, number>();
    for (const [each, count] of this.#heldBy) if (count > 0) held.set(each, count);
    this.#heldBy = held;
  }
}

/**
 * Shares the connections of one upstream among accounts (docs/reference/edge.md#connection-shares),
 * so that one account's slow requests never take the last connection. Waiting requests are served
 * by account in turn, and in order within an account. Client addresses without a key are one holder
 * together and share its part as accounts share the whole, so their number takes nothing from an
 * account.
 */
export class ConnectionShares {
  readonly #holders: Holders;
  readonly #addresses: Holders;
  /** Waiting requests by holder, and within a holder by account. */
  readonly #waiting = new Map<string, Map<string, Set<Waiter>>>();

  constructor(connectionsMax: number) {
    this.#holders = new Holders(connectionsMax);
    this.#addresses = new Holders(mostOfAddresses(connectionsMax));
  }

  /**
   * Limits it to the connections that are open, with those that are idle: one of those that are held
   * could not be opened.
   */
  limitToOpen(idle: number): void {
    this.limitTo(this.#holders.held - 1 + idle);
  }

  /** Changes the limit. Connections beyond a lower one stay until they are returned. */
  limitTo(connectionsMax: number): void {
    this.#holders.connectionsMax = connectionsMax;
    this.#addresses.connectionsMax = mostOfAddresses(connectionsMax);
  }

  /** Whether all connections, with those that are idle, are fewer than there may be. */
  hasRoomBeside(idle: number): boolean {
    return this.#holders.held + idle < this.#holders.connectionsMax;
  }

  /** Whether the account may hold one more connection now. */
  mayTake(account: string): boolean {
    return this.#holders.mayTake(holderOf(account)) && this.#mayTakeInside(account);
  }

  onTaken(account: string): void {
    this.#holders.taken(holderOf(account));
    if (isAddressName(account)) this.#addresses.taken(account);
  }

  onReturned(account: string): void {
    this.#holders.returned(holderOf(account));
    if (isAddressName(account)) this.#addresses.returned(account);
  }

  wait(waiter: Waiter): void {
    const { account } = waiter;
    const accounts = this.#waiting.get(holderOf(account)) ?? new Map<string, Set<Waiter>>();
    this.#waiting.set(holderOf(account), accounts);
    const queue = accounts.get(account) ?? new Set();
    accounts.set(account, queue.add(waiter));
  }

  /** Removes a waiter. Returns false if it is not waiting any more. */
  giveUp(waiter: Waiter): boolean {
    const { account } = waiter;
    const accounts = this.#waiting.get(holderOf(account));
    const queue = accounts?.get(account);
    if (accounts === undefined || !queue?.delete(waiter)) return false;
    if (queue.size === 0) accounts.delete(account);
    if (accounts.size === 0) this.#waiting.delete(holderOf(account));
    return true;
  }

  /** Gives connections to the waiting requests of the accounts that may take one now. */
  serve(): void {
    for (let waiter = this.next(); waiter !== undefined; waiter = this.next()) waiter.onFree();
  }

  /** Removes and returns the next waiting request of an account that may take a connection now. */
  next(): Waiter | undefined {
    for (const [holder, accounts] of this.#waiting) {
      if (!this.#holders.mayTake(holder)) continue;
      for (const [account, queue] of accounts) {
        if (!this.#mayTakeInside(account)) continue;
        const [waiter] = queue as Iterable<Waiter>;
        // Moves both to the end of their queues: a Map keeps insertion order.
        accounts.delete(account);
        this.#waiting.delete(holder);
        queue.delete(waiter as Waiter);
        if (queue.size > 0) accounts.set(account, queue);
        if (accounts.size > 0) this.#waiting.set(holder, accounts);
        return waiter;
      }
    }
    return undefined;
  }

  #mayTakeInside(account: string): boolean {
    return !isAddressName(account) || this.#addresses.mayTake(account);
  }
}
