import { globSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type FileResult, runTestFile } from "./test-file.ts";

const ROOT = join(import.meta.dirname, "..");
const TEST_MS = 90_000;
const FILE_MS = 240_000;
const SLOWEST_SHOWN = 10;
const SLOW_MS = 500;

/** Tests that measure time want the machine for themselves: they run at the end, one by one. */
const ALONE = ".alone.test.ts";

export type Suite = {
  /** Where the paths are relative to; this repository unless given. */
  readonly root?: string;
  readonly print?: (line: string) => void;
  /** Checks that failed before the tests ran: they count as failed in the last line. */
  readonly failedChecks?: readonly string[];
};

/** Runs the test files named by the arguments, or all; gives the exit status. */
export async function runTests(args: readonly string[], suite: Suite = {}): Promise<number> {
  const { root = ROOT, print = (line) => console.log(line), failedChecks = [] } = suite;
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { name: { type: "string" } },
    allowPositionals: true,
  });
  const startMs = performance.now();
  const files = filesOf(root, positionals.length === 0 ? ["test"] : positionals);
  const deadlines = {
    testMs: TEST_MS,
    fileMs: FILE_MS,
    ...(values.name !== undefined && { namePattern: values.name }),
  };
  const results: FileResult[] = [];
  const runOne = async (file: string) => {
    const result = await runTestFile(file, deadlines);
    results.push(result);
    for (const line of told(result, root)) print(line);
  };
  const together = files.filter((file) => !file.endsWith(ALONE));
  // One more than there are cores: most tests wait for sockets (measured on two: 42 s, not 52 s).
  await inParallel(together, availableParallelism() + 1, runOne);
  await inParallel(
    files.filter((file) => file.endsWith(ALONE)),
    1,
    runOne,
  );
  for (const line of summary(results, root, performance.now() - startMs)) print(line);
  return conclude(results, failedChecks, print);
}

/** Paths are files or folders. The slow ones start first, so that none is left for the end. */
function filesOf(root: string, paths: readonly string[]): string[] {
  const files = paths.flatMap((path) => {
    const absolute = resolve(root, path);
    const folder = statSync(absolute, { throwIfNoEntry: false })?.isDirectory();
    if (!folder) return [absolute];
    return globSync("**/*.test.ts", { cwd: absolute }).map((found) => join(absolute, found));
  });
  const slow = (file: string) => (/\/(faults|stores|attacks)\//.test(file) ? 0 : 1);
  return [...new Set(files)].sort((a, b) => slow(a) - slow(b) || (a < b ? -1 : 1));
}

async function inParallel(
  files: readonly string[],
  atOnce: number,
  work: (file: string) => Promise<void>,
): Promise<void> {
  const waiting = [...files];
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await work(file);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

function told({ file, passed, failures, durationMs, output }: FileResult, root: string): string[] {
  const path = relative(root, file);
  const seconds = `${(durationMs / 1000).toFixed(1)} s`.padStart(7);
  const mark = failures.length === 0 ? "ok  " : "FAIL";
  const lines = [`${mark} ${seconds} ${String(passed).padStart(4)}  ${path}`];
  for (const { name, line, why } of failures) {
    lines.push(`  FAILED ${name} (${path}${line === undefined ? "" : `:${line}`})`);
    lines.push(indent(why));
  }
  if (failures.length > 0 && output !== "") lines.push("  its output:", indent(output.trimEnd()));
  return lines;
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, "    ");
}

function summary(results: readonly FileResult[], root: string, durationMs: number): string[] {
  const lines: string[] = [];
  const figures = results.flatMap((result) => result.figures);
  if (figures.length > 0) lines.push("", "figures", ...figures.map((figure) => `  ${figure}`));

  const times = results.flatMap(({ file, times: own }) => own.map((time) => ({ file, ...time })));
  const slow = times.filter((time) => time.durationMs >= SLOW_MS);
  slow.sort((a, b) => b.durationMs - a.durationMs);
  if (slow.length > 0) lines.push("", "slowest");
  for (const { file, name, durationMs: ownMs } of slow.slice(0, SLOWEST_SHOWN)) {
    lines.push(`  ${(ownMs / 1000).toFixed(1)} s  ${name} (${relative(root, file)})`);
  }
  const failed = results.flatMap(({ file, failures }) => failures.map((one) => ({ file, ...one })));
  if (failed.length > 0) lines.push("", "failed");
  for (const { file, name } of failed) lines.push(`  ${name} (${relative(root, file)})`);
  lines.push("", `${results.length} files in ${(durationMs / 1000).toFixed(1)} s`);
  return lines;
}

/** No test at all is a failure: a pattern that fits nothing must not look like success. */
function conclude(
  results: readonly FileResult[],
  failedChecks: readonly string[],
  print: (line: string) => void,
): number {
  const count = (of: (result: FileResult) => number) => {
    return results.reduce((sum, result) => sum + of(result), 0);
  };
  const passed = count((result) => result.passed);
  const skipped = count((result) => result.skipped);
  const failed = count(({ failures }) => failures.length) + failedChecks.length;
  if (failedChecks.length > 0) print(`failed checks, counted below: ${failedChecks.join(", ")}`);
  if (passed + failed === 0) print("no test was found: that is a failure");
  print(`${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`);
  return failed > 0 || passed === 0 ? 1 : 0;
}
