import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, test } from "vitest";
import { samplesOf } from "../admin/scrape.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { type Client, openClient, rateLimitFieldsOf } from "../support/wire/client.ts";

const REQUESTS = 120;

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

/** All at once over connections of their own, spread over the gateways. */
async function race(
  houses: readonly TestGateway[],
  key: string,
): Promise<{ status: number; remaining: number }[]> {
  const clients = await Promise.all(
    Array.from({ length: REQUESTS }, (_, i) =>
      openClient((houses[i % houses.length] as TestGateway).port),
    ),
  );
  const told = await Promise.all(
    clients.map(async (client: Client) => {
      const answer = await client.ask({ key });
      return { status: answer.status, remaining: rateLimitFieldsOf(answer).remaining };
    }),
  );
  for (const client of clients) client.socket.destroy();
  return told;
}

const numbers = (to: number) => Array.from({ length: to }, (_, i) => i);

// More processes and rounds: test/stores/quotas/redis/exact.test.ts. Here it is the whole way, over sockets.
/** Requests that a gateway decided by itself: a machine that stalls makes a store look away. */
async function decidedAlone(houses: readonly TestGateway[]): Promise<number> {
  let sum = 0;
  for (const house of houses) {
    const text = await (await house.admin("/metrics")).text();
    const samples = samplesOf(text).filter(([name]) =>
      name.includes("store_unavailable_decisions"),
    );
    sum += samples.reduce((all, [, value]) => all + value, 0);
  }
  return sum;
}

/** One round at remaining = k. False where the store was away meanwhile: then it proves nothing. */
async function playRound(houses: readonly TestGateway[], k: number): Promise<boolean> {
  const [issuer, ...others] = houses as [TestGateway, ...TestGateway[]];
  const limits = { day: k, month: 500 };
  const { key, account } = await issuer.issue({ plan: "enterprise", limits });
  const text = await readFile(`${issuer.directory}/keys.json`, "utf8");
  for (const house of others) await writeFile(`${house.directory}/keys.json`, text);
  for (const house of others) await untilKnown(house, account);
  for (const house of houses) house.backend.forget();
  const before = await decidedAlone(houses);
  const told = await race(houses, key);
  if ((await decidedAlone(houses)) > before) return false;

  const passed = told.filter(({ status }) => status === 200);
  const left = passed.map(({ remaining }) => remaining).sort((a, b) => a - b);
  assert.deepEqual(left, numbers(k));
  const others429 = told.filter(({ status, remaining }) => status === 429 && remaining === 0);
  assert.equal(others429.length, REQUESTS - k);
  const seen = houses.reduce((sum, house) => sum + house.backend.seen.length, 0);
  assert.equal(seen, k, "and not one more reached a backend");
  return true;
}

for (const [store, count] of [
  ["memory", 1],
  ["redis", 1],
  ["redis", 4],
] as const) {
  test(`${store}, gateways: ${count}: of ${REQUESTS} at remaining = k exactly k pass, each with its own Remaining`, async () => {
    const config = { store: store === "memory" ? "memory" : server.url, bans: "off" };
    const houses: TestGateway[] = [];
    try {
      for (let i = 0; i < count; i++) houses.push(await startTestGateway({ config }));
      for (const k of [1, 7, 60]) {
        let tries = 1;
        while (!(await playRound(houses, k))) assert.ok(tries++ < 20, "the store is always away");
      }
    } finally {
      for (const house of houses) await house[Symbol.asyncDispose]();
    }
  });
}

async function untilKnown(house: TestGateway, account: string): Promise<void> {
  await eventually(async () => {
    assert.equal((await house.admin(`/api/usage/${account}`)).status, 200);
  });
}
