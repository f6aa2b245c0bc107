import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { jsonOf, runVerb } from "../cli/kit.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { ACCOUNT, KEY, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";

const { server, redis } = await useRedis();
const PLANS = { free: { month: 50 } };
const CONFIG = { store: server.url, plans: PLANS, bans: "off" };
const OPTIONS = { config: CONFIG, keys: { [KEY]: { id: ACCOUNT } } };
const RESETS = "tg:{0}:resets";

type Windows = { readonly windows: unknown };
type Said = readonly Record<string, unknown>[];
const resetsIn = (said: Said) => said.filter(({ msg }) => msg === "account_reset");
const spend = async (url: string, times: number) => {
  for (let i = 0; i < times; i++) {
    const headers = { Authorization: `Bearer ${KEY}` };
    const answer = await fetch(`${url}/v1/pets`, { headers });
    assert.equal(answer.status, 200);
    await answer.arrayBuffer();
  }
};
const reset = async (file: string) => {
  const said = await runVerb(["accounts", "reset", ACCOUNT, "--json", "--config", file]);
  assert.equal(said.status, 0, said.err);
  return jsonOf<{ windows: unknown }>(said).windows;
};
/** A message of a second gateway may still be on its way when the first one has told its line. */
const settle = () => sleep(150);

async function auditOf(houses: readonly TestGateway[]): Promise<number> {
  const [first] = houses as readonly [TestGateway];
  const log = join(first.directory, "gateway.log");
  const lines = houses.flatMap(({ said, lines: requests }) => [...said, ...requests]);
  await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return (await runVerb(["audit", "--log", log, "--config", first.file])).status;
}

describe("a reset that a command makes in Redis", () => {
  it("is told with its units by one of the gateways, and what they charged adds up in an audit", async () => {
    await using one = await startTestGateway(OPTIONS);
    await using other = await startTestGateway(OPTIONS);
    await spend(one.url, 3);
    await spend(other.url, 4);
    const startMs = Date.now();
    assert.deepEqual(await reset(one.file), [{ window: "month", units: 7 }]);
    await spend(other.url, 1);
    assert.deepEqual(await reset(one.file), [{ window: "month", units: 1 }]);
    const told = () => [...resetsIn(one.said), ...resetsIn(other.said)];
    await eventually(() => assert.equal(told().length, 2));
    await settle();
    const units = told().map(({ account, env, windows }) =>
      JSON.stringify([account, env, windows]),
    );
    assert.deepEqual(
      units.sort(),
      [7, 1]
        .map((each) => `["${ACCOUNT}","production",[{"window":"month","units":${each}}]]`)
        .sort(),
    );
    for (const { resetAt } of told()) assert.ok(Math.abs(Number(resetAt) - startMs) < 30_000);
    await spend(one.url, 2);
    assert.equal(await auditOf([one, other]), 0);
    assert.equal(await redis.exists(RESETS), 0, "nothing waits");
  });

  it("waits where no gateway runs, and is told once by the next that starts", async () => {
    const before = await startTestGateway(OPTIONS);
    await spend(before.url, 2);
    const { file } = before;
    const kept = await startTestGateway(OPTIONS);
    await before.gateway.stop();
    await kept[Symbol.asyncDispose]();
    const [window] = (await reset(file)) as { units: number }[];
    await redis.hset(RESETS, "nonsense", "{", "strange", '["x"]', "other", '["a:b", 1, [null]]');
    await before[Symbol.asyncDispose]();
    await using next = await startTestGateway(OPTIONS);
    await eventually(() => assert.equal(resetsIn(next.said).length, 1));
    await settle();
    assert.deepEqual(resetsIn(next.said)[0]?.windows, [{ window: "month", units: window?.units }]);
    await using later = await startTestGateway(OPTIONS);
    await spend(later.url, 1);
    assert.deepEqual([resetsIn(next.said).length, resetsIn(later.said).length], [1, 0]);
  });

  it("names the window of an operation that got its limit by a reload", async () => {
    const api = (limits: string) => `openapi: 3.1.0
info: { title: t, version: "1" }
paths: { /pets: { get: { operationId: list, ${limits} responses: {} } } }
`;
    const given = { ...OPTIONS, api: "./own.yaml", files: { "own.yaml": api("") } };
    await using house = await startTestGateway(given);
    await writeFile(join(house.directory, "own.yaml"), api("x-limits: { month: 9 },"));
    assert.equal((await house.gateway.reload()).ok, true);
    await spend(house.url, 1);
    await reset(house.file);
    await eventually(() => assert.equal(resetsIn(house.said).length, 1));
    const windows = resetsIn(house.said)[0]?.windows as { window: string }[];
    assert.deepEqual(windows.map(({ window }) => window).sort(), ["list.month", "month"]);
    assert.equal(await auditOf([house]), 0);
  });

  it("is told nowhere where no window runs, by a command and by the admin API", async () => {
    await using house = await startTestGateway(OPTIONS);
    await reset(house.file);
    const again = () =>
      house.admin(`/api/accounts/${ACCOUNT}/reset`, { method: "POST", body: "{}" });
    assert.deepEqual(await reset(house.file), []);
    const answer = await again();
    assert.deepEqual([answer.status, ((await answer.json()) as Windows).windows], [200, []]);
    assert.equal(await redis.exists(RESETS), 0, "no record waits");
    await settle();
    assert.deepEqual(
      resetsIn(house.said).filter(({ windows }) => (windows as unknown[]).length === 0),
      [],
    );
  });

  it("is told once where several processes serve, as is one through the admin API", async () => {
    await using backend = await startTestUpstream();
    const config = { store: server.url, workers: 2, plans: { vectors: { month: 1_000 } } };
    await using served = await spawnGateway({ upstreams: [backend.origin], config });
    await spend(served.url, 3);
    await reset(served.file);
    await eventually(() => assert.equal(resetsIn(served.said).length, 1));
    await spend(served.url, 2);
    const path = `${served.adminUrl}/api/accounts/${ACCOUNT}/reset`;
    const headers = { "Content-Type": "application/json" };
    assert.equal((await fetch(path, { method: "POST", headers, body: "{}" })).status, 200);
    await eventually(() => assert.equal(resetsIn(served.said).length, 2));
    await settle();
    const { windows } = resetsIn(served.said)[1] as { windows: unknown };
    assert.deepEqual([resetsIn(served.said).length, windows], [2, [{ window: "month", units: 2 }]]);
  });
});
