import assert from "node:assert/strict";
import { utimesSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys, openFolder, pidsOf } from "./kit.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** Processes after the first listen only once a file is there. */
const WAITS = `import cluster from "node:cluster";
import { existsSync } from "node:fs";
import { Server } from "node:net";
const { listen } = Server.prototype;
if (cluster.worker?.id > 1) {
  Server.prototype.listen = function (...args) {
    const looking = setInterval(() => {
      if (!existsSync(process.env.GO)) return;
      clearInterval(looking);
      listen.apply(this, args);
    }, 10);
    return this;
  };
}`;

/** A gateway whose first process serves, while the others start until `go` is called. */
async function starting(upstream = "http://127.0.0.1:9") {
  const folder = await openFolder(redis, upstream);
  const listen = `127.0.0.1:${await freePort()}`;
  const write = async (limit: number) => {
    await folder.write({ workers: 3, limit, drain: "60s", listen });
    // The same time and the same size: a change that only a signal tells.
    utimesSync(folder.file, 1, 1);
  };
  await write(100_000);
  const go = join(dirname(folder.file), "go");
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(WAITS)}`;
  const env = { NODE_OPTIONS, GO: go };
  const gateway = startTollgate(["start", "--config", folder.file], { env });
  await gateway.line(({ msg }) => msg === "worker_serves");
  assert.ok(!gateway.lines().some(({ msg }) => msg === "serving"), "it is still starting");
  return {
    gateway,
    url: `http://${listen}/v1/animals`,
    write,
    go: () => writeFile(go, ""),
    [Symbol.asyncDispose]: async () => {
      await gateway.kill();
      await folder[Symbol.asyncDispose]();
    },
  };
}

describe("a gateway that is still starting", () => {
  it("reloads when it serves, where it was told to before, and replaces a process that was lost meanwhile", async () => {
    const [key = ""] = await issueKeys(redis, 1);
    await using house = await starting();
    const { gateway, write } = house;
    await write(200_000);
    process.kill(gateway.pid, "SIGHUP");
    const [first = 0] = pidsOf(gateway);
    process.kill(first, "SIGKILL");
    await eventually(() => assert.ok(!isAlive(first)));
    await house.go();
    await gateway.line(({ msg }) => msg === "serving");
    await eventually(async () => assert.equal((await get(house.url, key)).limit, 200_000));
    await eventually(() => assert.equal(pidsOf(gateway).length, 3));
    const lost = gateway.lines().filter(({ msg }) => msg === "worker_lost");
    assert.deepEqual(
      lost.map(({ pid, why }) => [pid, why]),
      [[first, "it ended with SIGKILL"]],
    );
  });

  it("ends by a signal, after its drain, with 0 and nothing left, and does not say that it serves", async () => {
    const [key = ""] = await issueKeys(redis, 1);
    let answer = () => {};
    await using backend = await startTestUpstream((_seen, response) => {
      answer = () => void response.end("late");
    });
    await using house = await starting(backend.origin);
    const asked = get(house.url, key);
    await eventually(() => assert.equal(backend.seen.length, 1));
    process.kill(house.gateway.pid, "SIGTERM");
    await house.go();
    const serves = () => house.gateway.lines().filter(({ msg }) => msg === "worker_serves");
    await eventually(() => assert.equal(serves().length, 3));
    // Without its drain it would be killed 2 s later.
    await sleep(2_500);
    answer();
    assert.equal((await asked).status, 200);
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

/** A process in the place of another opens its second listener only once it was told to stop. */
const HOLDS = `import cluster from "node:cluster";
import { Server } from "node:net";
const { listen } = Server.prototype;
let count = 0;
if (cluster.worker?.id > 2) {
  const told = new Promise((resolve) => {
    cluster.worker.on("message", ({ stop }) => stop && resolve());
  });
  Server.prototype.listen = function (...args) {
    count += 1;
    if (count === 1) return listen.apply(this, args);
    told.then(() => listen.apply(this, args));
    return this;
  };
}`;

it("a request that a process took before all of its listeners are open is answered where it has to stop", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  let answer = () => {};
  await using backend = await startTestUpstream((_seen, response) => {
    answer = () => void response.end("late");
  });
  await using folder = await openFolder(redis, backend.origin);
  await folder.write({ listen: `127.0.0.1:${await freePort()}`, drain: "60s" });
  const staging = `  staging: { listen: "127.0.0.1:0", keyTag: test, upstreams: ["${backend.origin}"] }`;
  const text = await readFile(folder.file, "utf8");
  await writeFile(folder.file, text.replace("\nplans:", `\n${staging}\nplans:`));
  const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(HOLDS)}` };
  await using gateway = startTollgate(["start", "--config", folder.file], { env });
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  for (const pid of pidsOf(gateway)) process.kill(pid, "SIGKILL");
  await eventually(() => assert.equal(pidsOf(gateway).length, 0));
  const url = `${(urls as Record<string, string>).production}/v1/animals`;
  const asked = eventually(async () => {
    const outcome = await get(url, key);
    assert.ok(backend.seen.length > 0, `${outcome.code}`);
    return outcome;
  });
  await eventually(() => assert.equal(backend.seen.length, 1));
  process.kill(gateway.pid, "SIGTERM");
  const serves = gateway.line(({ msg, worker }) => msg === "worker_serves" && Number(worker) > 2);
  void serves.then(answer, () => {});
  assert.equal((await asked).status, 200);
  assert.equal((await gateway.exited).code, 0);
});
