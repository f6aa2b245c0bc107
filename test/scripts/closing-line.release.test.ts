import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startNode } from "../support/gateway/processes.ts";

const ROOT = join(import.meta.dirname, "../..");
const HEAD = 'import { beforeAll, describe, it } from "vitest";\n';

/** The content of each file, whether the run fails, and its last line. */
const FILES: readonly [name: string, text: string, status: number, last: string, says: RegExp][] = [
  [
    "figures",
    'it("measures", (t) => { t.annotate("31 µs"); console.log("unseen"); });',
    0,
    "1 passed, 0 failed",
    /figures\n {2}measures: 31 µs\n/,
  ],
  [
    "slow",
    'it("takes long", () => new Promise((resolve) => setTimeout(resolve, 600)));',
    0,
    "1 passed, 0 failed",
    /slowest\n {2}\d\.\d s {2}takes long \(test\/slow\.test\.ts\)\n/,
  ],
  [
    "failing",
    'describe("s", () => { it("a", () => {}); it("b", () => { console.log("seen"); throw new Error("no b"); }); });',
    1,
    "1 passed, 1 failed",
    /seen.*\nfailed\n {2}s > b \(test\/failing\.test\.ts\): no b\n\n1 passed.*failing\.test\.ts > s > b\nError: no b\n.*failing\.test\.ts:2:/s,
  ],
  [
    "hooked",
    'describe("s", () => { beforeAll(() => { throw new Error("no hook"); }); it("a", () => {}); });',
    1,
    "0 passed, 1 failed, 1 skipped",
    /\nfailed\n {2}test\/hooked\.test\.ts: no hook\n/,
  ],
  [
    "skipped",
    'it("a", () => {}); it.skip("b"); it("c", (t) => t.skip("no c here"));',
    0,
    "1 passed, 0 failed, 2 skipped",
    /skipped\n {2}test\/skipped\.test\.ts: no reason given: 1 test\n {2}test\/skipped\.test\.ts: no c here: 1 test\n/,
  ],
  [
    "lacking",
    'describe("of few", { skip: true, meta: { lacks: "promtool" } }, () => { it("a", () => {}); it("b", () => {}); });\nit("c", () => {});',
    0,
    "1 passed, 0 failed, 2 skipped",
    /skipped\n {2}test\/lacking\.test\.ts: without promtool: 2 tests\n/,
  ],
  ["empty", "export {};", 1, "0 passed, 1 failed", /No test suite found in file/],
  ["broken", 'import "./nowhere.ts";', 1, "0 passed, 1 failed", /Cannot find module/],
  [
    "exiting",
    'it("a", () => process.exit(3));',
    1,
    "0 passed, 1 failed",
    /exit unexpectedly called/,
  ],
  [
    "killed",
    'it("a", () => process.kill(process.pid, "SIGKILL"));',
    1,
    "0 passed, 1 failed",
    /exited unexpectedly/,
  ],
  [
    "late",
    'it("a", () => new Promise((resolve) => { setTimeout(resolve, 50); setTimeout(() => { throw new Error("later"); }, 1); }));',
    1,
    "1 passed, 1 failed",
    /\nfailed\n {2}outside tests: later\n/,
  ],
];

describe("npm test", () => {
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-runner-"));
    await mkdir(join(folder, "test"));
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    for (const [name, text] of FILES) {
      await writeFile(join(folder, `test/${name}.test.ts`), HEAD + text);
    }
    await writeFile(
      join(folder, "test/endless.test.ts"),
      `${HEAD}it("a", () => {});
it("waits", () => new Promise(() => process.stdout.write("waiting")), 60_000);`,
    );
  });
  afterAll(() => rm(folder, { recursive: true }));

  /** Vitest as `npm test` runs it, with the configuration of this repository, on that folder. */
  function startTests(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
    const config = join(ROOT, "vitest.config.ts");
    return startNode([vitest, "run", "--root", folder, "--config", config, ...args], {
      env: { NO_COLOR: "1", CI: "", ...env },
    });
  }

  async function runTests(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const { code, stdout, stderr } = await startTests(args, env).exited;
    return { code, said: stdout + stderr, last: stdout.trimEnd().split("\n").at(-1) ?? "" };
  }

  for (const [name, , status, last, says] of FILES) {
    it(`tells of a file that is ${name}`, async () => {
      const told = await runTests([`test/${name}.test.ts`]);
      assert.equal(told.last, last, told.said);
      assert.equal(told.code, status);
      assert.match(told.said, says);
      assert.doesNotMatch(told.said, /unseen/);
    });
  }

  it("in CI tries a test with sockets or time again, and names what passed only then", async () => {
    const often =
      'let tries = 0; it("often", () => { if (++tries < 3) throw new Error("try " + tries + "\\nmore"); });';
    const never = 'it("never", () => { console.log("tried"); throw new Error("no"); });';
    await writeFile(join(folder, "test/often.test.ts"), HEAD + often);
    await writeFile(join(folder, "test/never.test.ts"), HEAD + never);
    await mkdir(join(folder, "test/core"), { recursive: true });
    await writeFile(join(folder, "test/core/pure.test.ts"), HEAD + often);
    const names = ["often", "never", "core/pure"].map((name) => `test/${name}.test.ts`);
    const { code, last, said } = await runTests(names, { CI: "true" });
    assert.deepEqual([code, last], [1, "1 passed, 2 failed"], said);
    assert.match(
      said,
      /failed at first, and passed when tried again\n {2}often \(test\/often\.test\.ts\): try 1\n {4}more\n\n/,
    );
    assert.equal(said.match(/^tried$/gm)?.length, 3, said);
    const here = await runTests(["test/often.test.ts"]);
    assert.deepEqual([here.code, here.last], [1, "0 passed, 1 failed"], here.said);
  });

  it("adds all files up", async () => {
    const { code, last } = await runTests(["figures", "failing", "skipped", "broken"]);
    assert.deepEqual([code, last], [1, "3 passed, 2 failed, 2 skipped"]);
  });

  it("fails where no file, or no test, has the name that was asked for", async () => {
    for (const args of [["nothing-like-it"], ["figures", "-t", "nothing like it"]]) {
      const { code, last } = await runTests(args);
      assert.equal(code, 1, last);
      assert.match(last, /^0 passed, 1 failed/);
    }
  });

  it("counts a check that failed before it", async () => {
    const { code, last } = await runTests(["figures"], { FAILED_CHECKS: "2" });
    assert.deepEqual([code, last], [1, "1 passed, 2 failed"]);
  });

  it("adds the run before, by how it ended, and fails where that run has no last line", async () => {
    for (const [earlier, status, last] of [
      ["20 passed, 0 failed", 0, "21 passed, 0 failed"],
      ["failed\n  b: no b\n\n20 passed, 3 failed, 1 skipped", 1, "21 passed, 3 failed, 1 skipped"],
      ["Killed", 1, "1 passed, 1 failed"],
      ["", 1, "1 passed, 1 failed"],
    ] as const) {
      const told = await runTests(["figures"], { EARLIER_RUN: earlier });
      assert.deepEqual(
        [told.code, told.last],
        [status, last],
        `${told.code}, ${told.last}: ${told.said}`,
      );
      assert.equal(told.said.includes("\nfailed\n  b: no b\n"), last.includes("skipped"));
    }
  });

  it("fails where the tests reach less than the gates of coverage ask for", async () => {
    await mkdir(join(folder, "src/core"), { recursive: true });
    await writeFile(
      join(folder, "src/core/a.ts"),
      "export const a = (b: boolean) => (b ? 1 : 2);\n",
    );
    const { code, last, said } = await runTests(["figures", "--coverage"]);
    assert.deepEqual([code, last], [1, "1 passed, 1 failed"], said);
    assert.match(said, /branches.*does not meet/);
  });

  it("fails in one line, and runs nothing, where a program that it needs cannot be had", async () => {
    const { code, last, said } = await runTests(["figures"], { PATH: folder });
    assert.deepEqual([code, last], [1, "0 passed, 1 failed"]);
    assert.match(said, /The tests need redis-server, .*, and installing failed: run "apt-get/);
    assert.doesNotMatch(said, /31 µs/);
  });

  it.for([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("interrupted by %s says what it knows, and fails", async ([signal, status]) => {
    const running = startTests(["endless"]);
    await running.says("waiting");
    running.child.kill(signal);
    const { code, stdout } = await running.exited;
    // A result takes a moment to get from its process to the one that tells it.
    assert.match(stdout, /waiting\n[01] passed, 1 failed\n$/);
    assert.equal(code, status);
  });
});
