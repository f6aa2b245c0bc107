import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  ADDRESSES_MAX,
  CALLERS_MAX,
  DeprecatedCalls,
} from "../../src/telemetry/history/deprecated-calls.ts";

const OLD = { environment: "production", method: "GET", route: "/v1/old" };

describe("calls of deprecated operations", () => {
  it("are summed for each account, with the second of the last one", () => {
    const calls = new DeprecatedCalls();
    for (const nowMs of [1_000, 1_999, 2_000, 2_001]) calls.note(OLD, "a", nowMs);
    calls.note(OLD, "b", 1_500);
    const told = new Map(calls.list().map((call) => [call.account, call]));
    assert.deepEqual(
      [told.size, told.get("a"), told.get("b")],
      [
        2,
        { ...OLD, account: "a", requests: 4, last: 2 },
        { ...OLD, account: "b", requests: 1, last: 1 },
      ],
    );
  });

  it("are kept apart by environment, method and route", () => {
    const calls = new DeprecatedCalls();
    const operations = [
      OLD,
      { ...OLD, environment: "staging" },
      { ...OLD, method: "POST" },
      { ...OLD, route: "/v1/older" },
    ];
    operations.forEach((operation, i) => {
      for (let times = 0; times <= i; times++) calls.note(operation, "a", 1_000);
    });
    const found = new Map(
      calls.list().map(({ environment, method, route, requests }) => {
        return [`${environment} ${method} ${route}`, requests];
      }),
    );
    assert.deepEqual(
      operations.map(({ environment, method, route }) =>
        found.get(`${environment} ${method} ${route}`),
      ),
      [1, 2, 3, 4],
    );
  });

  it("are taken for one account and one operation, and nothing where there is nothing", () => {
    const calls = new DeprecatedCalls();
    for (const account of ["a", "b"]) calls.note(OLD, account, 1_000);
    const taken = { ...OLD, account: "a", requests: 1, last: 1 };
    assert.deepEqual(calls.takeOf(OLD, "a"), taken);
    assert.deepEqual(calls.takeOf(OLD, "a"), { ...taken, requests: 0, last: 0 });
    assert.deepEqual(calls.takeOf({ ...OLD, method: "PUT" }, "b").requests, 0);
    assert.deepEqual(calls.list(), [{ ...taken, account: "b" }]);
  });

  it("that were counted elsewhere are added, and the last one stays the last", () => {
    const calls = new DeprecatedCalls();
    const call = { ...OLD, account: "a" };
    calls.add({ ...call, requests: 2, last: 50 });
    assert.deepEqual(calls.add({ ...call, requests: 3, last: 40 }), {
      ...{ ...call, requests: 5, last: 50 },
    });
    calls.set({ ...call, requests: 1, last: 60 });
    assert.deepEqual(calls.list(), [{ ...call, requests: 1, last: 60 }]);
  });

  it("of accounts push out the account that called longest ago, beyond 10,000", () => {
    const calls = new DeprecatedCalls();
    assert.deepEqual([CALLERS_MAX, ADDRESSES_MAX], [10_000, 1_000]);
    calls.note(OLD, "addr:1", 0);
    for (let i = 0; i < CALLERS_MAX; i++) calls.note(OLD, `a${i}`, i * 1_000);
    assert.equal(calls.callOf(OLD, "a0")?.requests, 1);
    calls.note(OLD, "new", CALLERS_MAX * 1_000);
    assert.deepEqual(
      ["a0", "a1", "new"].map((name) => calls.callOf(OLD, name)?.requests),
      [undefined, 1, 1],
    );
    assert.equal(calls.list().length, CALLERS_MAX + 1, "the address has another place");
  });

  it("that were listed do not change with later ones", () => {
    const calls = new DeprecatedCalls();
    calls.note(OLD, "a", 1_000);
    const [before] = calls.list();
    calls.note(OLD, "a", 1_001);
    calls.note(OLD, "a", 5_000);
    assert.deepEqual(before, { ...OLD, account: "a", requests: 1, last: 1 });
    assert.deepEqual(calls.take(), [{ ...OLD, account: "a", requests: 3, last: 5 }]);
    assert.deepEqual(calls.list(), []);
  });

  it("of addresses push out the address that called longest ago, and no account", () => {
    const calls = new DeprecatedCalls();
    calls.note(OLD, "a", 0);
    for (let i = 0; i < ADDRESSES_MAX; i++) calls.note(OLD, `addr:${i}`, i * 1_000);
    calls.note(OLD, "addr:0", ADDRESSES_MAX * 1_000);
    calls.note(OLD, "addr:new", ADDRESSES_MAX * 1_000);
    const names = new Set(calls.list().map(({ account }) => account));
    assert.deepEqual(
      ["a", "addr:0", "addr:1", "addr:2", "addr:new"].map((name) => names.has(name)),
      [true, true, false, true, true],
    );
    assert.equal(names.size, ADDRESSES_MAX + 1);
  });
});
