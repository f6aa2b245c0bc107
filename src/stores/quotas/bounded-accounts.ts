import { isAddressId } from "./account-ref.ts";

/** The part of the places that all addresses share: one in ten. */
const ADDRESSES_PART = 10;

/**
 * A bounded map of values by account id. Beyond `max` the oldest is dropped. Client addresses have
 * places of their own, so that no number of them drops an account
 * (docs/reference/plans.md#public-operations).
 */
export class BoundedAccounts<T> {
  readonly #accounts = new Map<string, T>();
  readonly #addresses = new Map<string, T>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#accounts.size + this.#addresses.size;
  }

  get(id: string): T | undefined {
    return this.#mapOf(id).get(id);
  }

  /** Replaces the value of an id that is there. */
  replace(id: string, value: T): void {
    this.#mapOf(id).set(id, value);
  }

  /** Adds a value as the newest. Returns the one that was dropped for it. */
  add(id: string, value: T): T | undefined {
    const map = this.#mapOf(id);
    const max = map === this.#addresses ? Math.ceil(this.#max / ADDRESSES_PART) : this.#max;
    map.delete(id);
    let dropped: T | undefined;
    const [oldest] = map.size >= max ? map.keys() : [];
    if (oldest !== undefined) {
      dropped = map.get(oldest);
      map.delete(oldest);
    }
    map.set(id, value);
    return dropped;
  }

  delete(id: string): void {
    this.#mapOf(id).delete(id);
  }

  values(): T[] {
    return [...this.#accounts.values(), ...this.#addresses.values()];
  }

  clear(): void {
    this.#accounts.clear();
    this.#addresses.clear();
  }

  #mapOf(id: string): Map<string, T> {
    return isAddressId(id) ? this.#addresses : this.#accounts;
  }
}
