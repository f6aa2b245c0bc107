import fc from "fast-check";

import {
  type Limit,
  type LimitPart,
  mergeLimits,
  sortByLength,
  WINDOW_NAMES,
} from "../../../src/core/quota/windows.ts";

const OPERATIONS: readonly LimitPart[] = [
  { id: "1z141z3", name: "createPet" },
  { id: "7", name: "listPets" },
];

/** One to all windows with limits from 1 to `max`, or now and then the largest that there is. */
function planUpTo(max: number): fc.Arbitrary<readonly Limit[]> {
  return fc
    .uniqueArray(
      fc.record({
        window: fc.constantFrom(...WINDOW_NAMES),
        limit: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max }) }, fc.constant(1e12)),
      }),
      { minLength: 1, maxLength: WINDOW_NAMES.length, selector: ({ window }) => window },
    )
    .map((limits) => limits.toSorted((a, b) => index(a) - index(b)));
}

const KEYS: readonly LimitPart[] = [
  { id: "@0", name: "key" },
  { id: "@17", name: "key" },
];

/**
 * A plan, in a part of all cases with windows of an operation, with caps of a key, and with windows
 * that are observed.
 */
export function limitsUpTo(max: number): fc.Arbitrary<readonly Limit[]> {
  const some = fc.option(planUpTo(max), { nil: undefined, freq: 3 });
  const few = fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, planUpTo(max));
  const parts = fc.tuple(fc.constantFrom(...OPERATIONS), fc.constantFrom(...KEYS));
  return fc
    .tuple(planUpTo(max), some, some, few, parts)
    .map(([plan, limits, observe, caps, [operation, key]]) => {
      const own = caps?.map((limit) => ({ ...limit, part: key }));
      return mergeLimits(own === undefined ? plan : sortByLength([...plan, ...own]), {
        operation: limits?.map((limit) => ({ ...limit, part: operation })),
        observe,
      });
    });
}

/** Mostly 1. */
export const costs = fc.oneof(
  { weight: 6, arbitrary: fc.constant(1) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 6 }) },
  { weight: 1, arbitrary: fc.constant(1_000_000) },
);

function index({ window }: Limit): number {
  return WINDOW_NAMES.indexOf(window);
}
