import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import type { ChainableCommander, Redis } from "ioredis";
import {
  type Account,
  type Ask,
  type BanPolicy,
  decide,
  NEW_ACCOUNT,
  type Verdict,
} from "../../src/core/quota.ts";
import type { Limit, WindowName } from "../../src/core/windows.ts";
import {
  DECIDE,
  decideArguments,
  type KeyedAsk,
  readVerdicts,
} from "../../src/stores/redis-script.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

const SEQUENCES = Number(process.env.TOLLGATE_SEQUENCES ?? 1_000);
const DAY = 86_400_000;
const YEAR = 366 * DAY;
const ACCOUNTS = 3;
const LETTER = { second: "s", minute: "m", hour: "h", day: "d", month: "M" } as const;

/** What a sequence may do next; an account is 0, 1 or 2. */
type Step =
  | { readonly kind: "ask"; readonly asks: readonly { account: number; units: number }[] }
  | { readonly kind: "terms"; readonly account: number; readonly limits: readonly Limit[] }
  | { readonly kind: "policy"; readonly bans: BanPolicy | undefined }
  | { readonly kind: "clock"; readonly byMs: number }
  | { readonly kind: "edge"; readonly window: WindowName; readonly offMs: number }
  | { readonly kind: "damage"; readonly account: number; readonly how: Damage }
  | { readonly kind: "persist"; readonly account: number };

type Damage = { readonly field: WindowName | "strikes" | "ban" | "key"; readonly text: string };

const limits: fc.Arbitrary<readonly Limit[]> = fc.uniqueArray(
  fc.record({
    window: fc.constantFrom<WindowName>("second", "minute", "hour", "day", "month"),
    limit: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 12 }) }, fc.constant(1e12)),
  }),
  { minLength: 1, maxLength: 5, selector: ({ window }) => window },
);
const policy: fc.Arbitrary<BanPolicy | undefined> = fc.option(
  fc.record({
    strikes: fc.integer({ min: 1, max: 4 }),
    withinMs: fc.constantFrom(500, 5_000, 60_000, DAY),
    graceMs: fc.constantFrom(0, 1, 1_000, 90_000),
    durationMs: fc.constantFrom(1, 1_000, 60_000, DAY),
    factor: fc.constantFrom(1, 1.1, 1.5, 4, 1e300),
    maxMs: fc.constantFrom(60_000, 3_600_000, 40 * DAY),
    forgetAfterMs: fc.constantFrom(0, 1_000, DAY),
  }),
  { nil: undefined, freq: 8 },
);
const account = fc.integer({ min: 0, max: ACCOUNTS - 1 });
const units = fc.oneof(
  { weight: 6, arbitrary: fc.constant(1) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 15 }) },
  { weight: 1, arbitrary: fc.constant(999_999_999_990) },
);
const damage: fc.Arbitrary<Damage> = fc.record({
  field: fc.constantFrom<Damage["field"]>(
    "second",
    "minute",
    "hour",
    "day",
    "month",
    "strikes",
    "ban",
    "key",
  ),
  text: fc.constantFrom(
    "",
    "x",
    "1 2",
    "-1 0 0",
    "1e3 1 1",
    "1 99999999999999999999 0",
    "nan 0 0",
    "1.5 1 1",
  ),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 60,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      asks: fc.array(fc.record({ account, units }), { minLength: 1, maxLength: 4 }),
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
        fc.constantFrom(1, 499, 999, 1_000, 1_001, 59_999, 60_000, 3_600_000, DAY, 31 * DAY),
        fc.constantFrom(-1, -1_000, -60_000, -3_600_000, -DAY, -31 * DAY, YEAR, -YEAR),
      ),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("edge" as const),
      window: fc.constantFrom<WindowName>("second", "minute", "hour", "day", "month"),
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
  Date.UTC(1970, 0, 1) + 40 * DAY,
);
const sequence = fc.record({
  startMs,
  bans: policy,
  plans: fc.array(limits, { minLength: ACCOUNTS, maxLength: ACCOUNTS }),
  steps: fc.array(step, { minLength: 1, maxLength: 100, size: "max" }),
});

/** The first millisecond after the window that holds `nowMs`, from the calendar of the machine. */
function nextEdge(window: WindowName, nowMs: number): number {
  const at = new Date(nowMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  const [hour, minute, second] = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()];
  if (window === "second") return Date.UTC(year, month, day, hour, minute, second + 1);
  if (window === "minute") return Date.UTC(year, month, day, hour, minute + 1);
  if (window === "hour") return Date.UTC(year, month, day, hour + 1);
  if (window === "day") return Date.UTC(year, month, day + 1);
  return Date.UTC(year, month + 1);
}

/** The account as the script should find it: what was damaged is lost, and worth telling once. */
type Modelled = { account: Account; readonly damaged: Set<string> };

function expect(held: Modelled, ask: Ask, nowMs: number): Verdict {
  const usage = { ...held.account.usage };
  let { strikesMs, ban } = held.account;
  const damaged = held.damaged.has("key");
  let repaired = damaged;
  for (const { window } of ask.limits) {
    if (!held.damaged.has(window)) continue;
    delete usage[window];
    repaired = true;
  }
  if (held.damaged.has("strikes")) [strikesMs, repaired] = [[], true];
  if (held.damaged.has("ban")) [ban, repaired] = [undefined, true];
  const decision = decide({ usage, strikesMs, ban }, ask, nowMs);
  const verdict = { ...decision.verdict, repaired: repaired || decision.verdict.repaired };
  // A look changes nothing that is not damaged.
  if (ask.units > 0 || verdict.repaired) {
    held.account = decision.account;
    for (const { window } of ask.limits) held.damaged.delete(window);
    for (const each of ["strikes", "ban", "key"]) held.damaged.delete(each);
  }
  return verdict;
}

function harm(
  pipeline: ChainableCommander,
  key: string,
  held: Modelled,
  { field, text }: Damage,
): void {
  if (field === "key") {
    pipeline.del(key).lpush(key, "not a hash");
    held.account = NEW_ACCOUNT;
    held.damaged.clear();
    held.damaged.add("key");
    return;
  }
  if (held.damaged.has("key")) return;
  const name = field === "strikes" ? "k" : field === "ban" ? "b" : LETTER[field];
  // "1 2" is no window and no ban, but it is two strikes.
  pipeline.hset(key, name, field === "strikes" && text === "1 2" ? "1-2" : text);
  held.damaged.add(field);
}

let number = 0;

async function play(redis: Redis, run: typeof sequence extends fc.Arbitrary<infer T> ? T : never) {
  const base = `t:{0}:e:${number++}`;
  const keys = Array.from({ length: ACCOUNTS }, (_, i) => `${base}-${i}`);
  const held = keys.map((): Modelled => ({ account: NEW_ACCOUNT, damaged: new Set() }));
  const plans = [...run.plans];
  const pipeline = redis.pipeline();
  const expected: { at: number; asks: KeyedAsk[]; verdicts: Verdict[] }[] = [];
  let { startMs: nowMs, bans } = run;
  for (const each of run.steps) {
    if (each.kind === "clock") nowMs = Math.max(DAY, nowMs + each.byMs);
    if (each.kind === "edge") nowMs = nextEdge(each.window, nowMs) + each.offMs;
    if (each.kind === "policy") bans = each.bans;
    if (each.kind === "terms") plans[each.account] = each.limits;
    if (each.kind === "persist") pipeline.persist(keys[each.account] as string);
    if (each.kind === "damage") {
      harm(pipeline, keys[each.account] as string, held[each.account] as Modelled, each.how);
    }
    if (each.kind !== "ask") continue;
    const asks = each.asks.map((ask) => ({
      key: keys[ask.account] as string,
      ask: { limits: plans[ask.account] as readonly Limit[], bans, units: ask.units },
    }));
    const verdicts = asks.map(({ ask }, i) => {
      return expect(held[each.asks[i]?.account ?? 0] as Modelled, ask, nowMs);
    });
    expected.push({ at: pipeline.length, asks, verdicts });
    pipeline.call("evalsha", DECIDE.sha, ...decideArguments(asks, nowMs));
  }
  pipeline.del(...keys);
  const replies = (await pipeline.exec()) ?? [];
  for (const { at, asks, verdicts } of expected) {
    const [error, reply] = replies[at] ?? [];
    assert.ifError(error ?? null);
    assert.deepEqual(readVerdicts(asks, reply), verdicts);
  }
}

describe("decide.lua", () => {
  let server: TestRedis;
  let redis: Redis;
  before(async () => {
    server = await startRedis();
    redis = await server.client();
    await redis.script("LOAD", DECIDE.text);
  });
  after(() => server.close());

  it(`gives the verdict of decide() in ${SEQUENCES} sequences of up to 100 commands`, async () => {
    await fc.assert(
      fc.asyncProperty(sequence, (run) => play(redis, run)),
      { numRuns: SEQUENCES },
    );
  });
});
