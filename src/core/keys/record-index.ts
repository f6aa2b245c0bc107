type Named = { readonly id: string };

/**
 * Lists that a store keeps come with their records by id: 100,000 of them lie all over the memory, and
 * looking at each takes ten milliseconds. A list that nobody has indexed is searched.
 */
const indexes = new WeakMap<readonly Named[], ReadonlyMap<string, Named>>();

/** Says where the records of a list are found; `byId` has each of them, and no other. */
export function indexList<T extends Named>(list: readonly T[], byId: ReadonlyMap<string, T>): void {
  indexes.set(list, byId);
}

export function isIndexed(list: readonly Named[]): boolean {
  return indexes.has(list);
}

/** The record of the list that has this id. */
export function byId<T extends Named>(list: readonly T[], id: string): T | undefined {
  const index = indexes.get(list) as ReadonlyMap<string, T> | undefined;
  if (index !== undefined) return index.get(id);
  for (const one of list) if (one.id === id) return one;
  return undefined;
}
