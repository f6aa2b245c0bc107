import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startNode } from "../support/gateway/processes.ts";

const HEAD = 'import { before, describe, it } from "node:test";\n';

/** What each file holds, whether the run fails, and what the run says of it. */
const FILES: readonly [name: string, text: string, status: number, last: string, says: RegExp][] = [
  [
    "figures",
    'it("measures", (t) => { t.diagnostic("31 µs"); console.log("unseen"); });',
    0,
    "1 passed, 0 failed",
    /figures\n {2}measures: 31 µs\n/,
  ],
  [
    "failing",
    'describe("s", () => { it("a", () => {}); it("b", () => { console.log("seen"); throw new Error("no b"); }); });',
    1,
    "1 passed, 1 failed",
    /FAILED b \(.*failing\.test\.ts:2\).*Error: no b.*at TestContext.*seen/s,
  ],
  [
    "hooked",
    'describe("s", () => { before(() => { throw new Error("no hook"); }); it("a", () => {}); });',
    1,
    "0 passed, 2 failed",
    /FAILED s .*no hook/s,
  ],
  ["skipped", 'it("a", () => {}); it.skip("b");', 0, "1 passed, 0 failed, 1 skipped", /^ok /],
  ["empty", "export {};", 1, "0 passed, 1 failed", /there is no test in it/],
  ["broken", 'import "./nowhere.ts";', 1, "0 passed, 1 failed", /Cannot find module/],
  [
    "exiting",
    'it("a", () => {}); process.exit(3);',
    1,
    "0 passed, 1 failed",
    /ended with exit code 3/,
  ],
  [
    "killed",
    'it("a", () => process.kill(process.pid, "SIGKILL"));',
    1,
    "0 passed, 1 failed",
    /ended by SIGKILL/,
  ],
  [
    "late",
    'it("a", () => {}); setTimeout(() => { throw new Error("late"); }, 1);',
    1,
    "1 passed, 1 failed",
    /late/,
  ],
];

describe("npm test", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-runner-"));
    for (const [name, text] of FILES) {
      await writeFile(join(folder, `${name}.test.ts`), HEAD + text);
    }
  });
  after(() => rm(folder, { recursive: true }));

  /** The script in a process of its own: the runner does not run inside itself. */
  async function runTests(...args: string[]) {
    const running = startNode([join(import.meta.dirname, "../../scripts/test.ts"), ...args]);
    const { code, stdout } = await running.exited;
    return { code, stdout, last: stdout.trimEnd().split("\n").at(-1) };
  }

  for (const [name, , status, last, says] of FILES) {
    it(`tells of a file that is ${name}`, async () => {
      const told = await runTests(join(folder, `${name}.test.ts`));
      assert.equal(told.last, last);
      assert.equal(told.code, status);
      assert.match(told.stdout, says);
      assert.doesNotMatch(told.stdout, /unseen/);
    });
  }

  it("runs a folder, and adds all up", async () => {
    const { code, last } = await runTests(folder);
    assert.deepEqual([code, last], [1, "4 passed, 8 failed, 1 skipped"]);
  });

  it("runs only the tests that a name fits, and fails where it fits none", async () => {
    const files = ["figures.test.ts", "skipped.test.ts"].map((name) => join(folder, name));
    const some = await runTests(...files, "--name", "measures");
    assert.equal(some.last, "1 passed, 0 failed");
    const none = await runTests(join(folder, "figures.test.ts"), "--name", "nothing like it");
    assert.deepEqual([none.code, none.last], [1, "0 passed, 0 failed"]);
  });
});
