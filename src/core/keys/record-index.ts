type HasId = { readonly id: string };

/**
 * Lists that a store keeps come with their records by id: 100,000 of them lie all over the memory, and
 * looking at each takes ten milliseconds. A list that is not indexed is searched.
 */
const indexes = new WeakMap<readonly HasId[], Index<HasId>>();

/** Finds a record by its id. */
type Index<T> = { get(id: string): T | undefined };

/** Says where the records of a list are found; `byId` has each of them, and no other. */
export function setIndex<T extends HasId>(list: readonly T[], byId: Index<T>): void {
  indexes.set(list, byId);
}

export function isIndexed(list: readonly HasId[]): boolean {
  return indexes.has(list);
}

/** The place of the record of the list that has this id; -1 where there is none. */
export function indexOfId<T extends HasId>(list: readonly T[], id: string): number {
  if (!isIndexed(list)) return list.findIndex((one) => one.id === id);
  const record = findById(list, id);
  return record === undefined ? -1 : list.indexOf(record);
}

/** The record of the list that has this id. */
export function findById<T extends HasId>(list: readonly T[], id: string): T | undefined {
  const index = indexes.get(list) as Index<T> | undefined;
  if (index !== undefined) return index.get(id);
  for (const one of list) if (one.id === id) return one;
  return undefined;
}
