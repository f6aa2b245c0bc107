import fc from "fast-check";
import type { BanPolicy } from "../../../../src/core/quota/bans.ts";
import { type Limit, WINDOW_NAMES, type WindowName } from "../../../../src/core/quota/windows.ts";
import { costs, limitsUpTo } from "../../../core/quota/asks.ts";

export const DAY = 86_400_000;
const YEAR = 366 * DAY;
export const ACCOUNTS = 3;

/** One step of a sequence; an account is 0, 1 or 2. */
type Step =
  | {
      readonly kind: "ask";
      readonly asks: readonly {
        account: number;
        units: number;
        cost: number;
        strikesOnly: boolean;
        reserved: readonly number[] | undefined;
      }[];
    }
  | { readonly kind: "terms"; readonly account: number; readonly limits: readonly Limit[] }
  | { readonly kind: "policy"; readonly bans: BanPolicy | undefined }
  | { readonly kind: "clock"; readonly byMs: number }
  | { readonly kind: "edge"; readonly window: WindowName; readonly offMs: number }
  | { readonly kind: "anchor"; readonly account: number; readonly day: number }
  | { readonly kind: "monthEdge"; readonly account: number; readonly offMs: number }
  | { readonly kind: "damage"; readonly account: number; readonly how: Damage }
  | { readonly kind: "persist"; readonly account: number };

export type Damage = {
  readonly field: WindowName | "strikes" | "ban" | "key";
  readonly text: string;
};

const limits = limitsUpTo(12);
const policy: fc.Arbitrary<BanPolicy | undefined> = fc.option(
  fc.record({
    strikes: fc.integer({ min: 1, max: 4 }),
    withinMs: fc.constantFrom(500, 5_000, 60_000, DAY),
    graceMs: fc.constantFrom(0, 1, 1_000, 90_000),
    durationMs: fc.constantFrom(1, 1_000, 60_000, DAY),
    factor: fc.constantFrom(1, 1.1, 1.5, 4, 1e300),
    maxMs: fc.constantFrom(60_000, 3_600_000, 40 * DAY),
    forgetAfterMs: fc.constantFrom(0, 1_000, DAY),
    observe: fc.boolean(),
  }),
  { nil: undefined, freq: 8 },
);
const account = fc.integer({ min: 0, max: ACCOUNTS - 1 });
const units = fc.oneof(
  { weight: 6, arbitrary: fc.constant(1) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 15 }) },
  { weight: 1, arbitrary: fc.constant(999_999_999_990) },
);
const strikesOnly = fc.oneof(
  { weight: 4, arbitrary: fc.constant(false) },
  { weight: 1, arbitrary: fc.constant(true) },
);
/** Units that are kept for other gateways, of each limit in order. */
const reserved = fc.option(fc.array(fc.integer({ min: 0, max: 14 }), { maxLength: 6 }), {
  nil: undefined,
  freq: 1,
});
const damage: fc.Arbitrary<Damage> = fc.record({
  field: fc.constantFrom<Damage["field"]>(...WINDOW_NAMES, "strikes", "ban", "key"),
  text: fc.constantFrom(
    "",
    "x",
    "1 2",
    "-1 0 0",
    "1e3 1 1",
    "1 99999999999999999999 0",
    "nan 0 0",
    "1.5 1 1",
    "99999999999999999999 1 m 1",
    "1 99999999999999999999 m 1",
    "1 1 m 99999999999999999999",
  ),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 60,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      asks: fc.array(fc.record({ account, units, cost: costs, strikesOnly, reserved }), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("terms" as const), account, limits }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("policy" as const), bans: policy }) },
  {
    weight: 30,
    arbitrary: fc.record({
      kind: fc.constant("clock" as const),
      byMs: fc.oneof(
        fc.integer({ min: 0, max: 3_000 }),
        fc.integer({ min: -3_000, max: 200_000 }),
        fc.constantFrom(
          1,
          499,
          500,
          999,
          1_000,
          1_001,
          5_000,
          59_999,
          60_000,
          3_600_000,
          DAY,
          7 * DAY,
          31 * DAY,
        ),
        fc.constantFrom(
          -1,
          -1_000,
          -1_500,
          -60_000,
          -90_000,
          -3_600_000,
          -DAY,
          -7 * DAY,
          -31 * DAY,
          YEAR,
          -YEAR,
        ),
      ),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("edge" as const),
      window: fc.constantFrom(...WINDOW_NAMES),
      offMs: fc.integer({ min: -1, max: 1 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("anchor" as const),
      account,
      day: fc.integer({ min: 1, max: 31 }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("monthEdge" as const),
      account,
      offMs: fc.integer({ min: -1, max: 1 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("damage" as const), account, how: damage }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("persist" as const), account }) },
);
const startMs = fc.constantFrom(
  Date.UTC(2026, 11, 31, 23, 59, 59, 999),
  Date.UTC(2028, 1, 29, 23, 59, 59),
  Date.UTC(2100, 1, 28, 23, 59, 58),
  Date.UTC(2000, 2, 1),
  Date.UTC(2026, 6, 15, 12, 30, 30, 500),
  Date.UTC(2026, 10, 22, 23, 59, 59, 999),
  Date.UTC(1970, 0, 1) + 40 * DAY,
);
/** A start, a policy, a plan for each account, and up to a hundred steps. */
export const sequence = fc.record({
  startMs,
  bans: policy,
  plans: fc.array(limits, { minLength: ACCOUNTS, maxLength: ACCOUNTS }),
  steps: fc.array(step, { minLength: 1, maxLength: 100, size: "max" }),
});

export type Sequence = typeof sequence extends fc.Arbitrary<infer T> ? T : never;
