import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, it } from "vitest";
import { runTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { openCrew } from "./kit.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

let root: string;
let temporary: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "tollgate-folders-"));
  temporary = join(root, "tmp");
  await mkdir(temporary);
  return () => rm(root, { recursive: true, force: true });
});

/** Has a process tell on stderr the settings that it gives to V8. */
const TELLING = `import v8 from "node:v8";
import { syncBuiltinESMExports } from "node:module";
const give = v8.setFlagsFromString;
v8.setFlagsFromString = (setting) => {
  process.stderr.write(setting + "\\n");
  give(setting);
};
syncBuiltinESMExports();`;

const crew = (compiled: string) => {
  const telling = `--import data:text/javascript,${encodeURIComponent(TELLING)}`;
  const env = { TMPDIR: temporary, NODE_COMPILE_CACHE: compiled, NODE_OPTIONS: telling };
  return openCrew(redis, { workers: 2 }, undefined, { env });
};

/** The names left among temporary files, once these processes have ended. */
async function leftOf(pids: readonly number[]): Promise<string[]> {
  await eventually(() => {
    for (const pid of pids) assert.throws(() => process.kill(pid, 0));
  });
  return readdir(temporary);
}

describe("Compiled code of several processes", () => {
  it("is kept in a folder of the run, which is gone after SIGTERM", async () => {
    await using gateway = await crew("");
    const [folder = ""] = await readdir(temporary);
    assert.match(folder, /^tollgate-compiled-/);
    const files = await readdir(join(temporary, folder), { recursive: true });
    assert.ok(files.length > 100, `${files.length} files for the second worker`);
    const pids = gateway.pids();
    const { stderr } = await gateway.gateway.stop();
    assert.deepEqual(await leftOf(pids), []);
    const given = stderr.split("\n").filter((line) => line.startsWith("--"));
    const pauses = given.filter((line) => /memory-reducer-(start-)?delay-ms=600000$/.test(line));
    const growths = given.filter((line) => line === "--semi-space-growth-factor=16");
    assert.deepEqual([pauses.length, growths.length], [3, 3], "of each process, with the settings");
  });

  it("is kept nowhere where no folder can be made, and the gateway serves", async () => {
    const env = { TMPDIR: join(root, "missing"), NODE_COMPILE_CACHE: "" };
    await using gateway = await openCrew(redis, { workers: 2 }, undefined, { env });
    assert.equal(gateway.pids().length, 2);
  });

  it("goes with its folder when the process that watches is killed", async () => {
    await using gateway = await crew("");
    assert.equal((await readdir(temporary)).length, 1);
    const pids = gateway.pids();
    gateway.gateway.child.kill("SIGKILL");
    assert.deepEqual(await leftOf(pids), []);
  });

  it("lies where NODE_COMPILE_CACHE says, and stays there", async () => {
    const given = join(root, "given");
    await using gateway = await crew(given);
    const [version = ""] = await readdir(given);
    const pids = gateway.pids();
    assert.deepEqual(await readdir(temporary), [], "no other folder");
    await gateway.gateway.stop();
    assert.deepEqual(await leftOf(pids), []);
    const files = await readdir(join(given, version), { withFileTypes: true });
    assert.ok(files.length > 100);
    const folders = files.filter((file) => file.isDirectory());
    assert.deepEqual([await readdir(given), folders], [[version], []], "one folder for all");

    const env = { NODE_COMPILE_CACHE: given, NODE_DEBUG_NATIVE: "COMPILE_CACHE" };
    const { stderr } = await runTollgate(["check", "--config", gateway.file], { env });
    const told = stderr.split("\n").filter((line) => line.includes("V8 code cache for"));
    assert.ok(told.length > 100);
    const refused = told.filter((line) => line.includes("was rejected"));
    assert.deepEqual(refused, [], "a command uses the code that the gateway compiled");
  });
});
