import { defineConfig } from "vitest/config";

/**
 * The tests that Stryker runs against each mutant: `related` leaves of them the files that reach
 * the mutant. test/mutation/main.ts names the tests.
 */
export default defineConfig({
  test: {
    include: (process.env.TOLLGATE_MUTATION_TESTS ?? "test/core/**/*.test.ts").split(","),
    exclude: [
      // They take a second, and the others kill what they do: whole days of clients, and a gateway.
      "test/core/quota/{bans-simulated,retry-after}.test.ts",
      // They take many seconds, mostly of waiting, and count what others count in less.
      "test/stores/redis/{exact,tls-engines,sentinel}.test.ts",
      "test/stores/outage/{never-over,cluster-breakers}.test.ts",
      "test/stores/batch/batch.test.ts",
      "test/**/*.alone.test.ts",
    ],
    experimental: { viteModuleRunner: false },
    isolate: false,
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
});
