import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { windowEnd, windowStart } from "../../src/core/quota/windows.ts";
import { blocksOf, readPage } from "./markdown.ts";

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
      assert.doesNotMatch(readPage(page), /\[[^\]]*\d bytes\]\([^)]*operations\.md#memory/, page);
    }
  });
});

describe("the resets of examples", () => {
  type Line = {
    readonly time: number;
    readonly decidedAt?: number;
    readonly window?: "day";
    readonly reset?: number;
    readonly windows?: readonly (readonly ["minute" | "day", number, number, number])[];
  };

  it("in lines of the log are the ends of windows that run then", () => {
    for (const page of ["docs/reference/log.md", "docs/reference/events.md"]) {
      const [block] = blocksOf(page).filter(({ language }) => language === "json");
      const {
        time,
        decidedAt = time,
        window,
        reset,
        windows,
      } = JSON.parse(block?.text ?? "") as Line;
      const resets = windows?.map(([name, , , end]) => [name, end] as const) ?? [
        [window ?? "day", reset],
      ];
      for (const [name, end] of resets) {
        assert.equal(
          end,
          windowEnd(name, windowStart(name, decidedAt)) / 1_000,
          `${page}: ${name}`,
        );
      }
    }
  });

  it("on the page for users is one that a day has", () => {
    const rows = rowsUnder("docs/for-your-users.md", "## Read where you stand");
    const example = (field: string) => rows.find(([name]) => name === `\`${field}\``)?.at(-1);
    assert.equal(example("X-RateLimit-Window"), "`day`");
    assert.equal(Number(example("X-RateLimit-Reset")?.replaceAll("`", "")) % 86_400, 0);
  });
});
