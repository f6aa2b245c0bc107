import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { afterAll, beforeAll, test } from "vitest";
import { makeKey } from "../../src/core/keys/key.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { openClient, requestBytes } from "../support/wire/client.ts";

const GUESSES = 2_000;
const BATCH = 100;

let server: TestRedis;
let house: TestGateway;
beforeAll(async () => {
  server = await startRedis();
  const config = { store: server.url, keys: "redis", unauthenticated: { minute: 30 } };
  house = await startTestGateway({ config });
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
  await server.close();
});

/**
 * Counts all commands but those that run by themselves: heartbeats, polls, and the commands of a
 * new connection.
 */
async function decisions(): Promise<number> {
  let sum = 0;
  for (const command of ["evalsha", "eval", "hgetall", "hget", "hmget", "mget"]) {
    sum += await server.calls(command);
  }
  return sum;
}

test(`${GUESSES} well-formed keys that nobody has cost Redis no command`, async (t) => {
  const startMs = performance.now();
  const before = await decisions();
  let sent = 0;
  // Past the allowance each answer ends its connection: the guesser has to come again.
  while (sent < GUESSES) {
    const guesses = Array.from({ length: BATCH }, async () => {
      await using client = await openClient(house.port);
      client.write(requestBytes({ key: makeKey("pets", "live", randomInt) }));
      const [answer] = await client.responses(["GET"]);
      assert.equal(answer?.status, 401);
    });
    await Promise.all(guesses);
    sent += BATCH;
  }
  const cost = (await decisions()) - before;
  const seconds = (performance.now() - startMs) / 1_000;
  t.annotate(`${sent} guesses in ${seconds.toFixed(1)} s, ${cost} commands`);
  // Some reads run by themselves, and more of them the longer a busy machine takes.
  assert.ok(cost <= sent / 20 + 4 * seconds, `${cost} commands for ${sent} guesses`);
});

test("a good key of the same address is neither refused nor closed for it", async () => {
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  for (let i = 0; i < 10; i++) assert.equal((await client.ask({ key })).status, 200);
  await house.law();
});
