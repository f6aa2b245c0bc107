import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { COMPILED } from "../support/compiled-code.ts";

/** For the tests that test/mutation/trial-host.ts runs against a mutant, one file at a time. */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 1,
    bail: 1,
    sequence: { hooks: "list" },
    setupFiles: [join(import.meta.dirname, "leave-coverage.ts")],
    experimental: { viteModuleRunner: false },
    env: { NODE_COMPILE_CACHE: COMPILED },
    silent: true,
    // A mutant often makes a test wait for ever.
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
});
