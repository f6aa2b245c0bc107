import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { banRecord } from "../../src/telemetry/history/ban-records.ts";

const LAST_S = 8.64e12;
const EARNED = {
  ...{ kind: "ban", account: "a_1", env: "production", window: "minute" },
  ...{ until: 200, offences: 1, decidedAt: 100_000, time: 100_005, strikes: [98, 99.5] },
};
const TOLD = {
  ...{ account: "a_1", environment: "production", window: "minute" },
  ...{ at: 100, until: 200, offences: 1, strikes: [{ at: 98 }, { at: 99.5 }] },
};

describe("the event of a ban", () => {
  it("is read with its strikes, and as observed only where it says so", () => {
    assert.deepEqual(banRecord(EARNED), TOLD);
    assert.deepEqual(banRecord({ ...EARNED, observed: true }), { ...TOLD, observed: true });
    assert.deepEqual(banRecord({ ...EARNED, observed: false }), TOLD);
    assert.deepEqual(banRecord({ ...EARNED, reason: "not by people" }), TOLD);
  });

  it("is that of people where it says so, or has no sign of being earned", () => {
    const { strikes: _, decidedAt: __, ...bare } = EARNED;
    const byHand = { ...TOLD, imposed: true, strikes: [] };
    assert.deepEqual(banRecord(bare), { ...byHand, at: 100.005 });
    assert.deepEqual(banRecord({ ...bare, decidedAt: 100_000 }), { ...TOLD, strikes: [] });
    const earned = { ...EARNED, decidedAt: undefined };
    assert.deepEqual(banRecord(earned), { ...TOLD, at: 100.005 }, "it has strikes");
    const imposed = { ...EARNED, imposed: true, strikes: [] };
    assert.deepEqual(banRecord(imposed), byHand);
    assert.deepEqual(banRecord({ ...imposed, reason: "abuse" }), { ...byHand, reason: "abuse" });
    for (const reason of ["", 7]) assert.deepEqual(banRecord({ ...imposed, reason }), byHand);
  });

  it.for([
    ["another kind", { kind: "ban_lifted" }],
    ["no account", { account: undefined }],
    ["no environment", { env: 1 }],
    ["no window", { window: null }],
    ["an end before 1970", { until: -1 }],
    ["an end after the end of time", { until: LAST_S + 1 }],
    ["no offences", { offences: undefined }],
    ["offences below 0", { offences: -1 }],
    ["an instant that is text", { decidedAt: "100000" }],
    ["strikes that are no list", { strikes: 3 }],
    ["a strike that is text", { strikes: [98, "99"] }],
    ["a strike before 1970", { strikes: [-1] }],
    ["a strike after the end of time", { strikes: [LAST_S + 1] }],
  ] as const)("is none with %s", ([, change]) => {
    assert.equal(banRecord({ ...EARNED, ...change }), undefined);
  });
});
