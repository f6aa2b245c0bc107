import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { ranIn, testsNear } from "./reach.ts";

describe("The tests near a file", () => {
  const SOURCES = new Map([
    ["src/main.ts", 'await import("./cli/run.ts");'],
    ["src/cli/run.ts", 'import { decide } from "../core/quota/decide.ts";'],
    ["src/core/quota/decide.ts", ""],
    ["src/core/quota/other.ts", ""],
    ["test/core/quota/bans.test.ts", 'import { d } from "../../../src/core/quota/decide.ts";'],
    ["test/core/quota/decide.test.ts", 'import { d } from "../../../src/core/quota/decide.ts";'],
    ["test/core/house.test.ts", 'import { d } from "../../src/core/quota/decide.ts";'],
    ["test/support/processes.ts", 'const MAIN = "src/main.ts";'],
    ["test/server/start.test.ts", 'import { start } from "../support/processes.ts";'],
    ["test/server/slow.alone.test.ts", 'import { start } from "../support/processes.ts";'],
    ["test/core/stranger.test.ts", 'import { o } from "../../src/core/quota/other.ts";'],
  ]);

  it("are those that import it or start a process that does, its own name and room first", () => {
    assert.deepEqual(testsNear("src/core/quota/decide.ts", SOURCES), [
      "test/core/quota/decide.test.ts",
      "test/core/quota/bans.test.ts",
      "test/core/house.test.ts",
      "test/server/start.test.ts",
    ]);
    assert.deepEqual(testsNear("src/core/quota/other.ts", SOURCES), ["test/core/stranger.test.ts"]);
  });

  it("are none where no test comes to it", () => {
    assert.deepEqual(testsNear("src/core/quota/gone.ts", SOURCES), []);
  });
});

describe("What ran of a file", () => {
  const SOURCE =
    "export function used(a: number) { return a > 0 ? 'more' : 'less'; }\n" +
    "export function unused() { return 'nothing'; }\n";

  it("is told by the processes that ran it, by place, and of files below src only", () => {
    const root = realpathSync(mkdtempSync(join(tmpdir(), "tollgate-reach-test-")));
    try {
      mkdirSync(join(root, "src"));
      writeFileSync(join(root, "src/a.ts"), SOURCE);
      writeFileSync(join(root, "stranger.ts"), "console.log('no source of ours');\n");
      const folder = join(root, "coverage");
      const isReached = (part: string) => {
        const place = SOURCE.indexOf(part);
        const ranges = ranIn(folder, root).get("src/a.ts") ?? [];
        return ranges.some(([from, to]) => from <= place && place < to);
      };
      const run = (code: string) => {
        const args = ["--input-type=module", "--eval", code];
        const env = { ...process.env, NODE_V8_COVERAGE: folder };
        const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, env });
        assert.equal(status, 0, stderr.toString());
      };
      run("import './stranger.ts'; import { used } from './src/a.ts'; used(1);");
      assert.deepEqual(["'more'", "'less'", "'nothing'"].map(isReached), [true, false, false]);
      run("import { used } from './src/a.ts'; used(-1);");
      assert.deepEqual(["'more'", "'less'", "'nothing'"].map(isReached), [true, true, false]);
      assert.deepEqual([...ranIn(folder, root).keys()], ["src/a.ts"]);
      writeFileSync(join(folder, "cut.json"), '{ "result": [');
      assert.deepEqual(isReached("'less'"), true);
    } finally {
      rmSync(root, { recursive: true });
    }
  });
});
