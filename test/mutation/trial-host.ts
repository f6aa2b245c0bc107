import { resolve } from "node:path";
import { createVitest } from "vitest/node";
import type { Answer, Ask } from "./trial.ts";

// A process that keeps vitest loaded, in the copy of the repository that is its working directory:
// test/mutation/trial.ts sends it the tests to run.
const vitest = await createVitest("test", {
  config: "test/mutation/vitest.config.ts",
  watch: false,
  reporters: [{}],
});

process.on("message", async ({ test, coverage }: Ask) => {
  // Vitest starts a process for each file: that one leaves what ran, and so do those that it starts.
  if (coverage === undefined) delete process.env.NODE_V8_COVERAGE;
  else process.env.NODE_V8_COVERAGE = coverage;
  const found = await vitest.globTestSpecifications([test]);
  const asked = found.filter(({ moduleId }) => moduleId === resolve(test));
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(asked);
  // Vitest gives all that it has run since it began.
  const run = testModules.find(({ moduleId }) => moduleId === resolve(test));
  const isGood = run?.state() === "passed" && unhandledErrors.length === 0;
  process.send?.({ isGood } satisfies Answer);
});
process.on("disconnect", () => process.exit());
