import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { RecentEvents } from "../../src/telemetry/history/recent-events.ts";

const event = (time: number) => ({ kind: "ban_lifted", time }) as const;

describe("the last events", () => {
  it("are kept up to 200, the oldest first, and numbered from 1 on", () => {
    const recent = new RecentEvents();
    assert.deepEqual(recent.since(0), []);
    for (let time = 1; time <= 201; time++) recent.add(event(time));
    const kept = recent.since(0);
    assert.deepEqual([kept.length, kept[0]?.number, kept[0]?.time], [200, 2, 2]);
    assert.deepEqual([kept.at(-1)?.number, recent.last], [201, 201]);
  });

  it("of bans are kept for longer: the last 1,000 of all accounts", () => {
    const recent = new RecentEvents();
    const ban = { kind: "ban", env: "production", window: "day", offences: 1 } as const;
    const add = (account: string, until: number) => {
      recent.add({ ...ban, account, until, time: 1_000, decidedAt: 1_000, strikes: [1] });
    };
    add("a", 1);
    for (let i = 0; i < 999; i++) add("b", i);
    const bansOf = (account: string) => recent.bansOf({ account, environment: "production" });
    assert.deepEqual([bansOf("a").length, bansOf("b").length], [1, 999]);
    recent.add(event(1_001));
    add("b", 999);
    assert.deepEqual([bansOf("a").length, bansOf("b").length], [0, 1_000]);
    assert.deepEqual(recent.bansOf({ account: "b", environment: "staging" }), []);
  });

  it("since a number are those after it, and none after the last", () => {
    const recent = new RecentEvents();
    for (let time = 1; time <= 3; time++) recent.add(event(time));
    assert.deepEqual(
      recent.since(1).map(({ number }) => number),
      [2, 3],
    );
    assert.deepEqual(recent.since(3), []);
  });
});

it("a reason is that of people who imposed a ban, never of one that was earned", () => {
  const recent = new RecentEvents();
  const owner = { account: "a", environment: "production" };
  const ban = {
    kind: "ban",
    time: 5_000,
    account: "a",
    env: "production",
    reason: "abuse",
  } as const;
  const rest = { window: "day", until: 60, offences: 0 };
  recent.add({ ...ban, ...rest, imposed: true });
  recent.add({ ...ban, ...rest, decidedAt: 5_000, strikes: [4] });
  assert.deepEqual(
    recent.bansOf(owner).map(({ imposed, reason, strikes }) => [imposed, reason, strikes.length]),
    [
      [true, "abuse", 0],
      [undefined, undefined, 1],
    ],
  );
});
