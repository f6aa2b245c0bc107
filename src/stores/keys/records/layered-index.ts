import { inSlices } from "../../../base/event-loop.ts";

/**
 * Records by a unique name. The base is a map of all records, which takes many turns of the event
 * loop to build. The records that changed since are in a layer over it, so that the next change
 * takes one turn.
 */
export class LayeredIndex<T> {
  readonly #base: ReadonlyMap<string, T>;
  /** Null if the record of the base was removed. */
  readonly #over: ReadonlyMap<string, T | null>;
  readonly #nameOf: (record: T) => string;

  private constructor(
    base: ReadonlyMap<string, T>,
    over: ReadonlyMap<string, T | null>,
    nameOf: (record: T) => string,
  ) {
    this.#base = base;
    this.#over = over;
    this.#nameOf = nameOf;
  }

  static empty<T>(nameOf: (record: T) => string): LayeredIndex<T> {
    return new LayeredIndex(new Map(), new Map(), nameOf);
  }

  /** How many records the next change copies. */
  get overSize(): number {
    return this.#over.size;
  }

  get(name: string): T | undefined {
    const over = this.#over.get(name);
    return over === undefined ? this.#base.get(name) : (over ?? undefined);
  }

  /** The same index without the records of `old` and with those of `made`. */
  with({ old, made }: { readonly old: readonly T[]; readonly made: readonly T[] }) {
    const over = new Map(this.#over);
    for (const record of old) over.set(this.#nameOf(record), null);
    for (const record of made) over.set(this.#nameOf(record), record);
    return new LayeredIndex(this.#base, over, this.#nameOf);
  }

  /** An index of all these records, built in pieces. */
  async of(list: readonly T[]): Promise<LayeredIndex<T>> {
    const index = new Map<string, T>();
    await inSlices(list, (record) => index.set(this.#nameOf(record), record));
    return new LayeredIndex(index, new Map(), this.#nameOf);
  }
}
