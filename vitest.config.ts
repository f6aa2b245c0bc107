// Before anything else: on a Node that is too old it says so in one line, and ends.
import "./scripts/old-node.mjs";
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, matchesGlob } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { ClosingLine } from "./scripts/closing-line.ts";
import { COMPILED } from "./test/support/compiled-code.ts";
import { ownProcessFiles } from "./test/support/own-process.ts";

/** Rooms that decide, read or compute, and never wait. */
const UNIT = ["core", "config", "telemetry", "stores/files", "mutation"].map(
  (room) => `test/${room}/**/*.test.ts`,
);
/** Tests that flood the machine, or whose figures hold only on a quiet one: one file at a time, last. */
const ALONE = ["test/**/*.alone.test.ts"];

/** Tests of a package as it is published: only a release, and .ci/run, needs them (`npm run test:release`). */
const RELEASE = ["test/**/*.release.test.ts"];

/** Files that measure their own process, or change it. */
const OWN = ownProcessFiles(globSync("test/**/*.test.ts", { cwd: import.meta.dirname })).filter(
  (path) => ![...UNIT, ...ALONE, ...RELEASE].some((pattern) => matchesGlob(path, pattern)),
);

/** Four times of what the longest takes on a quiet machine of two cores, and no test waits for it. */
const DEADLINE_MS = 180_000;
/**
 * Most tests wait for sockets, timers and processes: with two files for each processor, a run of all
 * leaves a quarter of two processors idle, with three a tenth.
 */
const FILES_AT_A_TIME = 3 * availableParallelism();
/**
 * A few claims about time still fail where the machine stalls for a second. CI tries a test with
 * sockets again after a pause, and the closing lines name it with its first error. Tests without
 * sockets or time are never tried again.
 */
const RETRY = process.env.CI ? { count: 2, delay: 5_000 } : 0;
/** Those of a release build, pack and measure. */
const RELEASE_FILES_AT_A_TIME = Math.ceil(1.5 * availableParallelism());

/**
 * Files of more than twenty seconds each in a run of all on two cores, the longest first: begun in
 * this order, so that none goes on by itself at the end.
 */
const LONG = [
  ...["tutorials", "cli/verbs/prove", "server/workers/workers", "server/workers/model"],
  ...["server/workers/worker-pool", "server/gateways", "cli/verbs/demo", "cli/access/broken-file"],
  ...["server/record-events", "stores/quotas/redis/exact", "docs/blocks", "admin/page/history"],
  ...["server/telemetry", "server/workers/compiled-code", "stores/quotas/redis/decide"],
  ...["admin/page/looks", "server/workers/questions", "faults/memory", "admin/page/gateways"],
  ...["recipes", "cli/verbs/start", "faults/redis-planned-failover", "server/workers/signs"],
  ...["docs/tasks", "admin/page/actions", "faults/sigterm", "faults/process-ends"],
  ...["server/workers/reload", "faults/reload", "gateway/listen/tls-handshakes"],
  ...["admin/page/records", "admin/page/details", "docker", "server/workers/several-on-a-cluster"],
  ...["server/usage-events-restart", "gateway/stages/meters", "server/usage-events"],
  ...["stores/quotas/outage/never-over", "faults/worker-crash-loop", "attacks/config-secrets"],
  ...["faults/redis-cluster", "faults/late-events", "admin/page/overview"],
  ...["gateway/client/failure-allowance", "faults/redis-away", "faults/costs", "cli/verbs/bans"],
  ...["server/signs", "cli/verbs/audit", "cli/engines", "http1/load", "examples/monitoring"],
  ...["gateway/stages/bans", "server/explain", "faults/large-bodies", "server/workers/ends"],
  ...["stores/quotas/outage/heartbeat", "faults/upstream-vectors", "examples/prometheus"],
  ...["gateway/forward/small-chunks", "stores/keys/file/file-keys", "stores/keys/key-store"],
  ...["stores/quotas/redis/quota-store", "faults/redis-damage", "cli/verbs/audit-live"],
  ...["gateway/meters/openai", "engines.release", "bench/bench.release"],
  ...["cli/verbs/prove-failover.release", "cli/access/many-accounts.release"],
  ...["examples/outages.release", "scripts/closing-line.release", "cli/engines.release"],
  ...["package.release", "gateway/forward/two-accounts.release"],
];

/** The place of a file in that list, or behind it. */
function placeOf(moduleId: string): number {
  const place = LONG.findIndex((path) => moduleId.endsWith(`/test/${path}.test.ts`));
  return place === -1 ? LONG.length : place;
}

/** One after the other: a process is shared by files of one project that follow each other. */
const PROJECTS = ["own", "system", "unit", "alone", "release"];

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId, project }: TestSpecification) => {
      return PROJECTS.indexOf(project.name) * (LONG.length + 1) + placeOf(moduleId);
    };
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}

const here = (file: string) => join(import.meta.dirname, file);

const shared = {
  pool: "forks",
  testTimeout: DEADLINE_MS,
  hookTimeout: DEADLINE_MS,
  maxConcurrency: 20,
  setupFiles: [here("test/support/midnight.ts")],
  // Node runs the sources as they are, as it does for users; vite would hand each file its own copy.
  experimental: { viteModuleRunner: false },
  env: { NODE_COMPILE_CACHE: COMPILED },
};
const hooks = "list";
/** The other Nodes that files of a project run. */
const globalSetup = here("test/support/node-versions.ts");

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...shared,
          name: "unit",
          include: UNIT,
          isolate: false,
          maxWorkers: FILES_AT_A_TIME,
          sequence: { hooks, groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: "own",
          retry: RETRY,
          include: OWN,
          maxWorkers: FILES_AT_A_TIME,
          sequence: { hooks, groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: "system",
          retry: RETRY,
          globalSetup,
          include: ["test/**/*.test.ts"],
          exclude: [...UNIT, ...OWN, ...ALONE, ...RELEASE],
          isolate: false,
          maxWorkers: FILES_AT_A_TIME,
          sequence: { hooks, groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: "alone",
          retry: RETRY,
          include: ALONE,
          // Each closes what it has opened, and a process for each would take a second to start.
          isolate: false,
          maxWorkers: 1,
          sequence: { hooks, groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          name: "release",
          retry: RETRY,
          globalSetup,
          include: RELEASE,
          maxWorkers: RELEASE_FILES_AT_A_TIME,
          sequence: { hooks, groupOrder: 2 },
        },
      },
    ],
    globalSetup: [
      "scripts/needs.ts",
      "test/support/compiled-code.ts",
      "test/support/compile-ahead.ts",
    ].map(here),
    sequence: { sequencer: LongFirst },
    reporters: ["default", new ClosingLine()],
    silent: "passed-only",
    coverage: {
      include: ["src/**/*.ts"],
      reporter: ["text-summary", "html"],
      reportOnFailure: true,
      // The aim is 100 for each; a gate is what has been reached, and only ever rises.
      thresholds: {
        "src/core/**": { branches: 100 },
        "src/http1/**": { branches: 100 },
        "src/stores/**": { branches: 93 },
        "src/gateway/**": { branches: 88 },
      },
    },
  },
});
