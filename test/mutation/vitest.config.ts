import { matchesGlob, relative } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const TESTS = (process.env.TOLLGATE_MUTATION_TESTS ?? "test/core/**/*.test.ts").split(
  /,(?![^{]*\})/,
);

/** In the order in which the patterns name them: vitest would begin with those that take longest. */
class AsNamed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.toSorted((one, other) => place(one) - place(other));
  }
}

function place({ moduleId }: TestSpecification): number {
  return TESTS.findIndex((tests) => matchesGlob(relative(process.cwd(), moduleId), tests));
}

/**
 * A mutant often makes a test wait for ever, and each such wait is one for this long. Tests of the
 * wire do what they do at once.
 */
const HANGS_MS = TESTS.every((tests) => tests.startsWith("test/http1/")) ? 6_000 : 20_000;

/**
 * The tests that Stryker runs against each mutant: `related` leaves of them the files that reach
 * the mutant. test/mutation/main.ts names the tests.
 */
export default defineConfig({
  test: {
    include: TESTS,
    sequence: { sequencer: AsNamed },
    exclude: [
      // They take a second, and the others kill what they do: whole days of clients, and a gateway.
      "test/core/quota/{bans-simulated,retry-after}.test.ts",
      // They take many seconds, mostly of waiting, and count what others count in less.
      "test/stores/quotas/redis/{exact,tls-engines,sentinel}.test.ts",
      "test/stores/quotas/outage/{never-over,cluster-breakers}.test.ts",
      "test/stores/quotas/batch/batch.test.ts",
      "test/**/*.alone.test.ts",
    ],
    experimental: { viteModuleRunner: false },
    isolate: false,
    testTimeout: HANGS_MS,
    hookTimeout: 20_000,
  },
});
