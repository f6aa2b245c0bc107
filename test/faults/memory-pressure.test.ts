import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { memoryLimit, memoryPressure } from "../../src/gateway/runtime/memory.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";
import { valuesOf } from "../support/wire/response.ts";

test("2.4 Memory pressure: over 80 % of the limit it is short, over 90 % full", () => {
  const shares = [0, 0.8, 0.801, 0.9, 0.901, 2];
  assert.deepEqual(shares.map(memoryPressure), [
    "enough",
    "enough",
    "short",
    "short",
    "full",
    "full",
  ]);
});

const MiB = 1_048_576;

/** The limit that a process finds in these files, on a machine of 1,000 MiB, in MiB. */
function limitMiB(files: Readonly<Record<string, string>>): number {
  return memoryLimit((path) => files[path] ?? "", 1_000 * MiB) / MiB;
}

test("2.4 Memory pressure: the limit is the smallest of the process's own group and those around it", () => {
  const root = "/sys/fs/cgroup";
  const bytes = (count: number) => `${count * MiB}\n`;
  const [unit, old] = ["0::/a.slice/b.service\n", "5:cpu,memory:/a/b\n4:pids:/c\n0::/d\n"];
  const found = [
    { "/proc/self/cgroup": unit, [`${root}/a.slice/b.service/memory.max`]: bytes(200) },
    {
      "/proc/self/cgroup": unit,
      [`${root}/a.slice/b.service/memory.max`]: "max\n",
      [`${root}/a.slice/memory.max`]: bytes(300),
    },
    {
      "/proc/self/cgroup": old,
      [`${root}/memory/a/b/memory.limit_in_bytes`]: bytes(500),
      [`${root}/memory/a/memory.limit_in_bytes`]: bytes(400),
      [`${root}/memory/c/memory.limit_in_bytes`]: bytes(1),
    },
    // A container without a namespace of cgroups: the mount begins at its group.
    { "/proc/self/cgroup": old, [`${root}/memory/memory.limit_in_bytes`]: bytes(600) },
    // A process that was moved out of the group at which its namespace begins.
    { "/proc/self/cgroup": "0::/../x\n", [`${root}/memory.max`]: bytes(700) },
  ].map(limitMiB);
  assert.deepEqual(found, [200, 300, 400, 600, 700]);
});

test("2.4 Memory pressure: a group without a limit, with one above the memory of the machine or of nothing has none", () => {
  const root = "/sys/fs/cgroup";
  const own = { "/proc/self/cgroup": "0::/\n4:memory:/a\n" };
  const max = `${root}/memory.max`;
  const found = [
    {},
    { ...own, [max]: "max\n" },
    { ...own, [max]: "0\n" },
    { ...own, [max]: `${1_001 * MiB}\n` },
    { ...own, [`${root}/memory/a/memory.limit_in_bytes`]: "9223372036854771712\n" },
  ].map(limitMiB);
  assert.deepEqual(found, Array(found.length).fill(Number.POSITIVE_INFINITY));
  assert.equal(limitMiB({ ...own, [max]: `${1_000 * MiB}\n` }), 1_000);
});

/**
 * Reads the limit of the group around its own from a file that the test writes, as a share of what is
 * resident.
 */
const PRELOAD = `
  import fs from "node:fs";
  import perf_hooks from "node:perf_hooks";
  import { syncBuiltinESMExports } from "node:module";
  const { readFileSync } = fs;
  fs.readFileSync = (path, ...rest) => {
    if (path === "/proc/self/cgroup") return "0::/tollgate.slice/tollgate.service\\n";
    if (!String(path).startsWith("/sys/fs/cgroup/")) return readFileSync(path, ...rest);
    if (path !== "/sys/fs/cgroup/tollgate.slice/memory.max") return "max";
    try {
      return String(process.memoryUsage.rss() / Number(readFileSync(process.env.SHARE_FILE, "utf8")));
    } catch {
      return "max";
    }
  };
  syncBuiltinESMExports();
  const ALL = perf_hooks.constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE;
  new perf_hooks.PerformanceObserver((list) => {
    const passes = list.getEntries().filter(({ detail }) => detail.flags & ALL);
    if (passes.length > 0) fs.appendFileSync(process.env.SHARE_FILE + ".collected", "once\\n");
  }).observe({ entryTypes: ["gc"] });`;

test("2.4 Memory pressure: when it is short what is not in use is given back and connections end with their answer, when it is full no new ones are taken, and it recovers", async (t) => {
  await using backend = await startTestUpstream();
  const directory = await mkdtemp(join(tmpdir(), "tollgate-memory-"));
  t.onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const share = join(directory, "share");
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    directory,
    run: {
      env: {
        NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(PRELOAD)}`,
        SHARE_FILE: share,
      },
    },
  });
  const { port, said } = served;
  /** How often all that nothing needs was collected; the passes of one time are told together. */
  const collected = async () => {
    const text = await readFile(`${share}.collected`, "utf8").catch(() => "");
    return text.split("\n").filter(Boolean).length;
  };
  const isSaid = (text: string) => said.filter(({ msg }) => msg === text).length;
  await using kept = await openClient(port);
  assert.ok(!valuesOf(await kept.ask({ key: KEY }), "Connection").includes("close"));
  assert.equal(await collected(), 0);

  await writeFile(share, "0.85");
  await eventually(() => assert.equal(isSaid("memory_short"), 1));
  await eventually(async () => assert.equal(await collected(), 1));
  const last = await kept.ask({ key: KEY });
  assert.deepEqual([last.status, valuesOf(last, "Connection")], [200, ["close"]]);
  assert.equal(await kept.ended, "closed");
  await using before = await openClient(port);

  await writeFile(share, "0.95");
  await eventually(() => assert.equal(isSaid("memory_full"), 1));
  assert.equal(await collected(), 1, "once a minute at most");
  await assert.rejects(sendRequest(port, { key: KEY }), "a new connection");
  assert.equal((await before.ask({ key: KEY })).status, 200, "one that was there");

  await writeFile(share, "0.5");
  await eventually(() => assert.equal(isSaid("memory_enough"), 1));
  await using again = await openClient(port);
  for (let i = 0; i < 2; i++) {
    const answer = await again.ask({ key: KEY });
    assert.deepEqual(
      [answer.status, valuesOf(answer, "Connection").includes("close")],
      [200, false],
    );
  }
  assert.equal(await served.counted(), 5);
  assert.equal(backend.seen.length, 5);
});
