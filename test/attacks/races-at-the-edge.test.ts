import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { type Client, openClient, rateOf } from "../support/client.ts";
import { type House, openHouse } from "../support/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

const REQUESTS = 120;

let server: TestRedis;
before(async () => {
  server = await startRedis();
});
after(() => server.close());

/** All at once over connections of their own, spread over the gateways. */
async function race(
  houses: readonly House[],
  key: string,
): Promise<{ status: number; remaining: number }[]> {
  const clients = await Promise.all(
    Array.from({ length: REQUESTS }, (_, i) =>
      openClient((houses[i % houses.length] as House).port),
    ),
  );
  const told = await Promise.all(
    clients.map(async (client: Client) => {
      const answer = await client.ask({ key });
      return { status: answer.status, remaining: rateOf(answer).remaining };
    }),
  );
  for (const client of clients) client.socket.destroy();
  return told;
}

const numbers = (to: number) => Array.from({ length: to }, (_, i) => i);

// More processes and rounds: test/stores/exact.test.ts. Here it is the whole way, over sockets.
for (const [store, count] of [
  ["memory", 1],
  ["redis", 1],
  ["redis", 4],
] as const) {
  test(`${store}, gateways: ${count}: of ${REQUESTS} at remaining = k exactly k pass, each with its own Remaining`, async () => {
    const config = { store: store === "memory" ? "memory" : server.url, bans: "off" };
    const houses: House[] = [];
    try {
      const issuer = await openHouse({ config });
      houses.push(issuer);
      for (const k of [1, 7, 60]) {
        const { key, account } = await issuer.issue({
          plan: "enterprise",
          limits: { day: k, month: 500 },
        });
        const text = await readFile(`${issuer.directory}/keys.json`, "utf8");
        while (houses.length < count) houses.push(await openHouse({ config }));
        for (const house of houses.slice(1)) await writeFile(`${house.directory}/keys.json`, text);
        for (const house of houses.slice(1)) await untilKnown(house, account);
        const told = await race(houses, key);
        const passed = told.filter(({ status }) => status === 200);
        assert.deepEqual(
          passed.map(({ remaining }) => remaining).sort((a, b) => a - b),
          numbers(k),
        );
        assert.ok(
          told.every(
            ({ status, remaining }) => status === 200 || (status === 429 && remaining === 0),
          ),
        );
        const seen = houses.reduce((sum, house) => sum + house.backend.seen.length, 0);
        assert.equal(seen, k, "and not one more reached a backend");
        for (const house of houses) house.backend.forget();
      }
    } finally {
      for (const house of houses) await house[Symbol.asyncDispose]();
    }
  });
}

async function untilKnown(house: House, account: string): Promise<void> {
  await eventually(async () => {
    assert.equal((await house.admin(`/api/usage/${account}`)).status, 200);
  });
}
