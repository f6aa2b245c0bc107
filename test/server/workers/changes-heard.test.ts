import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, it, onTestFinished } from "vitest";
import { open } from "../../stores/quotas/redis/redis-kit.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys } from "./kit.ts";
import { openPoolOn } from "./pool.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** A process does not learn that it listens for as long as a file is there. */
const HOLDS = `import { existsSync } from "node:fs";
import { Server } from "node:net";
const { emit } = Server.prototype;
Server.prototype.emit = function (name, ...more) {
  if (name !== "listening" || !existsSync(process.env.HELD)) return emit.call(this, name, ...more);
  const looking = setInterval(() => {
    if (existsSync(process.env.HELD)) return;
    clearInterval(looking);
    emit.call(this, name, ...more);
  }, 10);
  return true;
};`;

it("a lift that is told to a worker which is still starting holds for what it has decided by then", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-changes-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const held = join(folder, "held");
  const [key = ""] = await issueKeys(redis, 1);
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(HOLDS)}`;
  const variables = { NODE_OPTIONS, HELD: held };
  const listen = `127.0.0.1:${await freePort()}`;
  await using house = await openPoolOn(redis, { listen, variables });
  const ask = () => get(`http://${listen}/v1/animals`, key);
  assert.equal((await ask()).status, 502, "nobody listens at the backend");
  const client = await redis.client();
  const [stored = ""] = await client.keys("tg:*:production:a_*");
  const accountRef = { environment: "production", account: stored.split(":").at(-1) ?? "" };
  writeFileSync(held, "");
  process.kill(house.pid(), "SIGKILL");
  const { store } = await open(redis.address);
  onTestFinished(() => store.close());
  const imposed = { lengthMs: 600_000, window: "month", keptMs: 1, plan: "free", reason: "" };
  await store.ban(accountRef, imposed as Parameters<typeof store.ban>[1]);
  await eventually(async () => assert.equal((await ask()).status, 429));
  // The store has no ban any more and no message tells of it.
  assert.equal(await client.hdel(stored, "b"), 1);
  assert.equal((await ask()).status, 429, "it is refused from memory");
  house.pool.hearChange({ accountRef, atMs: Date.now(), imposed: undefined });
  assert.equal(house.pids.length, 1, "the next one is still starting");
  rmSync(held);
  await eventually(async () => assert.equal((await ask()).status, 502));
});
