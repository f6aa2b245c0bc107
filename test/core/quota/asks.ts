import fc from "fast-check";

import {
  type Limit,
  mergeLimits,
  type OperationRef,
  WINDOW_NAMES,
} from "../../../src/core/quota/windows.ts";

const OPERATIONS: readonly OperationRef[] = [
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

/** A plan, in a part of all cases with windows of an operation, and with windows that are observed. */
export function limitsUpTo(max: number): fc.Arbitrary<readonly Limit[]> {
  const some = fc.option(planUpTo(max), { nil: undefined, freq: 3 });
  return fc
    .tuple(planUpTo(max), some, fc.constantFrom(...OPERATIONS), some)
    .map(([plan, limits, operation, observe]) => {
      return mergeLimits(plan, {
        operation: limits?.map((limit) => ({ ...limit, operation })),
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
