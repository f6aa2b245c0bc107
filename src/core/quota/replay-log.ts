/**
 * The outcome of a request. At one instant the admitted requests come first, because room only
 * shrinks.
 */
const PAST_OUTCOMES = ["admitted", "limited", "banned"] as const;
export type PastOutcome = (typeof PAST_OUTCOMES)[number];

export type ReplayEntry = {
  /** Unix milliseconds of the store's clock. */
  readonly atMs: number;
  /** The number under which the caller keeps plan, limits and cost. */
  readonly kind: number;
  readonly outcome: PastOutcome;
};

const FIRST_ROOM = 65_536;

/**
 * Past requests of many accounts in any order, at 16 bytes each. They are sorted here, because logs
 * are written when requests end, and by several gateways.
 */
export class ReplayLog {
  #atMs = new Float64Array(FIRST_ROOM);
  #account = new Uint32Array(FIRST_ROOM);
  /** Kind and outcome in one number. */
  #what = new Uint32Array(FIRST_ROOM);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a request. `account` and `kind` are numbers that the caller assigns, from 0. */
  add(account: number, { atMs, kind, outcome }: ReplayEntry): void {
    if (this.#size === this.#atMs.length) this.#grow();
    this.#atMs[this.#size] = atMs;
    this.#account[this.#size] = account;
    this.#what[this.#size] = kind * PAST_OUTCOMES.length + PAST_OUTCOMES.indexOf(outcome);
    this.#size += 1;
  }

  /** Each account in turn, with its requests in the order in which they were decided. */
  *byAccount(): Generator<{ readonly account: number; readonly asks: Iterable<ReplayEntry> }> {
    const order = this.#ordered();
    for (let from = 0; from < order.length; ) {
      const account = this.#account[order[from] as number] as number;
      let end = from + 1;
      while (end < order.length && this.#account[order[end] as number] === account) end += 1;
      yield { account, asks: this.#asksOf(order.subarray(from, end)) };
      from = end;
    }
  }

  *#asksOf(places: Uint32Array): Generator<ReplayEntry> {
    for (const place of places) {
      const what = this.#what[place] as number;
      yield {
        atMs: this.#atMs[place] as number,
        kind: Math.floor(what / PAST_OUTCOMES.length),
        outcome: PAST_OUTCOMES[what % PAST_OUTCOMES.length] as PastOutcome,
      };
    }
  }

  #ordered(): Uint32Array {
    const [account, atMs, what] = [this.#account, this.#atMs, this.#what];
    const at = (list: { readonly [place: number]: number }, place: number) => list[place] as number;
    return Uint32Array.from({ length: this.#size }, (_, place) => place).sort((a, b) => {
      return (
        at(account, a) - at(account, b) ||
        at(atMs, a) - at(atMs, b) ||
        (at(what, a) % PAST_OUTCOMES.length) - (at(what, b) % PAST_OUTCOMES.length) ||
        a - b
      );
    });
  }

  #grow(): void {
    const room = this.#atMs.length * 2;
    const [atMs, account, what] = [this.#atMs, this.#account, this.#what];
    this.#atMs = new Float64Array(room);
    this.#account = new Uint32Array(room);
    this.#what = new Uint32Array(room);
    this.#atMs.set(atMs);
    this.#account.set(account);
    this.#what.set(what);
  }
}
