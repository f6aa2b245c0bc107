import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type Evidence, fewerByChanges, judge } from "../../../src/cli/logs/balance.ts";
import { newSum, type PeriodSum } from "../../../src/cli/logs/ledger.ts";

const NOTHING_ELSE = {
  ...{ openLeast: 0, openMost: 0, uncertain: 0, lost: 0, fewer: [] },
  ...{ killed: undefined, gap: undefined },
};

/** Each configuration replaced another one. */
function fewerBy(sum: PeriodSum, hasWindow: (plan: string) => boolean, isLastCounted = true) {
  return fewerByChanges(sum, hasWindow, () => true, isLastCounted);
}

/** The verdict of a period in which the lines charged 10 units, unless told otherwise. */
function verdict(counted: number, more: Partial<Evidence> & { readonly reset?: number } = {}) {
  const { reset = 0, ...evidence } = more;
  const sum = { ...newSum(), charged: 10, reset };
  const judged = judge({ ...NOTHING_ELSE, counted, sum, ...evidence });
  return `${judged.verdict} ${judged.drift}`;
}

describe("the verdict on one period", () => {
  it("is a match to the unit, else drift with its sign", () => {
    assert.deepEqual(
      [9, 10, 11].map((n) => verdict(n)),
      ["drift -1", "matched 0", "drift 1"],
    );
  });

  it("takes the units of the very millisecond in which the store was asked either way", () => {
    const sum = { ...newSum(), charged: 10, atEdge: 3 };
    assert.deepEqual(
      [9, 10, 13, 14].map((n) => verdict(n, { sum })),
      [...["drift -1", "matched 0", "matched 0", "drift 1"]],
    );
  });

  it("is explained by what is under way, from the least to the most that it can be", () => {
    const open = { openLeast: 1, openMost: 3 };
    assert.deepEqual(
      [10, 11, 13, 14].map((n) => verdict(n, open)),
      [...["drift -1", "explained 0", "explained 0", "drift 1"]],
    );
  });

  it("is explained by a reset of as many units", () => {
    assert.deepEqual(
      [3, 4].map((n) => verdict(n, { reset: 7 })),
      ["explained 0", "drift 1"],
    );
    const sum = { ...newSum(), charged: 10, reset: 1 };
    assert.equal(judge({ ...NOTHING_ELSE, counted: 9, sum }).why, "1 unit was reset");
  });

  it("is explained by a key that lost its cap up to what that key charged, where the store has more", () => {
    const sum = { ...newSum(), charged: 10, former: 3 };
    assert.deepEqual(
      [9, 10, 13, 14].map((n) => verdict(n, { sum })),
      [...["drift -1", "matched 0", "explained 0", "drift 4"]],
    );
    const why = "1 unit more: the cap of the key was changed in the window";
    assert.equal(judge({ ...NOTHING_ELSE, counted: 11, sum }).why, why);
  });

  it("is explained by units told as uncertain where the store has more, and no more of them", () => {
    assert.deepEqual(
      [12, 13].map((n) => verdict(n, { uncertain: 2 })),
      [...["explained 0", "drift 3"]],
    );
    assert.equal(verdict(9, { uncertain: 2 }), "drift -1");
  });

  it("is explained by lost units where the store has fewer, and no more of them", () => {
    assert.deepEqual(
      [8, 7].map((n) => verdict(n, { lost: 2 })),
      ["explained 0", "drift -3"],
    );
    assert.equal(verdict(11, { lost: 2 }), "drift 1");
  });

  it("is not there where the logs lack a part, unless they charged more than was counted", () => {
    const gap = "the logs begin inside it";
    assert.deepEqual(
      [10, 11, 9].map((n) => verdict(n, { gap })),
      [...["matched 0", "not compared 0", "drift -1"]],
    );
  });

  it("is explained by a killed gateway where the store has more, never where it has fewer", () => {
    const killed = "a gateway ended without a last line";
    assert.deepEqual(
      [11, 9].map((n) => verdict(n, { killed })),
      ["explained 0", "drift -1"],
    );
    assert.equal(verdict(11, { killed, gap: "the logs begin inside it" }), "explained 0");
  });

  it("is explained by a changed plan to the unit that the plans with the window charged", () => {
    const sum = {
      ...newSum(),
      charged: 10,
      plans: new Map([
        ["free", 6],
        ["pro", 4],
      ]),
    };
    const fewer = fewerBy(sum, (plan) => plan === "pro");
    assert.deepEqual(
      [3, 4, 5, 10, 11].map((n) => verdict(n, { sum, fewer })),
      [...["drift -7", "explained 0", "drift -5", "matched 0", "drift 1"]],
    );
    assert.deepEqual(
      fewerBy(sum, () => true),
      [],
      "both plans have the window",
    );
  });

  it("is explained by a changed configuration to the unit that came after the change", () => {
    const configs = new Map([
      ["one", { units: 6, firstMs: 1, lastMs: 1 }],
      ["two", { units: 4, firstMs: 2, lastMs: 2 }],
    ]);
    const sum = { ...newSum(), charged: 10, configs };
    const fewer = fewerBy(sum, () => true);
    assert.deepEqual(
      [4, 6, 5].map((n) => verdict(n, { sum, fewer })),
      [...["explained 0", "drift -4", "drift -5"]],
    );
  });

  it("is explained by one configuration among others under which nothing was counted, to the unit", () => {
    const configs = new Map([
      ["on", { units: 5, firstMs: 1, lastMs: 1 }],
      ["off", { units: 3, firstMs: 2, lastMs: 2 }],
      ["on again", { units: 2, firstMs: 3, lastMs: 3 }],
    ]);
    const sum = { ...newSum(), charged: 10, configs };
    const fewer = fewerBy(sum, () => true);
    assert.deepEqual(
      [2, 5, 7, 8, 9].map((n) => verdict(n, { sum, fewer })),
      [...["explained 0", "explained 0", "explained 0", "drift -2", "drift -1"]],
    );
  });

  it("is explained by configurations one after the other under which nothing was counted, to the unit", () => {
    const configs = new Map(
      [1, 20, 300, 4_000].map((units, ms) => [`c${ms}`, { units, firstMs: ms, lastMs: ms }]),
    );
    const sum = { ...newSum(), charged: 4_321, configs };
    const of = (counted: number, isLastCounted: boolean) => {
      const fewer = fewerBy(sum, () => true, isLastCounted);
      return judge({ ...NOTHING_ELSE, counted, sum, fewer }).why;
    };
    const why = "the configuration was changed, and nothing is counted under";
    assert.equal(of(4_001, true), `320 units fewer: ${why} c1, c2`);
    assert.equal(of(4_300, true), `21 units fewer: ${why} c0, c1`);
    assert.equal(of(4_020, true), undefined, "one between them had counted");
    assert.deepEqual([of(321, true), of(21, true), of(0, true)], Array(3).fill(undefined));
    // A day that is over may have ended without history.
    assert.equal(of(321, false), `4000 units fewer: ${why} c3`);
    assert.equal(of(1, false), `4320 units fewer: ${why} c1, c2, c3`);
    assert.equal(of(0, false), undefined, "a day under which some configuration counted");
  });

  it("is explained by units of a meter that may differ either way, and no more of them", () => {
    for (const cause of ["settlementLost", "unsettled"]) {
      assert.deepEqual(
        [7, 8, 12, 13].map((n) => verdict(n, { [cause]: 2 })),
        [...["drift -3", "explained 0", "explained 0", "drift 3"]],
      );
    }
  });

  it("takes what was charged as the store was asked, and what is under way, for either side of a change", () => {
    const plans = new Map([
      ["free", 6],
      ["pro", 4],
    ]);
    const sum = { ...newSum(), charged: 8, atEdge: 2, plans };
    const fewer = fewerBy(sum, (plan) => plan === "pro");
    assert.deepEqual(
      [1, 2, 4, 5].map((n) => verdict(n, { sum, fewer })),
      [...["drift -7", "explained 0", "explained 0", "drift -3"]],
    );
    const open = { openLeast: 1, openMost: 2 };
    assert.deepEqual(
      [2, 3, 6, 7].map((n) => verdict(n, { sum, fewer, ...open })),
      [...["drift -7", "explained 0", "explained 0", "drift -2"]],
    );
    const configs = (...units: readonly number[]) => {
      return new Map(units.map((each, ms) => [`c${ms}`, { units: each, firstMs: ms, lastMs: ms }]));
    };
    const of = (n: number, ...units: readonly number[]) => {
      const changed = { ...newSum(), charged: 8, atEdge: 2, configs: configs(...units) };
      return verdict(n, { sum: changed, fewer: fewerBy(changed, () => true) });
    };
    assert.deepEqual(
      [1, 4].map((n) => of(n, 5, 3, 2)),
      ["explained 0", "explained 0"],
    );
    assert.deepEqual(
      [6, 7].map((n) => of(n, 1, 9)),
      ["drift -2", "explained 0"],
    );
  });

  it("tells what was charged, what is under way, and each reason", () => {
    const sum = { ...newSum(), charged: 10, atEdge: 3, reset: 2 };
    const told = judge({ ...NOTHING_ELSE, counted: 13, sum, openMost: 5 });
    assert.deepEqual(told, {
      ...{ charged: 13, counted: 13, reset: 2, open: 2, drift: 0, verdict: "explained" },
      why: "2 units were reset, 2 units are under way",
    });
    const over = judge({ ...NOTHING_ELSE, counted: 17, sum, openMost: 5 });
    assert.deepEqual([over.open, over.drift], [5, 1], "no more than were under way");
    const under = judge({ ...NOTHING_ELSE, counted: 11, sum, openLeast: 4, openMost: 5 });
    assert.deepEqual([under.open, under.drift], [4, -1], "no fewer than were under way");
  });

  it("names the plans that lack a window, and the configuration under which nothing was counted", () => {
    const why = (counted: number, more: Partial<PeriodSum>) => {
      const sum = { ...newSum(), charged: 10, ...more };
      const fewer = fewerBy(sum, (plan) => plan === "pro");
      return judge({ ...NOTHING_ELSE, counted, sum, fewer }).why;
    };
    const plans = new Map(Object.entries({ free: 3, old: 3, pro: 4 }));
    const lack = "6 units fewer: the plan was changed, and free, old does not have the window";
    assert.equal(why(4, { plans }), lack);
    // The lines of the last one are read before those of the first.
    const configs = new Map([
      ["last", { units: 4, firstMs: 3, lastMs: 3 }],
      ["first", { units: 5, firstMs: 1, lastMs: 1 }],
      ["off", { units: 1, firstMs: 2, lastMs: 2 }],
    ]);
    const changed = "the configuration was changed, and";
    assert.equal(
      why(4, { configs }),
      `6 units fewer: ${changed} only what the last one charged is counted`,
    );
    assert.equal(why(9, { configs }), `1 unit fewer: ${changed} nothing is counted under off`);
  });
});
