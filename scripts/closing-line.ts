import type { SerializedError } from "vitest";
import type { Reporter, TestModule, TestRunEndReason, Vitest } from "vitest/node";

const SLOWEST_SHOWN = 10;
const SLOW_MS = 500;
/** The first error of a test that passed then is told so far: nothing else tells of it. */
const AGAIN_LINES = 40;

type Tally = { passed: number; failed: number; skipped: number };

/**
 * Ends every run with the tests that were left out and why, file by file, the figures that its tests
 * told by `annotate`, the tests that failed before they passed and the slowest tests, then those that
 * failed, each with its first error, and as the very last line `N passed, N failed`, with `, N skipped`
 * where some were. Failures outside tests count as failed: a hook, a file that cannot be loaded or
 * holds no test, an error outside tests, a run that was interrupted or never began, low coverage, and
 * FAILED_CHECKS, a number in the environment. The tests of the run before are added: EARLIER_RUN in
 * the environment is how its output ended, from its own list of what failed where it has one.
 */
export class ClosingLine implements Reporter {
  #root = "";
  #tally: Tally | undefined;
  #failed: readonly string[] = [];

  onInit({ config, state }: Vitest): void {
    this.#root = `${config.root}/`;
    // Vitest tells of a failed set-up, and of coverage, after the run has ended.
    if (config.watch) return;
    process.once("exit", (status) => this.#close(state.getTestModules(), status));
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    errors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    for (const line of this.#figures(modules)) console.log(line);
    this.#failed = this.#failures(modules, errors);
    this.#tally = tallyOf(modules, errors, reason);
  }

  /** In watch mode a run is followed by others, and by no end of the process. */
  onWatcherStart(): void {
    if (this.#tally !== undefined) console.log(lineOf(this.#tally));
  }

  #close(modules: readonly TestModule[], status: number): void {
    const tally = this.#tally ?? tallyOf(modules, [], "interrupted");
    const failedChecks = Number(process.env.FAILED_CHECKS ?? 0);
    if (failedChecks > 0) console.log(`failed checks, counted below: ${failedChecks}`);
    tally.failed += failedChecks;
    addEarlier(tally, process.env.EARLIER_RUN);
    // The line and the exit status never disagree: coverage under its gates fails without a test.
    if (tally.failed === 0 && status !== 0) tally.failed = 1;
    if (tally.failed > 0) process.exitCode ||= 1;
    const failed = this.#tally === undefined ? this.#failures(modules, []) : this.#failed;
    if (failed.length > 0) console.log(["failed", ...failed].join("\n"));
    // Alone on its line, whatever was written before it without an end of line.
    console.log(`\n${lineOf(tally)}`);
  }

  /** Where a file stands, seen from the folder of the run. */
  #place({ moduleId }: TestModule): string {
    return moduleId.replace(this.#root, "");
  }

  /** A line for each test that failed, and for each error outside tests. */
  #failures(modules: readonly TestModule[], errors: readonly SerializedError[]): string[] {
    const inFiles = modules.flatMap((module) => {
      const place = this.#place(module);
      const suites = [module, ...module.children.allSuites()];
      return [
        ...suites.flatMap((suite) => suite.errors().map((error) => failureOf(place, [error]))),
        ...[...module.children.allTests("failed")].map((test) =>
          failureOf(`${test.fullName} (${place})`, test.result().errors),
        ),
      ];
    });
    return [...inFiles, ...errors.map((error) => failureOf("outside tests", [error]))];
  }

  #figures(modules: readonly TestModule[]): string[] {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const place = ({ module }: (typeof tests)[number]) => this.#place(module);
    const figures = tests.flatMap((test) => {
      return test.annotations().map(({ message }) => `  ${test.name}: ${message}`);
    });
    const again = tests
      .filter((test) => test.diagnostic()?.flaky === true)
      .map((test) =>
        failureOf(`${test.fullName} (${place(test)})`, test.result().errors, AGAIN_LINES),
      );
    const slowest = tests
      .map((test) => ({ test, ms: test.diagnostic()?.duration ?? 0 }))
      .filter(({ ms }) => ms >= SLOW_MS)
      .sort((a, b) => b.ms - a.ms)
      .slice(0, SLOWEST_SHOWN)
      .map(({ test, ms }) => `  ${(ms / 1000).toFixed(1)} s  ${test.name} (${place(test)})`);
    const left = new Map<string, number>();
    for (const test of tests) {
      const result = test.result();
      if (result.state !== "skipped") continue;
      const { lacks } = test.meta() as { readonly lacks?: string };
      const why = lacks === undefined ? (result.note ?? "no reason given") : `without ${lacks}`;
      const line = `  ${place(test)}: ${why}`;
      left.set(line, (left.get(line) ?? 0) + 1);
    }
    const skipped = [...left].map(
      ([line, count]) => `${line}: ${count} ${count === 1 ? "test" : "tests"}`,
    );
    return [
      ...(skipped.length > 0 ? ["skipped", ...skipped, ""] : []),
      ...(figures.length > 0 ? ["figures", ...figures, ""] : []),
      ...(again.length > 0 ? ["failed at first, and passed when tried again", ...again, ""] : []),
      ...(slowest.length > 0 ? ["slowest", ...slowest, ""] : []),
    ];
  }
}

/** A test or a place that failed, with the first lines of its first error. */
function failureOf(
  what: string,
  errors: readonly SerializedError[] | undefined,
  linesMax = 1,
): string {
  const [first = "no word"] = (errors ?? []).map(({ message }) => message);
  const lines = first.split("\n", linesMax);
  return `  ${what}: ${lines.join("\n    ")}`;
}

function tallyOf(
  modules: readonly TestModule[],
  errors: readonly SerializedError[],
  reason: TestRunEndReason,
): Tally {
  const suites = modules.flatMap((module) => [module, ...module.children.allSuites()]);
  const ownErrors = suites.flatMap((suite) => suite.errors());
  const count = (state: "passed" | "failed" | "skipped") => {
    return modules.reduce((sum, { children }) => sum + [...children.allTests(state)].length, 0);
  };
  const [passed, skipped] = [count("passed"), count("skipped")];
  const failed = count("failed") + ownErrors.length + errors.length;
  if (reason === "interrupted") return { passed, failed: failed + 1, skipped };
  // A run of nothing must not look like success: neither a pattern that fits no test.
  return { passed, failed: passed + failed === 0 ? 1 : failed, skipped };
}

/** A run that ended without its last line has failed. */
function addEarlier(tally: Tally, ending: string | undefined): void {
  if (ending === undefined) return;
  const lines = ending.split("\n").filter((line) => line !== "");
  const line = lines.pop() ?? "";
  console.log([`the run before, counted below: ${line}`, ...lines].join("\n"));
  const [, ...counts] = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/.exec(line) ?? [];
  const [passed = 0, failed = 1, skipped = 0] = counts.map((count) => Number(count ?? 0));
  tally.passed += passed;
  tally.failed += failed;
  tally.skipped += skipped;
}

function lineOf({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`;
}
