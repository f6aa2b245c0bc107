import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { type Mutated, scoreOf, survivors } from "./score.ts";
import { LINES, TESTS, testsOf } from "./tests-of.ts";

/**
 * npm run mutate [-- FILE …]: changes src/core, or the files that are named, one place at a time, and
 * runs the tests that reach their room against each change (docs/evidence/mutation.md).
 * `FILE:FROM-TO` takes those lines of a file. Prints what no test noticed and the score by file. The
 * exit status is 1 where a file is under SCORE_MIN.
 */
const SCORE_MIN = 90;
/**
 * Not a dependency: it is 177 packages, and is needed on demand only. It is installed below
 * node_modules, without the runner that it asks for: so it finds the one that the tests import.
 */
const STRYKER = ["@stryker-mutator/core@10.1.1", "@stryker-mutator/vitest-runner@10.1.1"];
const STRYKER_AT = "node_modules/.cache/stryker";
const REPORT = "reports/mutation.json";

const core = globSync("src/core/**/*.ts").sort();
const all = Object.keys(TESTS).flatMap((room) => globSync(`${room}/**/*.ts`));
const named = process.argv.slice(2);
const strangers = named.filter((file) => !all.includes(file.replace(LINES, "")));
const say = (text: string) => process.stdout.write(`${text}\n`);

if (strangers.length > 0) {
  process.stderr.write(
    `Cannot mutate ${strangers.join(", ")}: expected files of ${Object.keys(TESTS).join(", ")}\n`,
  );
  process.exitCode = 64;
} else {
  process.exitCode = mutate(named.length > 0 ? named : core);
}

function mutate(files: readonly string[]): number {
  rmSync(REPORT, { force: true });
  const install = ["install", "--prefix", STRYKER_AT, "--no-save", "--legacy-peer-deps"];
  const main = `${STRYKER_AT}/node_modules/@stryker-mutator/core/bin/stryker.js`;
  const run = [main, "run", "test/mutation/stryker.json", "--mutate", files.join(",")];
  mkdirSync(STRYKER_AT, { recursive: true });
  process.env.TOLLGATE_MUTATION_TESTS = testsOf(files).join();
  if (!runs("npm", [...install, ...STRYKER]) || !runs(process.execPath, run)) return 1;
  const report = JSON.parse(readFileSync(REPORT, "utf8")) as { files: Record<string, Mutated> };
  const mutated = Object.entries(report.files).filter(([, { mutants }]) => mutants.length > 0);
  for (const [file, one] of mutated) for (const line of survivors(file, one)) say(line);
  const scores = mutated.map(([file, one]) => ({ file, ...scoreOf(one) }));
  for (const { file, percent, killed, total } of scores) {
    say(`${file.padEnd(30)} ${percent.toFixed(1).padStart(5)} %  ${killed} of ${total} mutants`);
  }
  const low = scores.filter(({ percent }) => percent < SCORE_MIN);
  for (const { file } of low) say(`${file} is under ${SCORE_MIN} %`);
  return low.length === 0 ? 0 : 1;
}

function runs(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: "inherit" }).status === 0;
}
