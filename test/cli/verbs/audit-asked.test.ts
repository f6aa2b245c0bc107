import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { eventually } from "../../support/poll.ts";
import { audited, openAudited } from "../audit-kit.ts";

describe("audit of a month of which the logs lack a day", () => {
  it("ends with 1, though all the rest matches, and with 0 where the day was not asked for", async () => {
    const clock = { nowMs: Date.UTC(2026, 9, 29, 12) };
    await using house = await openAudited({
      now: () => clock.nowMs,
      config: { history: "400d", bans: "off" },
    });
    const { key } = await house.issue();
    for (const [day, times] of [
      [29, 3],
      [30, 2],
      [32, 1],
    ] as const) {
      clock.nowMs = Date.UTC(2026, 9, day, 12);
      for (let i = 0; i < times; i++) await (await house.ask(key)).text();
    }
    await eventually(() => assert.equal(house.lines.length, 6));
    const asked = (...args: string[]) => {
      return audited(house, { nowMs: clock.nowMs, leaveOut: 3, bare: true, args });
    };
    const month = await asked("--month", "2026-10");
    assert.deepEqual(
      month.told.notCompared.map(({ window }) => window),
      ["2026-10-29"],
    );
    assert.deepEqual([month.status, month.told.matched, month.told.drift], [1, 1, []]);
    const all = await asked();
    assert.deepEqual([all.status, all.told.drift], [0, []]);
    const day = await asked("--day", "2026-10-30");
    assert.deepEqual([day.status, day.told.matched, day.told.notCompared], [0, 1, []]);
  });
});
