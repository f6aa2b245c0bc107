import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { audited, type Line, openAudited, type Told } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

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

describe("audit beside another gateway that runs", () => {
  it("takes it for none that was killed, by its heartbeat: a line that is missing is drift once both were asked", async () => {
    const redis = await startRedis();
    try {
      const config = { store: redis.url, bans: "off", plans: { free: { month: 100 } } };
      const keys = { [KEY]: { account: ACCOUNT } };
      await using one = await openAudited({ config, keys });
      await using other = await openAudited({ config, keys });
      await eventually(async () => {
        for (const house of [one, other]) assert.equal((await house.ask(KEY)).status, 200);
      });
      await eventually(async () => {
        const listed = await one.admin("/api/gateways");
        assert.equal(((await listed.json()) as unknown[]).length, 2);
      });
      const count = () => one.lines.length + other.lines.length;
      await eventually(() => assert.ok(count() >= 2));
      const log = join(one.directory, "all.log");
      // The logs reach back to before the month, so that all of it is compared.
      const now = new Date();
      const begun = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1) - 1_000;
      const serving: Line[] = [begun, begun].map((time) => ({ msg: "serving", time }));
      const admitted = [...one.lines, ...other.lines].filter(({ charged }) => charged > 0);
      const lines = [...serving, ...admitted.slice(1)];
      await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      const told = async (...args: string[]) => {
        const named = ["audit", "--log", log, "--json", "--config", one.file, ...args];
        const said = await runVerb(named);
        const { drift, notCompared } = jsonOf<Told>(said);
        const of = [drift, notCompared].map((all) => all.map((each) => [each.window, each.drift]));
        return [said.status, ...of];
      };
      assert.deepEqual(await told(), [1, [], [["month", 0]]]);
      assert.deepEqual(await told("--admin", other.adminUrl), [1, [["month", 1]], []]);
    } finally {
      await redis.close();
    }
  });
});
