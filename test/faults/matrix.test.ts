import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { each } from "../support/each.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** Each row of the page: its name, and the tests that it names. */
function rowsOf(page: string): [row: string, tests: string[]][] {
  const lines = page.match(/^\| 2\.\d .*\|$/gm) ?? [];
  return lines.map((line) => {
    const [row = "", tests = ""] = line.slice(2).split(" | ");
    return [row, [...tests.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name)];
  });
}

const ROWS = rowsOf(read("docs/evidence/fault-matrix.md"));

describe("the fault matrix", () => {
  it("has every row of its four tables", () => {
    const count = (table: string) => ROWS.filter(([row]) => row.startsWith(table)).length;
    assert.deepEqual(["2.1 ", "2.2 ", "2.3 ", "2.4 "].map(count), [23, 10, 10, 15]);
  });

  it("names for each row tests that are there, the first of which is named like it", () => {
    for (const [row, tests] of ROWS) {
      assert.ok(tests.length > 0, row);
      for (const [i, test] of tests.entries()) {
        const path = test.startsWith("test/") ? test : `test/faults/${test}`;
        if (test.endsWith("/")) assert.ok(existsSync(join(ROOT, path)), path);
        else if (i === 0) assert.ok(read(`${path}.test.ts`).includes(row), `${path}: ${row}`);
        else assert.ok(existsSync(join(ROOT, `${path}.test.ts`)), path);
      }
    }
  });

  it("has a row for each test that is named like one", () => {
    const rows = ROWS.map(([row]) => row);
    const named = globSync("test/faults/*.test.ts", { cwd: ROOT }).flatMap((path) => {
      return read(path).match(/(?<=(?:test|it|describe)\(\s*["`])2\.\d [^"`\n]*/g) ?? [];
    });
    for (const name of each(named)) {
      assert.ok(
        rows.some((row) => name.startsWith(row)),
        name,
      );
    }
  });
});
