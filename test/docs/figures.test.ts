import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { readPage } from "./markdown.ts";

/** Rows of the table under a heading, as cells. */
function rowsUnder(page: string, heading: string): string[][] {
  const section = readPage(page).split(`${heading}\n`)[1]?.split(/^#+ /m)[0] ?? "";
  const rows = [...section.matchAll(/^\| (.*) \|$/gm)].map(([, row = ""]) => row.split(" | "));
  assert.ok(rows.length > 3, `${page}: ${heading}`);
  return rows;
}

describe("the figures of memory", () => {
  it("on the page for operators are those of the last run of the benchmark", () => {
    const growth = rowsUnder("docs/performance.md", "## Growth of Tollgate on Redis");
    const told = rowsUnder("docs/operations.md", "### Memory");
    for (const accounts of ["1,000", "100,000", "1,000,000"]) {
      const row = growth.find(([name]) => name === accounts);
      const [megabytes, bytes] = row?.slice(-2) ?? [];
      const expected = [`${megabytes} MB`, `${bytes} bytes an account`];
      const found = told.find(([name]) => name === `under full load, ${accounts} accounts`);
      assert.deepEqual(found?.slice(1), expected, accounts);
    }
  });

  it("stand on that page alone: other pages link to it", () => {
    for (const page of ["README.md", "docs/install.md", "docs/tasks.md"]) {
      assert.match(readPage(page), /operations\.md#memory/, page);
    }
  });
});
