import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { provided } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";

const ROOT = join(import.meta.dirname, "../..");

function startNpm(args: readonly string[]) {
  return spawn("npm", ["run", "-s", "tollgate", "--", ...args], {
    cwd: ROOT,
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** The text that a child has written so far. */
function output(child: ReturnType<typeof startNpm>): () => string {
  let said = "";
  child.stdout.on("data", (piece) => {
    said += piece;
  });
  return () => said;
}

/** `npm run tollgate -- …` as a terminal starts it: npm, its shell and node in one process group. */
async function startUnderNpm(upstream: string) {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-npm-"));
  const file = join(folder, "tollgate.yaml");
  await writeFile(
    file,
    `environments:
  production: { listen: "127.0.0.1:0", basePath: /v1, keyTag: live, upstreams: ["${upstream}"] }
plans: { free: { minute: 60 } }
admin: off
keys: ./keys.json
stateFile: ./state.json
limits: { drain: 20s }
`,
  );
  const npm = (args: readonly string[]) => startNpm([...args, "--config", file]);
  const issuing = npm(["keys", "create", "--env", "production", "--plan", "free", "--json"]);
  const issued = output(issuing);
  await new Promise((resolve) => issuing.once("close", resolve));
  const { key } = JSON.parse(issued()) as { key: string };
  const child = npm(["start"]);
  const said = output(child);
  const closed = new Promise((resolve) => child.once("close", resolve));
  const lines = () =>
    said()
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const serving = await eventually(
    () => lines().find(({ msg }) => msg === "serving") ?? assert.fail(said()),
    { withinMs: 60_000 },
  );
  const url = (serving.urls as { production: string }).production;
  const group = -(child.pid ?? assert.fail("npm did not start"));
  return {
    url,
    key,
    lines,
    said,
    /** Resolves when every process of the group has ended, and what they wrote was read. */
    closed,
    npm: child,
    signal: (signal: NodeJS.Signals) => process.kill(group, signal),
    async [Symbol.asyncDispose]() {
      try {
        process.kill(group, "SIGKILL");
      } catch {
        // All of them have ended.
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * npm passes the signal on to a process that has it already: within half a second it is the same one
 * (docs/reference/edge.md#drain). npm on a busy machine may be later, which ends the process at once.
 */
const SAME_MS = 500;
const TRIES_MAX = 5;

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`one ${signal} to the process group under npm drains, and cuts nothing that is open`, async () => {
    await using backend = await startTestUpstream(async (_seen, response) => {
      await delay(1_500);
      response.end("late");
    });
    for (let tries = 1; ; tries++) {
      await using started = await startUnderNpm(backend.origin);
      const { url, key } = started;
      const headers = { Authorization: `Bearer ${key}` };
      const asked = fetch(`${url}/v1/x`, { headers }).then(
        (answer) => answer.text(),
        () => "cut",
      );
      await eventually(() => assert.equal(backend.seen.length, tries));
      started.signal(signal);
      const answer = await asked;
      const endedMs = Date.now();
      const told = () =>
        started.lines().filter(({ msg }) => msg === "request" || msg === "draining");
      if (answer === "cut" && tries < TRIES_MAX) {
        await started.closed;
        const drainedMs = Number(told().find(({ msg }) => msg === "draining")?.time);
        const tookMs = endedMs - drainedMs;
        assert.ok(tookMs >= SAME_MS, `cut ${tookMs} ms after the signal: ${started.said()}`);
        continue;
      }
      assert.equal(answer, "late");
      await eventually(() => {
        assert.deepEqual(
          told().map(({ msg, status }) => status ?? msg),
          ["draining", 200],
        );
      });
      return;
    }
  });
}

const proc = provided(existsSync("/proc"), "/proc");

test("SIGHUP to npm reloads, although npm itself dies of it", proc, async () => {
  await using started = await startUnderNpm("http://127.0.0.1:9");
  started.npm.kill("SIGHUP");
  await eventually(() => assert.ok(started.lines().some(({ kind }) => kind === "config_reloaded")));
  const answer = await fetch(`${started.url}/v1/x`);
  assert.equal(answer.status, 401, "it goes on");
  await answer.text();
});
