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

const METERS: readonly LimitPart[] = [
  { id: "#tokens", name: "tokens" },
  { id: "#rows-read", name: "rows-read" },
];

/** The windows of one or two meters, each with its hold. */
function metersUpTo(max: number): fc.Arbitrary<readonly Limit[]> {
  const hold = fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 0, max: 6 }) },
    fc.constant(max + 1),
  );
  return fc
    .tuple(planUpTo(max), hold, fc.option(planUpTo(max), { nil: [] }), hold)
    .map(([tokens, first, rows, second]) => [
      ...tokens.map((limit) => ({ ...limit, part: METERS[0] as LimitPart, hold: first })),
      ...rows.map((limit) => ({ ...limit, part: METERS[1] as LimitPart, hold: second })),
    ]);
}

/**
 * A plan, in a part of all cases with windows of an operation, with caps of a key, with windows that
 * are observed, and with meters.
 */
export function limitsUpTo(max: number): fc.Arbitrary<readonly Limit[]> {
  const some = fc.option(planUpTo(max), { nil: undefined, freq: 3 });
  const few = fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, planUpTo(max));
  const metered = fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, metersUpTo(max));
  const parts = fc.tuple(fc.constantFrom(...OPERATIONS), fc.constantFrom(...KEYS));
  return fc
    .tuple(planUpTo(max), some, some, few, parts, metered)
    .map(([plan, limits, observe, caps, [operation, key], meters]) => {
      const own = caps?.map((limit) => ({ ...limit, part: key }));
      const all = mergeLimits(own === undefined ? plan : sortByLength([...plan, ...own]), {
        operation: limits?.map((limit) => ({ ...limit, part: operation })),
        observe,
      });
      return meters.length === 0 ? all : sortByLength([...all, ...meters]);
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
