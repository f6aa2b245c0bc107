import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import type { DayReport } from "../../../src/stores/queries/read-history.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { freePorts, jsonOf, runVerb } from "../kit.ts";

type Balance = { account: string; window: string; open: number; drift: number; reset: number };
type Told = {
  accounts: number;
  charged: number;
  drift: Balance[];
  open: Balance[];
  missing: string[];
};

async function openAudited(
  options: Parameters<typeof startTestGateway>[0] = {},
): Promise<TestGateway> {
  const [admin = 0] = await freePorts(1);
  const { config = {} } = options;
  return startTestGateway({
    ...options,
    config: { ...config, admin: { listen: `127.0.0.1:${admin}` } },
  });
}

type Asked = { readonly leaveOut?: number; readonly nowMs?: number };

async function audited(house: TestGateway, { leaveOut = 0, nowMs }: Asked = {}) {
  const log = join(house.directory, "gateway.log");
  const lines = [...house.said, ...house.lines.slice(leaveOut)];
  await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const clock = nowMs === undefined ? {} : { nowMs };
  const said = await runVerb(["audit", "--log", log, "--config", house.file, "--json"], clock);
  return { ...said, told: jsonOf<Told>(said), log };
}

describe("audit", () => {
  it("finds that what was charged is what the store counts, also after a reset", async () => {
    await using house = await openAudited();
    const [one, two] = [await house.issue(), await house.issue({ plan: "pro" })];
    for (let i = 0; i < 70; i++) await (await house.ask(one.key)).text();
    await (await house.ask(two.key)).text();
    const path = `/api/accounts/${one.account}/reset`;
    assert.equal((await house.admin(path, { method: "POST", body: "{}" })).status, 200);
    for (let i = 0; i < 3; i++) await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 74));
    const { status, told, log } = await audited(house);
    assert.deepEqual([told.drift, told.open], [[], []]);
    const units = house.lines.reduce((sum, { charged }) => sum + charged, 0);
    assert.ok(units < 74, "some were refused");
    assert.deepEqual([status, told.accounts, told.charged], [0, 2, units]);
    const text = await runVerb(["audit", "--log", log, "--config", house.file]);
    assert.ok(text.out.startsWith(`2 accounts, ${units} units in the logs\nWhat was charged is`));
  });

  it("ends with 1, and names account and units, where a line is missing or is there twice", async () => {
    await using house = await openAudited();
    const one = await house.issue();
    for (let i = 0; i < 5; i++) await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 5));
    const { status, told, log } = await audited(house, { leaveOut: 2 });
    assert.equal(status, 1);
    const day = told.drift.find(({ window }) => window === "day");
    assert.deepEqual([day?.account, day?.drift], [one.account, 2]);
    const twice = await runVerb(["audit", "--log", log, log, "--config", house.file]);
    assert.equal(twice.status, 1);
    assert.match(twice.out, new RegExp(`${one.account} +production +day +6 +5 +0 +0 +-1\n`));
  });

  it("says of an account that only the log knows that nothing is known to compare", async () => {
    await using house = await openAudited();
    const one = await house.issue();
    await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 1));
    const log = join(house.directory, "gateway.log");
    const lines = [house.lines[0], { ...house.lines[0], account: "a_gone" }];
    await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const said = await runVerb(["audit", "--log", log, "--config", house.file, "--json"]);
    const { drift, missing } = jsonOf<Told>(said);
    assert.deepEqual([said.status, drift], [0, []]);
    assert.match(missing.join("\n"), /the counts of a_gone are not known: /);
  });

  it("lists what is under way apart from drift", async () => {
    const answered = Promise.withResolvers<void>();
    const backend = await startTestUpstream(async (_seen, response) => {
      await answered.promise;
      response.end("{}");
    });
    await using house = await openAudited({ backend });
    const one = await house.issue();
    const asked = house.ask(one.key);
    await eventually(() => assert.equal(backend.seen.length, 1));
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift], [0, []]);
    assert.deepEqual(
      told.open
        .filter(({ window }) => window === "day")
        .map(({ account, open }) => [account, open]),
      [[one.account, 1]],
    );
    answered.resolve();
    await (await asked).text();
  });

  it("compares days that are over with the history, over midnight and the end of a month", async () => {
    const clock = { nowMs: Date.UTC(2026, 9, 30, 23, 59, 59) };
    await using house = await openAudited({
      now: () => clock.nowMs,
      config: { history: "400d", bans: "off", stateFile: "./state.json" },
    });
    const one = await house.issue();
    const other = await house.issue({ plan: "pro" });
    for (const [days, times] of [
      [0, 3],
      [1, 2],
      [2, 4],
    ] as const) {
      clock.nowMs = Date.UTC(2026, 9, 30 + days, 23, 59, 59);
      for (let i = 0; i < times; i++) await (await house.ask(one.key)).text();
      await (await house.ask(other.key)).text();
    }
    clock.nowMs = Date.UTC(2026, 10, 2);
    await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 13));
    const asked = ["usage", "--days", "30", "--json", "--config", house.file];
    const rows = jsonOf<DayReport[]>(await runVerb(asked, { nowMs: clock.nowMs }));
    const ofOne = rows.filter(({ account }) => account === one.account);
    assert.deepEqual(
      ofOne.map(({ day, units }) => `${day} ${units}`),
      ["2026-10-30 3", "2026-10-31 2", "2026-11-01 4", "2026-11-02 1"],
    );
    const charged = house.lines.reduce((sum, line) => sum + line.charged, 0);
    assert.equal(
      rows.reduce((sum, { units }) => sum + units, 0),
      charged,
    );
    const right = await audited(house, { nowMs: clock.nowMs });
    assert.deepEqual([right.status, right.told.drift], [0, []]);

    const wrong = await audited(house, { nowMs: clock.nowMs, leaveOut: 2 });
    const found = wrong.told.drift.filter(({ window }) => window.startsWith("2026-"));
    assert.deepEqual(
      [wrong.status, found.map(({ account, window, drift }) => [account, window, drift])],
      [1, [[one.account, "2026-10-30", 2]]],
    );
  });

  it("needs a log, and says that the gateway does not answer", async () => {
    await using house = await openAudited();
    const without = await runVerb(["audit", "--config", house.file]);
    assert.deepEqual([without.status, without.out], [64, ""]);
    assert.match(without.err, /^Missing --log FILE/);
    const log = join(house.directory, "empty.log");
    await writeFile(log, "");
    await house.started.stop();
    const away = await runVerb(["audit", "--log", log, "--config", house.file]);
    assert.equal(away.status, 1);
    assert.match(away.err, /admin\.listen/);
  });
});
