import assert from "node:assert/strict";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { DAY_MS, formatDay } from "../../../src/core/quota/days.ts";
import { DEPRECATED_API } from "../../support/gateway/deprecated-api.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { audited, type Line, type Told } from "../audit-kit.ts";
import { freePorts, jsonOf, runVerb } from "../kit.ts";

const API = DEPRECATED_API.replace("operationId: old\n", "$&      x-limits: { day: 900000 }\n");

/** A gateway whose account has called the deprecated operation three times. */
async function openCalled(store = "memory"): Promise<TestGateway> {
  const [admin = 0] = await freePorts(1);
  const house = await startTestGateway({
    config: {
      ...{ store, history: "40d", bans: "off", plans: { free: { day: 1_000_000 } } },
      admin: { listen: `127.0.0.1:${admin}` },
    },
    environment: { api: "./api.yaml" },
    files: { "api.yaml": API },
    keys: { [KEY]: { account: ACCOUNT } },
  });
  for (let i = 0; i < 3; i++) await (await house.ask(KEY, "/v1/old")).text();
  await eventually(() => assert.equal(house.lines.length, 3));
  return house;
}

type Called = { route: string; accounts: { account: string; requests: number }[] }[];

async function callsBy(args: readonly string[]) {
  const said = await runVerb(["deprecations", "--json", ...args]);
  assert.equal(said.status, 0, said.err);
  const told = jsonOf<Called>(said);
  return told.map(({ route, accounts }) => [route, ...accounts.map(({ requests }) => requests)]);
}

const CALLS = [["/v1/older"], ["/v1/old", 3]];

describe("deprecations, where the file cannot be used", () => {
  for (const store of ["memory", "redis"] as const) {
    it(`are those of the gateway, with store: ${store}`, async () => {
      const redis = store === "redis" ? await startRedis() : undefined;
      await using house = await openCalled(redis?.url);
      const nowhere = join(house.directory, "nowhere.yaml");
      const admin = ["--admin", house.adminUrl, "--config", nowhere];
      assert.deepEqual(await callsBy(admin), CALLS);
      await appendFile(house.file, "plams: 1\n");
      const where = ["--config", house.file];
      assert.deepEqual(await callsBy(where), CALLS);
      await house.gateway.stop();
      const lacking = await runVerb(["deprecations", ...where]);
      assert.deepEqual([lacking.status, lacking.out], [1, ""]);
      assert.match(lacking.err, /What is deprecated is not known, .*: Cannot ask the gateway at/);
      await redis?.close();
    });
  }

  it("are told without their callers while the store of the gateway of --admin is away", async () => {
    const redis = await startRedis();
    await using house = await openCalled(redis.url);
    await redis.close();
    const nowhere = join(house.directory, "nowhere.yaml");
    await appendFile(house.file, "plams: 1\n");
    for (const where of [
      ["--admin", house.adminUrl, "--config", nowhere],
      ["--config", house.file],
    ]) {
      const asked = await runVerb(["deprecations", "--json", ...where]);
      assert.equal(asked.status, 1);
      assert.ok(
        asked.err.endsWith("Cannot tell who calls them: the gateway cannot ask its store\n"),
      );
      const told = JSON.parse(asked.out) as object[];
      assert.deepEqual(
        told.map((one) => "accounts" in one),
        [false, false],
      );
    }
  });

  it("are those of all gateways on a store, and of each that has its own", async () => {
    const redis = await startRedis();
    for (const store of [redis.url, "memory"]) {
      await using one = await openCalled(store);
      await using other = await openCalled(store);
      const nowhere = join(one.directory, "nowhere.yaml");
      const admins = [one, other].flatMap(({ adminUrl }) => ["--admin", adminUrl]);
      const calls = await callsBy([...admins, "--config", nowhere]);
      assert.deepEqual(calls, [["/v1/older"], ["/v1/old", 6]], store);
    }
    await redis.close();
  });
});

describe("a gateway that is named twice", () => {
  it("is counted once, whatever its address is called", async () => {
    await using house = await openCalled();
    await eventually(async () => {
      const told = (await (await house.admin("/api/gateways")).json()) as unknown[];
      assert.equal(told.length, 1);
    });
    const { port } = new URL(house.adminUrl);
    for (const named of [house.adminUrl, `${house.adminUrl}/`, `http://localhost:${port}`]) {
      const calls = await callsBy(["--admin", named, "--config", house.file]);
      assert.deepEqual(calls, CALLS, named);
    }
  });
});

describe("an audit, where the file cannot be used", () => {
  it("compares what the plans and the history have, and no window of an operation", async () => {
    await using house = await openCalled();
    const nowhere = join(house.directory, "nowhere.yaml");
    const admin = ["--admin", house.adminUrl, "--config", nowhere];
    const log = (await audited(house)).log;
    await appendFile(house.file, "plams: 1\n");
    for (const where of [admin, ["--config", house.file]]) {
      const said = await runVerb(["audit", "--log", log, "--json", ...where]);
      const { drift, matched, notCompared } = jsonOf<Told>(said);
      assert.deepEqual([said.status, drift, matched], [0, [], 1], said.out);
      assert.deepEqual(
        notCompared.map(({ window, why }) => [window, why]),
        [["old.day", "the operations of the gateway are not known, as its file cannot be used"]],
      );
      const day = ["--day", formatDay(Math.floor(Date.now() / DAY_MS) - 1)];
      const yesterday = await runVerb(["audit", "--log", log, "--json", ...day, ...where]);
      assert.doesNotMatch(yesterday.out, /there is no history/);
    }
  });

  it("takes no gateway on the same store for a killed one", async () => {
    const redis = await startRedis();
    await using house = await openCalled(redis.url);
    await using _beside = await openCalled(redis.url);
    await eventually(async () => {
      const told = (await (await house.admin("/api/gateways")).json()) as unknown[];
      assert.equal(told.length, 2);
    });
    const edit = (lines: readonly Line[]) => {
      const time = lines[0]?.time;
      return [{ msg: "serving", time }, { msg: "serving", time }, ...lines.slice(1)];
    };
    await appendFile(house.file, "plams: 1\n");
    const { told } = await audited(house, { edit });
    assert.deepEqual(told.explained, []);
    await redis.close();
  });
});
