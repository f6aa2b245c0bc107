import { defineConfig } from "vitest/config";

/**
 * The tests that Stryker runs against each mutant: `related` leaves of them the files that reach
 * the mutant.
 */
export default defineConfig({
  test: {
    include: ["test/core/**/*.test.ts"],
    // They take a second, and the others kill what they do: whole days of clients, and a gateway.
    exclude: ["test/core/quota/{bans-simulated,retry-after}.test.ts"],
    experimental: { viteModuleRunner: false },
    isolate: false,
    testTimeout: 10_000,
  },
});
