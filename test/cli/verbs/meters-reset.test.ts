import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { ResetReport } from "../../../src/core/keys/usage-reports.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { audited, openAudited } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

const HOLD = 20;

/** A gateway with a metered operation whose answers tell nothing, so that each keeps its hold. */
async function openMetered(store = "memory") {
  const tokens = { hold: HOLD, max: HOLD, used: ["header x-used"] };
  return openAudited({
    environment: { api: null, costs: [{ match: "POST /v1/chat", meters: { tokens } }] },
    config: {
      ...{ bans: "off", store },
      plans: { free: { day: 1000, month: 1000, meters: { tokens: { day: 100, month: 400 } } } },
    },
  });
}

type House = Awaited<ReturnType<typeof openMetered>>;

async function chat(house: House, key: string, times: number): Promise<void> {
  const before = house.lines.length;
  for (let i = 0; i < times; i++) {
    const answer = await house.ask(key, "/v1/chat", { method: "POST", body: "{}" });
    assert.equal(answer.status, 200);
    await answer.text();
  }
  await eventually(() => assert.equal(house.lines.length, before + times));
}

async function reset(house: House, account: string, ...windows: string[]) {
  const named = windows.flatMap((window) => ["--window", window]);
  return runVerb(["accounts", "reset", account, ...named, "--json", "--config", house.file]);
}

describe("a reset of an account with meters", () => {
  it.for(["memory", "redis"])(
    "names their windows as usage does, and leaves no drift in an audit: store %s",
    async (kind, t) => {
      const redis = kind === "redis" ? await startRedis() : undefined;
      t.onTestFinished(() => redis?.close());
      await using house = await openMetered(redis?.url);
      // Its month began on a day of its own, which is not the first one.
      const anchor = 2 + (new Date().getUTCDate() % 28);
      const { key, account } = await house.issue({ anchor });
      await chat(house, key, 3);
      const { windows } = jsonOf<ResetReport>(await reset(house, account));
      const told = Object.fromEntries(windows.map(({ window, units }) => [window, units]));
      const tokens = { "tokens.day": 3 * HOLD, "tokens.month": 3 * HOLD };
      assert.deepEqual(told, { day: 3, month: 3, ...tokens });
      await chat(house, key, 1);
      await eventually(async () => {
        const found = await audited(house);
        assert.deepEqual([found.status, found.told.drift], [0, []]);
      });
    },
  );

  it("takes the name of one of their windows, and sets that one alone to 0", async () => {
    await using house = await openMetered();
    const { key, account } = await house.issue();
    await chat(house, key, 5);
    assert.equal((await house.ask(key, "/v1/chat", { method: "POST", body: "{}" })).status, 429);
    const said = await reset(house, account, "tokens.day");
    assert.equal(said.status, 0, said.err);
    assert.deepEqual(jsonOf<ResetReport>(said).windows, [
      { window: "tokens.day", units: 5 * HOLD },
    ]);
    await chat(house, key, 1);
    const unknown = await reset(house, account, "rows.day");
    assert.notEqual(unknown.status, 0);
    assert.match(unknown.err, /Unknown window "rows\.day": expected second, .*, tokens\.day/);
  });
});
