import assert from "node:assert/strict";
import { afterEach, it, vi } from "vitest";
import { RecordWarnings } from "../../../src/server/process/record-warnings.ts";

type Sources = ConstructorParameters<typeof RecordWarnings>[0];

afterEach(() => {
  vi.useRealTimers();
});

it("looks once for a change and a reload together, and not after the stop", () => {
  vi.useFakeTimers();
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
  assert.equal(looks, 1);
  change();
  warnings.look();
  assert.equal(looks, 2);
  vi.advanceTimersByTime(2_000);
  assert.equal(looks, 2);
  change();
  warnings.look();
  change();
  warnings.stop();
  // A reload may still end while the gateway drains.
  warnings.look();
  vi.advanceTimersByTime(2_000);
  assert.equal(looks, 3);
});
