import { BUCKET_COUNT } from "../redis/hash-slots.ts";

/** Whether these parts are the whole store, so that nothing was read from it. */
export function isWholeStore(missing: Iterable<readonly number[]>): boolean {
  return new Set([...missing].flat()).size === BUCKET_COUNT;
}
