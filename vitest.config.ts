// Before anything else: on a Node that is too old it says so in one line, and ends.
import "./scripts/old-node.mjs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { ClosingLine } from "./scripts/closing-line.ts";
import { COMPILED } from "./test/support/compiled-code.ts";

/** Rooms that decide, read or compute, and never wait: their files share processes. */
const UNIT = ["core", "config", "telemetry", "stores/files", "mutation"].map(
  (room) => `test/${room}/**/*.test.ts`,
);
/** Tests that measure time or memory want the machine for themselves: one file at a time, last. */
const ALONE = ["test/**/*.alone.test.ts"];

/** Tests of a package as it is published: only a release, and .ci/run, needs them (`npm run test:release`). */
const RELEASE = ["test/**/*.release.test.ts"];

/** Four times of what the longest takes on a quiet machine of two cores, and no test waits for it. */
const DEADLINE_MS = 180_000;
/**
 * The machine of a CI run stalls for seconds at a time, and a claim about time then fails through no
 * fault of the code. It is tried again after a pause, and the closing lines name it. Tests without
 * sockets or time are never tried again: one of those that fails at random has found something.
 */
const RETRY = process.env.CI ? { count: 2, delay: 5_000 } : 0;

const shared = {
  pool: "forks",
  testTimeout: DEADLINE_MS,
  hookTimeout: DEADLINE_MS,
  maxConcurrency: 20,
  // Node runs the sources as they are, as it does for users; vite would hand each file its own copy.
  experimental: { viteModuleRunner: false },
  env: { NODE_COMPILE_CACHE: COMPILED },
} as const;
const hooks = "list";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...shared,
          name: "unit",
          include: UNIT,
          isolate: false,
          sequence: { hooks, groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: "system",
          retry: RETRY,
          include: ["test/**/*.test.ts"],
          exclude: [...UNIT, ...ALONE, ...RELEASE],
          // One more than there are cores: most tests wait for sockets (measured on two: 42 s, not 52 s).
          // In CI a test that is not late is worth more than the time.
          maxWorkers: availableParallelism() + (process.env.CI ? 0 : 1),
          sequence: { hooks, groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          name: "alone",
          retry: RETRY,
          include: ALONE,
          maxWorkers: 1,
          sequence: { hooks, groupOrder: 2 },
        },
      },
      {
        test: {
          ...shared,
          name: "release",
          retry: RETRY,
          include: RELEASE,
          // Each builds into the same dist/.
          maxWorkers: 1,
          sequence: { hooks, groupOrder: 3 },
        },
      },
    ],
    globalSetup: [
      "scripts/needs.ts",
      "test/support/node-versions.ts",
      "test/support/compiled-code.ts",
    ].map((file) => join(import.meta.dirname, file)),
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
