import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import { OverageEvents } from "../../src/server/events/overage-events.ts";
import { createLog } from "../../src/telemetry/log/log.ts";
import { eventually } from "../support/poll.ts";

const OWNER = { environment: "production", account: "a", plan: "free" };
const boundsOf = (included: number) => {
  const limit = { window: "month", limit: included } as const;
  return new Map([["free", { included: [limit] }]]) as never;
};
const [BEFORE, AFTER] = [boundsOf(9), boundsOf(4)];

/** A gateway that counts units of a month one by one, and the counts with which it tells overage. */
function openGateway(markFirst: (marker: string, lifeMs: number) => Promise<boolean>) {
  const told: unknown[] = [];
  const log = createLog({ write: (line) => told.push(JSON.parse(line).used) }, "info");
  const overages = new OverageEvents({ log, now: () => 0, markFirst });
  const count = (
    bounds: typeof BEFORE,
    used: number,
    resetMs = 5_000,
    environment = "production",
  ) => {
    const window = { window: "month", limit: 10, used, resetMs } as const;
    overages.count(bounds, { ...OWNER, environment }, { window, was: used - 1, used });
  };
  return { told, count };
}

it("overage that a change of the plan began is told by one of the gateways that knew the account", async () => {
  const markers: string[] = [];
  const markFirst = async (marker: string) => markers.push(marker) === 1;
  const [one, other, young] = [1, 2, 3].map(() => openGateway(markFirst));
  one?.count(BEFORE, 4);
  other?.count(BEFORE, 5);
  young?.count(AFTER, 6);
  one?.count(AFTER, 7);
  other?.count(AFTER, 8);
  one?.count(AFTER, 9);
  await eventually(() => assert.equal(markers.length, 2));
  assert.deepEqual([one?.told, other?.told, young?.told], [[7], [], []]);
  assert.equal(new Set(markers).size, 1);
});

it("a marker is gone a minute after its window, because units may be included in a second", async () => {
  const lives: number[] = [];
  const gateway = openGateway(async (_marker, lifeMs) => lives.push(lifeMs) > 0);
  gateway.count(AFTER, 5);
  gateway.count(AFTER, 5, 1_000);
  gateway.count(AFTER, 5, -1_000);
  assert.deepEqual(lives, [65_000, 61_000, 60_000]);
});

it("overage is told of a window in which a plan includes units only since a reload", () => {
  const gateway = openGateway(async () => true);
  gateway.count(new Map() as never, 4);
  gateway.count(AFTER, 5);
  assert.deepEqual(gateway.told, [5]);
});

it("overage of the next window is told by the unit that begins it, without a change", async () => {
  const gateway = openGateway(async () => true);
  gateway.count(AFTER, 4);
  gateway.count(AFTER, 5);
  gateway.count(AFTER, 6);
  gateway.count(AFTER, 4, 9_000);
  gateway.count(AFTER, 5, 9_000);
  assert.deepEqual(gateway.told, [5, 5]);
});

it("a request that began overage is told once, although the answer to a later one came first", async () => {
  let asked = 0;
  const gateway = openGateway(async () => {
    asked += 1;
    return true;
  });
  gateway.count(AFTER, 4);
  gateway.count(AFTER, 6);
  gateway.count(AFTER, 5);
  assert.deepEqual(gateway.told, [5]);
  const late = openGateway(async () => true);
  late.count(BEFORE, 5);
  late.count(AFTER, 6);
  await eventually(() => assert.deepEqual(late.told, [6]));
  assert.deepEqual([gateway.told, asked], [[5], 1]);
});

it("overage that a change began is told by a later request if the store does not answer the first", async () => {
  let asked = 0;
  const gateway = openGateway(async () => {
    asked += 1;
    if (asked === 1) throw new Error("unreachable");
    return true;
  });
  gateway.count(BEFORE, 5);
  gateway.count(AFTER, 6);
  await eventually(() => assert.equal(asked, 1));
  gateway.count(AFTER, 7);
  await eventually(() => assert.deepEqual(gateway.told, [7]));
});

it("overage that a change began is told though its window ends before the store is asked", async () => {
  const gateway = openGateway(async () => true);
  gateway.count(BEFORE, 5);
  gateway.count(AFTER, 6);
  gateway.count(AFTER, 1, 9_000);
  await eventually(() => assert.deepEqual(gateway.told, [6]));
});

it("overage that a change began in the next window is told, though the store did not answer for the one before", async () => {
  let asked = 0;
  const gateway = openGateway(async () => {
    asked += 1;
    if (asked === 1) throw new Error("unreachable");
    return true;
  });
  gateway.count(BEFORE, 5);
  gateway.count(AFTER, 6);
  gateway.count(BEFORE, 5, 9_000);
  await eventually(() => assert.equal(asked, 1));
  gateway.count(AFTER, 7, 9_000);
  await eventually(() => assert.deepEqual(gateway.told, [7]));
});

it("overage that a request on another gateway began is not told again, though that one set no marker", async () => {
  const markers: string[] = [];
  const markFirst = async (marker: string) => markers.push(marker) === 1;
  const [here, moved] = [openGateway(markFirst), openGateway(markFirst)];
  const asks: string[] = [];
  const first = openGateway(async (marker) => asks.push(marker) === 1);
  first.count(BEFORE, 5);
  first.count(AFTER, 6);
  here.count(AFTER, 4);
  // The other gateway is of an earlier version, or its call to the store was lost.
  here.count(AFTER, 6);
  moved.count(BEFORE, 3);
  moved.count(AFTER, 4);
  moved.count(AFTER, 6);
  // The count that is known is of another window, or of another environment.
  const strange = openGateway(markFirst);
  strange.count(BEFORE, 5);
  strange.count(AFTER, 6, 9_000);
  strange.count(AFTER, 6, 5_000, "staging");
  // More units are included than before, and yet others have used more than those.
  strange.count(AFTER, 4, 7_000);
  strange.count(boundsOf(5), 7, 7_000);
  // It was told, and a plan with more units came and went.
  const told = openGateway(async () => true);
  for (const [i, bounds] of [AFTER, AFTER, BEFORE, AFTER].entries()) told.count(bounds, 4 + i);
  await sleep(1_200);
  assert.deepEqual([here.told, moved.told, strange.told, markers], [[], [], [], []]);
  assert.deepEqual(told.told, [5]);
  assert.deepEqual([first.told, asks.length], [[6], 1]);
  first.count(AFTER, 7);
  here.count(boundsOf(2), 7);
  await sleep(1_200);
  assert.deepEqual([here.told, markers], [[], []]);
  assert.equal(asks.length, 1, "what was told is asked for no more");
});
