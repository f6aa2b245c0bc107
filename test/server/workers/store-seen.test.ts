import assert from "node:assert/strict";
import { it } from "vitest";
import { StoreAvailability } from "../../../src/server/workers/store-availability.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";

function house() {
  const told: unknown[] = [];
  const write = (line: string) => {
    const { kind, accountsCharged, why } = JSON.parse(line) as Record<string, unknown>;
    told.push(kind === "store_back" ? `${kind} ${accountsCharged}` : `${kind} ${why}`);
  };
  return { told, seen: new StoreAvailability(createLog({ write }, "info")) };
}
const away = (why: string) => ({ kind: "store_away", details: { why } }) as const;
const back = (accountsCharged: number) =>
  ({ kind: "store_back", details: { accountsCharged } }) as const;

it("the store is away with the first process that lost it, and back with the last one", () => {
  const { seen, told } = house();
  seen.note(1, away("late"));
  seen.note(2, away("unreachable"));
  assert.deepEqual(told, ["store_away late"]);
  seen.note(1, back(3));
  assert.deepEqual(told, ["store_away late"]);
  seen.note(2, back(4));
  assert.deepEqual(told, ["store_away late", "store_back 7"]);
  seen.note(2, away("late"));
  seen.note(2, back(1));
  assert.deepEqual(told.slice(2), ["store_away late", "store_back 1"]);
});

it("a process that ends while the store is away takes its view with it, once", () => {
  const { seen, told } = house();
  seen.note(1, away("late"));
  seen.note(2, away("late"));
  seen.ended(1);
  seen.ended(1);
  seen.ended(3);
  assert.deepEqual(told, ["store_away late"]);
  seen.ended(2);
  assert.deepEqual(told, ["store_away late", "store_back 0"]);
});
