import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, test } from "vitest";
import { each } from "../support/each.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { watchStalls } from "../support/in-time.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { type Client, openClient } from "../support/wire/client.ts";

const STRIKES = 4;
const GRACE_MS = 50;
const BANS = {
  strikes: STRIKES,
  within: "1m",
  grace: `${GRACE_MS}ms`,
  duration: "1m",
  factor: 4,
  max: "1h",
  forgetAfter: "1h",
};
const PLANS = { free: { day: 5 }, enterprise: "custom" };

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterEach(async () => {
  const redis = await server.client();
  await redis.flushall();
  redis.disconnect();
});
afterAll(() => server.close());

const open = (store: string): Promise<TestGateway> =>
  startTestGateway({ config: { store, bans: BANS, plans: PLANS } });

/** Asks over many connections at once until the first is told of the ban; gives all that was told. */
async function race(
  clients: readonly Client[],
  keys: readonly string[],
): Promise<(string | undefined)[]> {
  const told: (string | undefined)[] = [];
  const endMs = performance.now() + 20_000;
  for (let round = 0; !told.includes("key_banned"); round++) {
    assert.ok(performance.now() < endMs, "never banned");
    const codes = clients.map(async (client, i) => {
      const { body, status } = await client.ask({ key: keys[(round + i) % keys.length] as string });
      told.push(
        status === 200 ? undefined : (JSON.parse(body.toString()) as { code: string }).code,
      );
    });
    await Promise.all(codes);
  }
  return told;
}

for (const kind of ["memory", "redis"] as const) {
  const address = () => (kind === "memory" ? "memory" : server.url);

  test(`${kind}: 64 connections that race are banned as one, and after the ban nothing is admitted`, async () => {
    await using house = await open(address());
    const { key } = await house.issue();
    const clients = await Promise.all(Array.from({ length: 64 }, () => openClient(house.port)));
    const startMs = performance.now();
    const told = await race(clients, [key]);
    assert.equal(told.filter((code) => code === undefined).length, 5, "the limit, and no more");
    // Strikes are the grace apart, however many ask: not sooner, and not much later either.
    assert.ok(performance.now() - startMs >= STRIKES * GRACE_MS);
    const after = await Promise.all(clients.map((client) => client.ask({ key })));
    assert.ok(
      each(after).every(({ status, body }) => status === 429 && body.includes("key_banned")),
    );
    for (const client of clients) client.socket.destroy();
    await house.law();
  });

  test(`${kind}: further keys of the account, old and new, are banned with it`, async () => {
    await using house = await open(address());
    const { key, account } = await house.issue();
    const second = await house.issue({ account });
    const clients = await Promise.all(Array.from({ length: 4 }, () => openClient(house.port)));
    const told = await race(clients, [key, second.key]);
    assert.equal(told.filter((code) => code === undefined).length, 5, "one quota for both");
    const third = await house.issue({ account });
    const rotated = await house.admin(`/api/keys/${third.id}/rotate`, {
      method: "POST",
      body: "{}",
    });
    const fourth = (await rotated.json()) as { key: string };
    for (const each of [key, second.key, third.key, fourth.key]) {
      const { status, body } = await (clients[0] as Client).ask({ key: each });
      assert.deepEqual([status, body.includes("key_banned")], [429, true]);
    }
    for (const client of clients) client.socket.destroy();
    await house.law();
  });
}

test("refusals answered from memory are strikes too: two gateways together ban within a second of them", async () => {
  await using one = await open(server.url);
  const { key, account } = await one.issue();
  await using client = await openClient(one.port);
  for (let i = 0; i < 6; i++) await client.ask({ key });
  const evals = await server.calls("evalsha");
  const startMs = performance.now();
  let code = "";
  const { stalledMs } = await watchStalls(async () => {
    while (code !== "key_banned" && performance.now() - startMs < 10_000) {
      code = (JSON.parse((await client.ask({ key })).body.toString()) as { code: string }).code;
      await sleep(10);
    }
  });
  const tookMs = performance.now() - startMs;
  assert.equal(code, "key_banned");
  const wantedMs = STRIKES * GRACE_MS + 3_000;
  assert.ok(tookMs < wantedMs + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
  const asked = (await server.calls("evalsha")) - evals;
  assert.ok(asked <= 4 * STRIKES + tookMs / 100, `${asked} calls`);
  const bans = (await (await one.admin("/api/bans")).json()) as { account: string }[];
  assert.deepEqual(
    bans.map((ban) => ban.account),
    [account],
  );
  await one.law();
});
