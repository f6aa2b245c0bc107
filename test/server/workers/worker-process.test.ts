import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import cluster from "node:cluster";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { afterPoll } from "../../../src/base/event-loop.ts";
import type { Config } from "../../../src/config/config.ts";
import { WorkerProcess } from "../../../src/server/workers/worker-process.ts";
import { type Folder, openFolder } from "../../cli/kit.ts";
import { eventually } from "../../support/poll.ts";

/** A process that does as it is told, and tells what it hears on stdout. */
const PROGRAM = `process.on("message", (heard) => {
  if (heard.run) return void new Function("send", heard.run)((one) => process.send(one));
  process.stdout.write(JSON.stringify(heard) + "\\n");
});
process.send({ hello: true });`;
/** Starts a worker with no descriptor left, and writes what it hears of it. */
const STARVED = `import cluster from "node:cluster";
import { closeSync, openSync } from "node:fs";
const { WorkerProcess } = await import(process.argv[2]);
const heard = [];
const taken = [];
try {
  for (;;) taken.push(openSync("/dev/null"));
} catch {}
const onLost = (why) => heard.push(why);
const worker = new WorkerProcess(cluster.fork(), async () => ({}), { onLost });
worker.stop();
await worker.ready.catch(({ message }) => heard.push(message));
await worker.closed;
for (const one of taken) closeSync(one);
process.stdout.write(JSON.stringify([...heard, "closed"]), () => process.exit());
`;
const SOURCE = join(import.meta.dirname, "../../../src/server/workers/worker-process.ts");
const CONFIG = { hash: "abc" } as unknown as Config;
const START = { config: CONFIG, gateway: "one" };
const URLS = { production: "http://127.0.0.1:1" };

describe("a worker", () => {
  let folder: Folder;
  beforeAll(async () => {
    folder = await openFolder();
    const exec = join(folder.path, "worker.mjs");
    await writeFile(exec, PROGRAM);
    const stdio = ["ignore", "pipe", "inherit", "ipc"] as const;
    cluster.setupPrimary({ exec, args: [], serialization: "advanced", stdio: [...stdio] });
  });
  afterAll(() => folder[Symbol.asyncDispose]());

  function started() {
    const process = cluster.fork();
    const heard = {
      status: [] as unknown[],
      store: [] as unknown[],
      lost: [] as string[],
      lines: "",
    };
    const worker = new WorkerProcess(process, async () => START, {
      onStatus: (status) => heard.status.push(status),
      onStore: (change) => heard.store.push(change),
      onLost: (why) => heard.lost.push(why),
      onLines: (lines) => {
        heard.lines += lines;
      },
    });
    return {
      ...{ worker, heard, process },
      run: (code: string) => process.send({ run: code }),
      /** Its orders so far, once there are so many. */
      told: (count: number) =>
        eventually(() => {
          const lines = heard.lines.split("\n").slice(0, -1);
          assert.ok(lines.length >= count, `${lines.length} lines`);
          return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
        }),
      [Symbol.asyncDispose]: async () => {
        process.process.kill("SIGKILL");
        await worker.closed;
      },
    };
  }
  type Started = ReturnType<typeof started>;
  const serve = async ({ run, worker }: Started) => {
    run(`send({ serving: ${JSON.stringify(URLS)} })`);
    assert.deepEqual(await worker.ready, URLS);
  };

  it("gets its configuration when it says hello, and serves once it says so", async () => {
    await using one = started();
    assert.deepEqual(await one.told(1), [{ start: START }]);
    assert.deepEqual([one.worker.serving, one.worker.status], [false, undefined]);
    await serve(one);
    assert.equal(one.worker.serving, true);
    assert.equal(one.worker.pid, one.process.process.pid);
    assert.equal(one.worker.number, one.process.id);
  });

  it.for(["stop", "stopAtOnce"] as const)(
    "that was told to %s before it said hello gets no configuration",
    async (how) => {
      await using one = started();
      one.worker[how]();
      const told = await one.told(2);
      assert.deepEqual(told.flatMap(Object.keys).includes("start"), false);
      assert.deepEqual(told[1], { stop: true });
    },
  );

  it("is told to stop, and to stop at once", async () => {
    await using one = started();
    await one.told(1);
    one.worker.stop();
    one.worker.stopAtOnce();
    assert.deepEqual((await one.told(3)).slice(1), [{ stop: true }, { stop: true, atOnce: true }]);
  });

  it.for([
    ["says that it cannot", `send({ cannot: "port in use" })`, "port in use", /^port in use$/],
    ["ends", "process.exit(3)", "it ended with 3", /^A worker could not start: it ended with 3$/],
    ["is killed", `process.kill(process.pid, "SIGKILL")`, "it ended with SIGKILL", /SIGKILL$/],
  ] as const)("that %s before it serves is lost once, in words", async ([, code, why, message]) => {
    await using one = started();
    one.run(code);
    await assert.rejects(one.worker.ready, { message });
    one.worker.kill();
    await one.worker.closed;
    assert.deepEqual([one.heard.lost, one.worker.serving], [[why], false]);
    assert.equal(one.worker.killedBy, undefined, "it had no requests to drain");
  });

  it("that the system cannot start is lost once, in words, and has closed", async () => {
    cluster.setupPrimary({ cwd: join(folder.path, "no such folder") });
    await using one = started();
    cluster.setupPrimary({ cwd: folder.path });
    const message = /^A worker could not start: spawn .* ENOENT$/;
    await assert.rejects(one.worker.ready, { message });
    await one.worker.closed;
    assert.deepEqual([one.heard.lost.length, one.worker.pid], [1, undefined]);
  });

  it("that cannot be started for want of descriptors may be stopped, is lost once, and has closed", async () => {
    const program = join(folder.path, "starved.ts");
    await writeFile(program, STARVED);
    const shell = ["-c", `ulimit -n 128 && exec "$0" "$1" "$2"`, process.execPath, program];
    const { stdout } = await promisify(execFile)("sh", [...shell, SOURCE]);
    const [lost, ...others] = JSON.parse(stdout);
    assert.match(lost, /^spawn .* EMFILE$/);
    assert.deepEqual(others, [`A worker could not start: ${lost}`, "closed"]);
  });

  it("that does not serve within a minute is lost and killed, and one that serves is not", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      await using one = started();
      await using other = started();
      await serve(other);
      vi.advanceTimersByTime(59_999);
      assert.deepEqual(one.heard.lost, []);
      vi.advanceTimersByTime(1);
      const message = /^A worker could not start: it did not start in time$/;
      await assert.rejects(one.worker.ready, { message });
      await one.worker.closed;
      assert.deepEqual([one.heard.lost, other.heard.lost], [["it did not start in time"], []]);
      assert.equal(other.worker.serving, true);
    } finally {
      vi.useRealTimers();
    }
  });

  it("that fails serves no more from then on, and is lost once though it ends later", async () => {
    await using one = started();
    await serve(one);
    one.run(`send({ failing: "a bug" })`);
    await eventually(() => assert.equal(one.worker.serving, false));
    one.run("process.exit(1)");
    await one.worker.closed;
    assert.deepEqual(one.heard.lost, ["it failed: a bug"]);
  });

  it("has its last status and what it sees of the store passed on", async () => {
    await using one = started();
    one.run(`send({ status: { n: 1 } }); send({ store: { kind: "store_away", details: {} } })`);
    await eventually(() => assert.equal(one.heard.store.length, 1));
    assert.deepEqual(one.heard.status, [{ n: 1 }]);
    assert.deepEqual(one.worker.status as unknown, { n: 1 });
    const change = { kind: "store_away", details: {} };
    assert.deepEqual(one.heard.store, [change]);
  });

  it("answers each question by its number, and one that it does not answer is given up in time", async () => {
    await using one = started();
    const { worker } = one;
    assert.deepEqual(await worker.recall({ open: true }, 60_000), {}, "it does not serve yet");
    await worker.requestStatus(60_000);
    assert.equal(await worker.refreshKeys(60_000), true, "it serves no request yet");
    await serve(one);
    const first = worker.recall({ open: true }, 60_000);
    const second = worker.recall({ refused: true }, 60_000);
    const [, one1, two] = await one.told(3);
    assert.deepEqual([one1?.recall, two?.recall], [{ open: true }, { refused: true }]);
    assert.notEqual(one1?.id, two?.id);
    one.run(`send({ recalled: { refused: [] }, id: ${two?.id} })`);
    one.run(`send({ recalled: { open: [] }, id: ${one1?.id} })`);
    assert.deepEqual(await Promise.all([first, second]), [{ open: [] }, { refused: [] }]);
    assert.equal(await worker.recall({ open: true }, 20), undefined, "it is late");
    await worker.requestStatus(20);
    assert.equal(await worker.refreshKeys(20), false, "it is late");
    const told = (await one.told(6)).slice(4);
    assert.deepEqual(told.map(Object.keys), [["report"], ["refreshKeys"]]);
  });

  it("leaves no timer and no listener behind a question that it has answered", async () => {
    await using one = started();
    await serve(one);
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout");
    const listeners = () => ["exit", "message"].map((name) => one.process.listenerCount(name));
    const before = { timers: timers().length, listeners: listeners() };
    const asked = Array.from({ length: 40 }, () => one.worker.recall({ open: true }, 600_000));
    const told = await one.told(41);
    for (const { id } of told.slice(1)) one.run(`send({ recalled: { open: [] }, id: ${id} })`);
    await Promise.all(asked);
    assert.deepEqual(listeners(), before.listeners);
    // Others of this process may come and go meanwhile, and not so many.
    assert.ok(timers().length < before.timers + 20, `${timers().length}`);
  });

  it("may be asked by all 256 connections of the admin listener at once without a warning of a leak", async () => {
    await using one = started();
    await serve(one);
    const warnings: string[] = [];
    const warned = ({ message }: Error) => void warnings.push(message);
    process.on("warning", warned);
    const asked = Array.from({ length: 256 }, () => one.worker.recall({ open: true }, 600_000));
    const told = await one.told(257);
    process.off("warning", warned);
    one.run(`for (const id of ${JSON.stringify(told.slice(1).map(({ id }) => id))}) {
      send({ recalled: { open: [] }, id });
    }`);
    await Promise.all(asked);
    assert.deepEqual(warnings, []);
  });

  it("that ends leaves nobody waiting for an answer", async () => {
    await using one = started();
    await serve(one);
    const { worker } = one;
    const asked = [worker.recall({ open: true }, 60_000), worker.requestStatus(60_000)];
    const reload = worker.reload(CONFIG);
    reload.catch(() => {});
    await one.told(4);
    one.run("process.exit(0)");
    assert.deepEqual(await Promise.all(asked), [{}, undefined]);
    await assert.rejects(reload, /^Error: it ended$/);
    assert.deepEqual(await worker.recall({ open: true }, 600_000), {});
  });

  it("applies a configuration once it serves, and what it answers within five seconds is the answer", async () => {
    await using one = started();
    const reload = one.worker.reload({ hash: "new" } as unknown as Config);
    await one.told(1);
    await serve(one);
    const [, { reload: sent, id } = {}] = await one.told(2);
    assert.deepEqual(sent, { hash: "new" });
    one.run(`send({ reloaded: { ok: true, hash: "new" }, id: ${id} })`);
    assert.deepEqual(await reload, { ok: true, hash: "new" });
    const strange = one.worker.reload(CONFIG);
    const [, , { id: other } = {}] = await one.told(3);
    one.run(`send({ recalled: {}, id: ${other} })`);
    await assert.rejects(strange, /^Error: it answered something else$/);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const silent = assert.rejects(
        one.worker.reload(CONFIG),
        /^Error: it did not answer in time$/,
      );
      await one.told(4);
      for (let passedMs = 0; passedMs < 5_000; passedMs += 500) {
        vi.advanceTimersByTime(500);
        await new Promise((judged) => afterPoll(() => judged(undefined)));
      }
      await silent;
    } finally {
      vi.useRealTimers();
    }
  });

  it("has closed only when its last line was read, and half a line at its end is lost", async () => {
    await using one = started();
    await one.told(1);
    one.run(`process.stdout.write("x".repeat(200_000) + "\\nhalf", () => process.exit(0))`);
    await one.worker.closed;
    assert.ok(one.heard.lines.endsWith(`${"x".repeat(200_000)}\n`));
    assert.equal(one.worker.lost, 1);
  });
});
