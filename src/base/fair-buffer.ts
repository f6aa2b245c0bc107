/** An owner with its items, oldest first, among the owners that have the same number. */
type Owner<T> = {
  readonly name: string;
  count: number;
  first: Item<T>;
  last: Item<T>;
  before: Owner<T> | undefined;
  after: Owner<T> | undefined;
};
type Item<T> = { readonly value: T; next: Item<T> | undefined };
/**
 * Owners with the same number of items. The one that has had this number for longest comes first.
 */
type Level<T> = { first: Owner<T> | undefined; last: Owner<T> | undefined };

/**
 * A buffer that owners share. `drop` removes the oldest item of the owner with the most items, so
 * that no owner can push out the items of owners with fewer. Adding and dropping take constant
 * time.
 */
export class FairBuffer<T> {
  readonly #owners = new Map<string, Owner<T>>();
  /** Owners by their number of items. */
  readonly #levels: Level<T>[] = [];
  #size = 0;
  #largest = 0;

  get size(): number {
    return this.#size;
  }

  /** The number of items of the owner that has the most. */
  get largest(): number {
    return this.#largest;
  }

  add(name: string, value: T): void {
    const item: Item<T> = { value, next: undefined };
    let owner = this.#owners.get(name);
    if (owner === undefined) {
      owner = { name, count: 1, first: item, last: item, before: undefined, after: undefined };
      this.#owners.set(name, owner);
    } else {
      this.#leave(owner);
      owner.last.next = item;
      owner.last = item;
      owner.count += 1;
    }
    this.#join(owner);
    this.#size += 1;
    this.#largest = Math.max(this.#largest, owner.count);
  }

  /** Removes one item. */
  drop(): void {
    const owner = this.#levels[this.#largest]?.first;
    if (owner === undefined) return;
    this.#leave(owner);
    this.#size -= 1;
    owner.count -= 1;
    if (owner.first.next === undefined) this.#owners.delete(owner.name);
    else {
      owner.first = owner.first.next;
      this.#join(owner);
    }
    if (this.#levels[this.#largest]?.first === undefined) this.#largest -= 1;
  }

  /** The items of each owner together, oldest first. */
  *values(): Generator<T> {
    for (const owner of this.#owners.values()) {
      for (let item: Item<T> | undefined = owner.first; item !== undefined; item = item.next) {
        yield item.value;
      }
    }
  }

  #join(owner: Owner<T>): void {
    this.#levels[owner.count] ??= { first: undefined, last: undefined };
    const level = this.#levels[owner.count] as Level<T>;
    owner.before = level.last;
    owner.after = undefined;
    if (level.last === undefined) level.first = owner;
    else level.last.after = owner;
    level.last = owner;
  }

  #leave({ count, before, after }: Owner<T>): void {
    const level = this.#levels[count] as Level<T>;
    if (before === undefined) level.first = after;
    else before.after = after;
    if (after === undefined) level.last = before;
    else after.before = before;
  }
}
