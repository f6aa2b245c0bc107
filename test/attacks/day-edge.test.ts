import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { openClient, rateLimitFieldsOf } from "../support/wire/client.ts";

/** Midnights that clocks on walls make something of: summer time, a leap day, a leap second's day. */
const MIDNIGHTS: Readonly<Record<string, number>> = {
  "an ordinary day": Date.UTC(2030, 4, 6),
  "summer time begins": Date.UTC(2030, 2, 31),
  "summer time ends": Date.UTC(2030, 9, 27),
  "29 February": Date.UTC(2028, 1, 29),
  "1 March of a leap year": Date.UTC(2028, 2, 1),
  "the day after a leap second": Date.UTC(2017, 0, 1),
  "a new year": Date.UTC(2031, 0, 1),
};
const DAY_MS = 86_400_000;

for (const [name, midnightMs] of Object.entries(MIDNIGHTS)) {
  test(`${name}: at 00:00:00.000 UTC the next request is the first of its day, a millisecond before the last`, async () => {
    let nowMs = midnightMs - DAY_MS;
    const plans = { free: { day: 3 }, enterprise: "custom" };
    await using house = await startTestGateway({
      now: () => nowMs,
      config: { plans, bans: "off" },
    });
    const { key, account } = await house.issue();
    await using client = await openClient(house.port);
    const used = async () => {
      const usage = await (await house.admin(`/api/usage/${account}`)).json();
      return (usage as { windows: { used: number }[] }).windows.at(-1)?.used;
    };
    for (const at of [nowMs, midnightMs - DAY_MS / 2, midnightMs - 1]) {
      nowMs = at;
      const answer = await client.ask({ key });
      assert.deepEqual([answer.status, rateLimitFieldsOf(answer).reset], [200, midnightMs / 1_000]);
    }
    const refused = await client.ask({ key });
    assert.equal(refused.status, 429);
    const retry = refused.fields.find(([field]) => field === "Retry-After")?.[1];
    assert.equal(retry, "1", "one millisecond is a second, rounded up");
    nowMs = midnightMs;
    const first = await client.ask({ key });
    assert.deepEqual([first.status, rateLimitFieldsOf(first).remaining], [200, 2]);
    assert.equal(rateLimitFieldsOf(first).reset, (midnightMs + DAY_MS) / 1_000);
    assert.equal(await used(), 1);
  });
}
