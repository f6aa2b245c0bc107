import assert from "node:assert/strict";
import { utimesSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTollgate } from "../../support/gateway/processes.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys, openFolder } from "./kit.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** A gateway whose first process serves, while it starts the others. */
async function starting() {
  const folder = await openFolder(redis, "http://127.0.0.1:9");
  const write = async (limit: number) => {
    await folder.write({ workers: 3, limit });
    // The same time and the same size: a change that only a signal tells.
    utimesSync(folder.file, 1, 1);
  };
  await write(100_000);
  const gateway = startTollgate(["start", "--config", folder.file]);
  await gateway.line(({ msg }) => msg === "worker_serves");
  assert.ok(!gateway.lines().some(({ msg }) => msg === "serving"), "it is still starting");
  return {
    gateway,
    write,
    [Symbol.asyncDispose]: async () => {
      await gateway.kill();
      await folder[Symbol.asyncDispose]();
    },
  };
}

describe("a gateway that is still starting", () => {
  it("reloads when it serves, where it was told to before", async () => {
    const [key = ""] = await issueKeys(redis, 1);
    await using house = await starting();
    const { gateway, write } = house;
    await write(200_000);
    process.kill(gateway.pid, "SIGHUP");
    const { urls } = await gateway.line(({ msg }) => msg === "serving");
    const url = `${(urls as Record<string, string>).production}/v1/animals`;
    await eventually(async () => assert.equal((await get(url, key)).limit, 200_000));
  });

  it("ends by a signal, with 0 and nothing left, and does not say that it serves", async () => {
    await using house = await starting();
    process.kill(house.gateway.pid, "SIGTERM");
    const { code, signal, stderr } = await house.gateway.exited;
    assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: "" });
    const told = house.gateway.lines().map(({ msg }) => msg);
    assert.equal(told.at(-1), "stopped");
    assert.ok(!told.slice(told.indexOf("draining")).includes("serving"), `${told}`);
  });
});

/** The second process listens for ever, and says which it is. */
const HANGS = `import cluster from "node:cluster";
import { writeFileSync } from "node:fs";
import { Server } from "node:net";
if (cluster.worker?.id === 2) {
  Server.prototype.listen = function () {
    writeFileSync(process.env.HUNG, String(process.pid));
    return this;
  };
}`;

it("a process that hangs at its start ends by itself when its supervisor is killed", async () => {
  await using folder = await openFolder(redis, "http://127.0.0.1:9");
  await folder.write({ workers: 2, drain: "100ms" });
  const hung = join(dirname(folder.file), "hung");
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(HANGS)}`;
  const env = { NODE_OPTIONS, HUNG: hung };
  const gateway = startTollgate(["start", "--config", folder.file], { env });
  const pid = await eventually(async () => {
    const told = Number(await readFile(hung, "utf8"));
    assert.ok(told > 0);
    return told;
  });
  gateway.child.kill("SIGKILL");
  try {
    await eventually(() => assert.ok(!isAlive(pid)));
  } finally {
    if (isAlive(pid)) process.kill(pid, "SIGKILL");
    await gateway.exited;
  }
});
