import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { type AccountState, decide, NEW_ACCOUNT_STATE } from "../../../src/core/quota/decide.ts";
import {
  heldUnits,
  isHeldByOthers,
  meterChanges,
  meterPart,
  type OperationMeter,
  withMeters,
} from "../../../src/core/quota/meters.ts";
import { settleWindow } from "../../../src/core/quota/window-count.ts";
import { counterName, type Limit } from "../../../src/core/quota/windows.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const MINUTE = 60_000;
const part = meterPart("tokens");
const PLAN: readonly Limit[] = [{ window: "day", limit: 1e12 }];
const meterOf = (hold: number, max: number): OperationMeter => {
  return { name: "tokens", hold, max, untold: hold, used: [] };
};

/** One account with a minute of tokens: its requests in progress, and its settlements. */
class Metered {
  account: AccountState = NEW_ACCOUNT_STATE;
  nowMs = NOON;
  readonly open: { startMs: number; hold: number; max: number; atMs: number }[] = [];
  highest = 0;
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  request({ hold, max }: { readonly hold: number; readonly max: number }): boolean {
    const limits = [{ window: "minute" as const, limit: this.#limit, part, hold }, ...PLAN];
    const quotaRequest = { limits, bans: undefined, requests: 1 };
    const { account, decision } = decide(this.account, quotaRequest, this.nowMs);
    this.account = account;
    if (decision.granted === 0) return false;
    const startMs = this.account.usage["#tokens.minute"]?.startMs ?? 0;
    this.open.push({ startMs, hold, max, atMs: this.nowMs });
    this.#look();
    return true;
  }

  /** Ends a request in progress; `share` is what it used of the most that it may use. */
  settle(which: number, share: number): void {
    const [one] = this.open.splice(which % Math.max(1, this.open.length), 1);
    const stored = this.account.usage["#tokens.minute"];
    if (one === undefined || stored === undefined || this.nowMs >= one.startMs + MINUTE) return;
    const units = Math.round(one.max * share) - one.hold;
    const settled = settleWindow(stored, { startMs: one.startMs, units, chargedMs: one.atMs });
    if (settled === undefined) return;
    this.account = { ...this.account, usage: { ...this.account.usage, "#tokens.minute": settled } };
    this.#look();
  }

  #look(): void {
    this.highest = Math.max(this.highest, this.account.usage["#tokens.minute"]?.count ?? 0);
  }
}

const limit = fc.integer({ min: 1, max: 60 });
const operation = fc
  .tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 0, max: 40 }))
  .map(([hold, more]) => ({ hold, max: hold + more }));
const history = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ request: fc.nat(2) }) },
    { weight: 5, arbitrary: fc.record({ which: fc.nat(9), share: fc.constantFrom(0, 0.3, 1, 1) }) },
    { weight: 1, arbitrary: fc.record({ byMs: fc.constantFrom(1_000, MINUTE) }) },
  ),
  { maxLength: 120, size: "max" },
);

describe("A window of a meter", () => {
  it("goes over its limit by at most floor(limit x r) in any history, and by nothing where holds are max", () => {
    fc.assert(
      fc.property(
        limit,
        fc.array(operation, { minLength: 1, maxLength: 3 }),
        history,
        (max, ops, steps) => {
          const meter = new Metered(max);
          for (const step of steps) {
            if ("request" in step) meter.request(ops[step.request % ops.length] as (typeof ops)[0]);
            else if ("which" in step) meter.settle(step.which, step.share);
            else meter.nowMs += step.byMs;
          }
          const r = Math.max(...ops.map(({ hold, max: most }) => (most - hold) / hold));
          assert.ok(
            meter.highest <= max + Math.floor(max * r + 1e-9),
            `${meter.highest} of ${max}`,
          );
        },
      ),
      { numRuns: 2_000 },
    );
  });

  const cases = [
    { limit: 16_000, hold: 2_000, max: 16_000, over: 112_000 },
    { limit: 100, hold: 10, max: 35, over: 250 },
    { limit: 90, hold: 30, max: 30, over: 0 },
  ];
  for (const { limit: most, hold, max, over } of cases) {
    it(`reaches that bound: ${most} with holds of ${hold} and answers of ${max} goes over by ${over}`, () => {
      const meter = new Metered(most);
      while (meter.request({ hold, max }));
      assert.equal(meter.open.length, most / hold);
      while (meter.open.length > 0) meter.settle(0, 1);
      assert.equal(meter.highest - most, over);
      assert.equal(over, Math.floor((most * (max - hold)) / hold));
    });
  }

  it("goes over by max for each request under way where the hold is 0, and is full from its limit on", () => {
    const meter = new Metered(10);
    for (let i = 0; i < 5; i++) assert.equal(meter.request({ hold: 0, max: 7 }), true);
    meter.settle(0, 1);
    assert.equal(meter.request({ hold: 0, max: 7 }), true, "7 of 10");
    while (meter.open.length > 0) meter.settle(0, 1);
    assert.equal(meter.highest, 42);
    assert.equal(meter.request({ hold: 0, max: 7 }), false);
    const exactly = new Metered(7);
    exactly.request({ hold: 0, max: 7 });
    exactly.settle(0, 1);
    assert.equal(exactly.request({ hold: 0, max: 7 }), false, "7 of 7 is full");
  });
});

describe("A request with a meter", () => {
  const limits = [{ window: "minute", limit: 10, part, hold: 6 }, ...PLAN] as const;
  const bans = {
    ...{ strikes: 1, withinMs: MINUTE, graceMs: 0, durationMs: MINUTE, factor: 1 },
    ...{ maxMs: MINUTE, forgetAfterMs: 0 },
  };

  it("takes all or nothing, and is refused by the meter alone without a strike", () => {
    const quotaRequest = { limits, bans, requests: 1, cost: 3 };
    let { account, decision } = decide(NEW_ACCOUNT_STATE, quotaRequest, NOON);
    assert.deepEqual(
      decision.windows.map(({ used }) => used),
      [6, 3],
    );
    for (let i = 1; i < 5; i++) {
      ({ account, decision } = decide(account, quotaRequest, NOON + i * 1_000));
      assert.equal(decision.granted, 0);
      assert.deepEqual(
        decision.windows.map(({ used }) => used),
        [6, 3],
        "nothing more of either",
      );
    }
    assert.deepEqual([decision.strikes, decision.ban], [0, undefined]);
    const full = { ...quotaRequest, limits: [limits[0], { window: "day", limit: 5 }] } as const;
    const struck = decide(account, full, NOON + 10_000).decision;
    assert.equal(struck.strikes + (struck.newBan?.strikesMs.length ?? 0), 0, "the first refusal");
    assert.ok(
      decide(decide(account, full, NOON + 10_000).account, full, NOON + 11_000).decision.newBan,
    );
  });

  it("asks for the windows of its plan's meters, the account's own in their place, and for no others", () => {
    const plan = [
      {
        name: "tokens",
        limits: [
          { window: "minute", limit: 10, part },
          { window: "month", limit: 50, part },
        ],
      },
      { name: "rows", limits: [{ window: "day", limit: 5, part: meterPart("rows") }] },
    ] as const;
    const own = [
      { window: "tokens.month", limit: 99 },
      { window: "tokens.hour", limit: 20 },
      { window: "minute", limit: 3 },
    ];
    const asked = withMeters(PLAN, [meterOf(2, 5)], { plan, own, calendar: undefined });
    assert.ok(typeof asked !== "string");
    assert.deepEqual(
      asked.map((one) => [counterName(one), one.limit, one.hold]),
      [
        ["#tokens.minute", 10, 2],
        ["#tokens.hour", 20, 2],
        ["day", 1e12, undefined],
        ["#tokens.month", 99, 2],
      ],
    );
    const unknown = { ...meterOf(1, 1), name: "seconds" };
    assert.equal(withMeters([...PLAN], [unknown], { plan, own, calendar: undefined }), "seconds");
  });

  it("is settled to at most its max, and keeps a hold whose use is not told", () => {
    const holds = { id: "1", plan: "", meters: [meterOf(4, 9)], windows: [], decidedMs: NOON };
    const changed = (units: number) => meterChanges(holds, [{ name: "tokens", units }])[0]?.units;
    assert.deepEqual([changed(0), changed(4), changed(9), changed(10)], [-4, undefined, 5, 5]);
    assert.deepEqual(meterChanges(holds, []), []);
  });

  it("has its months begin on the account's anchor, for meters too", () => {
    const calendar = [{ day: 15, fromMs: 0 }];
    const plan = [{ name: "tokens", limits: [{ window: "month", limit: 50, part }] }] as const;
    const asked = withMeters([...PLAN], [meterOf(2, 5)], { plan, own: [], calendar });
    assert.ok(typeof asked !== "string");
    const { decision } = decide(
      NEW_ACCOUNT_STATE,
      { limits: asked, bans: undefined, requests: 1 },
      NOON,
    );
    assert.equal(decision.windows.at(-1)?.resetMs, Date.UTC(2026, 7, 15));
  });

  it("waits for others only if what they hold is at least what is missing, in meters alone", () => {
    const usage = {
      window: "minute",
      limit: 10,
      part,
      hold: 6,
      used: 9,
      resetMs: NOON + MINUTE,
    } as const;
    const held = (units: number) =>
      isHeldByOthers({ windows: [usage], nowMs: NOON }, 1, () => units);
    assert.deepEqual([held(4), held(5)], [false, true], "9 + 6 is 5 more than 10");
    const day = { window: "day", limit: 5, used: 5, resetMs: NOON + MINUTE } as const;
    assert.equal(
      isHeldByOthers({ windows: [usage, day], nowMs: NOON }, 1, () => 9),
      false,
    );
    const ended = { ...day, resetMs: NOON };
    assert.equal(
      isHeldByOthers({ windows: [usage, ended], nowMs: NOON }, 1, () => 9),
      true,
    );
  });
});

it("a request holds units of each meter once, and none of windows of its plan, its key or an operation", () => {
  const held: readonly Limit[] = [
    { window: "minute", limit: 10, part, hold: 7 },
    { window: "day", limit: 100, part, hold: 7 },
    { window: "day", limit: 100, part: meterPart("images"), hold: 0 },
  ];
  const others: readonly Limit[] = [
    { window: "day", limit: 5 },
    { window: "day", limit: 5, hold: 3 },
    { window: "day", limit: 5, part: { id: "@1", name: "key" } },
  ];
  assert.deepEqual(heldUnits([...others, ...held]), [
    { name: "tokens", units: 7 },
    { name: "images", units: 0 },
  ]);
});
