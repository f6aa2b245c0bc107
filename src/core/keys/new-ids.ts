import type { KeyContext } from "./edit-rules.ts";
import { BASE62 } from "./key.ts";
import { FEW_RECORDS, findById, isIndexed } from "./record-index.ts";
import type { Records } from "./records.ts";

/** Ids that a new one must not have. New ids are added to it too. */
export type TakenIds = { has(id: string): boolean; add(id: string): void };

/** Ids of keys and accounts. A new id is none of them, so an ID means one thing. */
export function takenIds({ keys, accounts }: Records, count: number): TakenIds {
  const taken = new Set<string>();
  if (count > FEW_RECORDS && !(isIndexed(keys) && isIndexed(accounts))) {
    for (const { id } of keys) taken.add(id);
    for (const { id } of accounts) taken.add(id);
    return taken;
  }
  return {
    has: (id) => {
      return (
        taken.has(id) || findById(keys, id) !== undefined || findById(accounts, id) !== undefined
      );
    },
    add: (id) => taken.add(id),
  };
}

/** 12 base62 characters: 71 random bits, so ids reveal nothing and do not collide. */
export function freshId(
  start: "k_" | "a_" | "i_",
  { random }: Pick<KeyContext, "random">,
  taken: TakenIds,
): string {
  let id: string;
  do {
    id = start;
    for (let i = 0; i < 12; i++) id += BASE62[random(BASE62.length)];
  } while (taken.has(id));
  taken.add(id);
  return id;
}
