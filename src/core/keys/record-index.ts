/** A key or an account, as far as lists find it. */
export type HasId = { readonly id: string };

/**
 * Lists that a store keeps are indexed by id. 100,000 records are scattered over the memory, and
 * visiting each takes ten milliseconds. A list that is not indexed is searched.
 */
const indexes = new WeakMap<readonly HasId[], Index<HasId>>();

/** Up to this number of records are looked up one by one. For more, a set is built. */
export const FEW_RECORDS = 8;

/** Finds a record by its id. */
type Index<T> = { get(id: string): T | undefined };

/** Sets the index of a list. `byId` has each of its records, and no other. */
export function setIndex<T extends HasId>(list: readonly T[], byId: Index<T>): void {
  indexes.set(list, byId);
}

export function isIndexed(list: readonly HasId[]): boolean {
  return indexes.has(list);
}

/** The position of the record with this id in the list; -1 if there is none. */
export function indexOfId<T extends HasId>(list: readonly T[], id: string): number {
  if (!isIndexed(list)) return list.findIndex((one) => one.id === id);
  const record = findById(list, id);
  return record === undefined ? -1 : list.indexOf(record);
}

/** The record with this id in the list. */
export function findById<T extends HasId>(list: readonly T[], id: string): T | undefined {
  const index = indexes.get(list) as Index<T> | undefined;
  if (index !== undefined) return index.get(id);
  for (const one of list) if (one.id === id) return one;
  return undefined;
}

/** The list, in which records of `by` replace those with the same ids. */
export function replaceById<T extends HasId>(list: readonly T[], by: readonly T[]): readonly T[] {
  if (by.length <= FEW_RECORDS && isIndexed(list)) {
    const changed = [...list];
    for (const record of by) {
      const old = findById(list, record.id);
      if (old !== undefined) changed[list.indexOf(old)] = record;
    }
    return changed;
  }
  const fresh = new Map(by.map((record) => [record.id, record]));
  return list.map((record) => fresh.get(record.id) ?? record);
}

/** The ids of records. */
export function idsOf(records: readonly HasId[]): ReadonlySet<string> {
  return new Set(records.map(({ id }) => id));
}
