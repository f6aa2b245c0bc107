import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { provided } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { sendRequest } from "../support/wire/client.ts";

/** A gateway that runs `code` first. */
function preload(code: string) {
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` };
}

/** Tells each status with which the process would end, and ends it a moment later. */
const TELLING_EXITS = `
  const { exit } = process;
  process.exit = (status) => {
    process.stderr.write("exit " + status + "\\n");
    setTimeout(() => exit(status), 200);
  };
  process.kill = () => {};
  process.abort = () => {};`;

for (const [second, status, env] of [
  ["SIGTERM", 143, {}],
  ["SIGINT", 130, preload(TELLING_EXITS)],
] as const) {
  test(`2.4 Second SIGTERM / SIGINT: ${second} ends it at once, with ${status}`, async () => {
    await using backend = await startTestUpstream(() => {});
    await using served = await spawnGateway({
      upstreams: [backend.origin],
      limits: { drain: "60s" },
      run: { env },
    });
    const asked = sendRequest(served.port, { key: KEY }).catch(() => "cut");
    await eventually(() => assert.equal(backend.seen.length, 1));
    served.running.child.kill("SIGTERM");
    // The same signal twice within a moment is one that came twice.
    const { time } = await served.running.line(({ msg }) => msg === "draining");
    await eventually(() => Date.now() > Number(time) + 120);
    const startMs = performance.now();
    served.running.child.kill(second);
    const { code, stderr } = await served.running.exited;
    const exits = second === "SIGINT" ? `exit ${status}\n` : "";
    assert.deepEqual([code, stderr], [status, exits], "no other status comes before it or after");
    assert.ok(performance.now() - startMs < 5_000, "of a drain of a minute");
    assert.equal(await asked, "cut");
    const stopped = served.said.filter(({ msg }) => msg === "stopped");
    assert.equal(stopped.length, 1);
    assert.deepEqual(
      served.lines.map(({ status: told, charged, forwards }) => [told, charged, forwards]),
      [[499, 1, 1]],
    );
    // The charges of the last second are in the state file.
    const state = readFileSync(join(served.directory, "state.json"), "utf8");
    assert.match(state, /vectors/);
  });
}

for (const workers of [1, 2]) {
  test(`2.4 SIGTERM in flight: what the deadline cuts has its line and its charge, in ${workers} of them`, async (t) => {
    const redis = await startRedis();
    t.onTestFinished(() => redis.close());
    await using backend = await startTestUpstream(() => {});
    await using served = await spawnGateway({
      upstreams: [backend.origin],
      limits: { drain: "300ms" },
      config: { store: `redis://127.0.0.1:${redis.port}`, workers },
    });
    const asked = Array.from({ length: 6 }, () => {
      return sendRequest(served.port, { key: KEY }).catch(() => "cut");
    });
    await eventually(() => assert.equal(backend.seen.length, 6));
    served.running.child.kill("SIGTERM");
    assert.equal((await served.running.exited).code, 0);
    assert.deepEqual(await Promise.all(asked), Array(6).fill("cut"));
    assert.deepEqual(
      served.lines.map(({ status, charged, forwards, why }) => [status, charged, forwards, why]),
      Array(6).fill([499, 1, 1, "the gateway is going away"]),
    );
  });
}

for (const fault of ["throw new Error('induced')", "Promise.reject(new Error('induced'))"]) {
  test(`2.4 uncaughtException: ${fault} is logged, what is under way ends, and it exits with 1`, async () => {
    await using backend = await startTestUpstream(async (_seen, response) => {
      await eventually(() => served.said.some(({ level }) => level === "error"));
      response.end("late");
    });
    const env = preload(`process.on("SIGUSR2", () => { ${fault} })`);
    await using served = await spawnGateway({ upstreams: [backend.origin], run: { env } });
    const asked = sendRequest(served.port, { key: KEY });
    await eventually(() => assert.equal(backend.seen.length, 1));
    served.running.child.kill("SIGUSR2");
    assert.equal((await asked).body.toString(), "late");
    const { code, signal } = await served.running.exited;
    assert.deepEqual([code, signal], [1, null]);
    const failures = served.said.filter(({ level }) => level === "error");
    assert.deepEqual(
      failures.map(({ why }) => why),
      ["induced"],
    );
  });
}

/** A process whose state file lies on a disk that answers no more, once it got a SIGUSR2. */
const HUNG_STATE = `
  import fs from "node:fs/promises";
  import { syncBuiltinESMExports } from "node:module";
  const { open } = fs;
  let hangs = false;
  process.on("SIGUSR2", () => { hangs = true; });
  fs.open = (path, ...rest) => {
    if (!hangs || !path.includes("state.json")) return open(path, ...rest);
    return new Promise(() => setInterval(() => {}, 60_000));
  };
  syncBuiltinESMExports();`;

async function endOfHung(drain: string, second: "SIGINT" | undefined) {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    limits: { drain },
    run: { env: preload(HUNG_STATE) },
  });
  served.running.child.kill("SIGUSR2");
  assert.equal((await sendRequest(served.port, { key: KEY })).status, 200);
  const startMs = performance.now();
  served.running.child.kill("SIGTERM");
  await served.running.line(({ msg }) => msg === "draining");
  if (second !== undefined) served.running.child.kill(second);
  const { code, signal } = await served.running.exited;
  return { code, signal, last: served.said.at(-1)?.msg, tookMs: performance.now() - startMs };
}

for (const [status, drain, second, leastMs] of [
  [0, "100ms", undefined, 1_750],
  [130, "60s", "SIGINT", 450],
] as const) {
  test.concurrent(`2.4 Hang at exit: with a state file on a disk that never answers it says that it stopped, and ends with ${status}`, async () => {
    // A machine that stalls takes longer, and one that does so at the last deadlines kills it.
    const { tookMs, ...end } = await eventually(async () => {
      const ended = await endOfHung(drain, second);
      assert.equal(ended.signal, null);
      assert.ok(ended.tookMs < leastMs + 1_500, `${ended.tookMs} ms`);
      return ended;
    });
    assert.deepEqual(end, { code: status, signal: null, last: "stopped" });
    assert.ok(tookMs > leastMs, `${tookMs} ms`);
  });
}

/** A namespace of process IDs of its own, as a container has, in which the program is process 1. */
const AS_FIRST = ["unshare", "--fork", "--pid"] as const;
const canBeFirst = spawnSync(AS_FIRST[0], [...AS_FIRST.slice(1), "true"]).status === 0;

/** A process whose log is on a disk that answers no more, once it got a SIGUSR2. */
const HUNG_LOG = `
  import fs from "node:fs";
  import { syncBuiltinESMExports } from "node:module";
  const { write } = fs;
  let hangs = false;
  process.on("SIGUSR2", () => { hangs = true; });
  fs.write = (fd, ...rest) => {
    if (!hangs || fd !== 1) write(fd, ...rest);
    else setInterval(() => {}, 60_000);
  };
  syncBuiltinESMExports();`;

for (const [place, inFront, left] of [
  ["", [], {}],
  [" as process 1 of a container", AS_FIRST, provided(canBeFirst, "a right to namespaces")],
] as const) {
  test.concurrent(`2.4 Hang at exit: with a log on a disk that never answers it is gone 2 s after its drain${place}`, {
    ...left,
  }, async (t) => {
    await using backend = await startTestUpstream();
    // Only to learn where everything is: the one that hangs writes to a file.
    await using served = await spawnGateway({ upstreams: [backend.origin] });
    await served.running.stop();
    const log = join(served.directory, "log");
    const descriptor = openSync(log, "w");
    const main = new URL("../../src/main.ts", import.meta.url).pathname;
    const [program, ...rest] = [...inFront, process.execPath, main, "start"] as [
      string,
      ...string[],
    ];
    const child = spawn(program, [...rest, "--config", served.file], {
      stdio: ["ignore", descriptor, "ignore"],
      env: { ...process.env, ...preload(HUNG_LOG) },
    });
    const pid = () =>
      inFront.length === 0 ? (child.pid as number) : firstChildOf(child.pid as number);
    t.onTestFinished(() => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      // While what is in front of it is there: without it the gateway is found by nothing, and 0
      // would be this process and all that run with it.
      const running = pid();
      if (running > 0) process.kill(running, "SIGKILL");
      child.kill("SIGKILL");
    });
    closeSync(descriptor);
    await eventually(() => assert.match(readFileSync(log, "utf8"), /"msg":"serving"/), {
      withinMs: 60_000,
    });
    const gateway = pid();
    process.kill(gateway, "SIGUSR2");
    const ended = once(child, "exit");
    const startMs = performance.now();
    process.kill(gateway, "SIGTERM");
    const [code, signal] = await ended;
    const tookMs = performance.now() - startMs;
    t.annotate(`gone after ${Math.round(tookMs)} ms`);
    assert.equal(code, null, `${signal}`);
    if (inFront.length === 0) assert.deepEqual([code, signal], [null, "SIGKILL"]);
    assert.ok(tookMs >= 1_900 && tookMs < 3_000 + 2_000 + 3_000, `${tookMs} ms`);
  });
}

function firstChildOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim());
}
