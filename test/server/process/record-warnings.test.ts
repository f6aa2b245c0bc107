import assert from "node:assert/strict";
import { afterEach, it, vi } from "vitest";
import { RecordWarnings } from "../../../src/server/process/record-warnings.ts";

type Sources = ConstructorParameters<typeof RecordWarnings>[0];

afterEach(() => {
  vi.useRealTimers();
});

/** Warnings about no records, with the number of looks at them, and a change of them. */
function openCounted() {
  let looks = 0;
  let change = () => {};
  const warnings = new RecordWarnings({
    config: () =>
      ({ environments: [], plans: new Map() }) as unknown as ReturnType<Sources["config"]>,
    keys: {
      records: () => {
        looks += 1;
        return { keys: [], accounts: [] };
      },
      onChange: (listener) => {
        change = listener;
        return () => {};
      },
    } as Sources["keys"],
    log: { warn: () => {} },
    now: () => 0,
  });
  return { warnings, change: () => change(), looks: () => looks };
}

it("looks once for a change and a reload together, and not after the stop", () => {
  vi.useFakeTimers();
  const { warnings, change, looks } = openCounted();
  assert.equal(looks(), 1);
  change();
  warnings.look();
  assert.equal(looks(), 2);
  vi.advanceTimersByTime(2_000);
  assert.equal(looks(), 2);
  change();
  warnings.look();
  change();
  warnings.stop();
  // A reload may still end while the gateway drains.
  warnings.look();
  vi.advanceTimersByTime(2_000);
  assert.equal(looks(), 3);
});

it("looks a second after a change, and so for the next one", () => {
  vi.useFakeTimers();
  const { warnings, change, looks } = openCounted();
  for (const more of [2, 3]) {
    change();
    vi.advanceTimersByTime(999);
    assert.equal(looks(), more - 1);
    vi.advanceTimersByTime(1);
    assert.equal(looks(), more);
  }
  warnings.stop();
});

it("names an account that comes to a missing plan later, and each account once until its keys end", () => {
  vi.useFakeTimers();
  const said: unknown[] = [];
  let working: readonly string[] = ["a1"];
  const warnings = new RecordWarnings({
    config: () =>
      ({ environments: [], plans: new Map() }) as unknown as ReturnType<Sources["config"]>,
    keys: {
      records: () => ({
        keys: working.map((account) => ({ id: `k_${account}`, account })),
        accounts: ["a1", "a3"].map((id) => ({ id, plan: "small", environment: "", limits: [] })),
      }),
      onChange: () => () => {},
    } as unknown as Sources["keys"],
    log: { warn: (_, { why }: { why?: unknown } = {}) => void said.push(why) },
    now: () => 0,
  });
  const named = (accounts: readonly string[]) => {
    working = accounts;
    said.length = 0;
    warnings.look();
    const plans = said.filter((why) => /there is no plan small/.test(String(why)));
    return plans.map((why) => /accounts? (.*) ha(?:s|ve) it/.exec(String(why))?.[1]);
  };
  assert.equal(said.length, 2, "the plan and the environment");
  assert.deepEqual(named(["a1"]), []);
  assert.deepEqual(named(["a1", "a3"]), ["a3"]);
  assert.deepEqual(named(["a3", "a1"]), []);
  assert.deepEqual(named(["a3"]), []);
  assert.deepEqual(named(["a1", "a3"]), ["a1"]);
  warnings.stop();
});
