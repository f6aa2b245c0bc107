import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { posix } from "node:path";
import { describe, it } from "vitest";
import { PLACED } from "../../scripts/pages/places.ts";
import { linksIn } from "../support/citations.ts";
import { each } from "../support/each.ts";
import { blocksOf, ROOT, readPage } from "./markdown.ts";

const PAGES = globSync("docs/**/*.md", { cwd: ROOT }).toSorted();
const MAP = "docs/README.md";
/** A first paragraph is read at a glance. */
const ANSWER_LENGTH_MAX = 600;

/** Half of this is better; more is a list. */
const WORDS_MAX = 60;

/** The sentences of a page, without its blocks and tables. */
function sentencesOf(page: string): string[] {
  const text = readPage(page).replaceAll(/^```[\s\S]*?^```|^\|.*$/gm, "");
  return text.split(/(?<=[.!?])\s+|\n\n|\n(?:- |\d\. )/);
}

/** The paragraph that follows the title. */
function answerOf(page: string): string {
  const [, ...parts] = readPage(page).split(/\n\n+/);
  return parts.find((part) => !part.startsWith("<!--")) ?? "";
}

describe("every page of the documentation", () => {
  it("has its place in the order", () => {
    assert.deepEqual(
      PAGES.filter((page) => page !== MAP && !PLACED.includes(page)),
      [],
      "put it into scripts/pages/places.ts and run npm run generate",
    );
    assert.equal(new Set(PLACED).size, PLACED.length, "no page twice");
  });

  it("says in its first paragraph what it answers", () => {
    for (const page of PAGES) {
      const text = answerOf(page);
      assert.match(text, /^[*\w`[]/, `${page} begins with words`);
      assert.ok(text.length >= 30, `${page}: ${text}`);
      assert.ok(text.length <= ANSWER_LENGTH_MAX, `${page}: ${text.length} characters`);
    }
  });

  it("has no sentence that has to be read twice for its length", () => {
    // Decisions and evidence are for those who change the program.
    const pages = PAGES.filter((page) => !/^docs\/(?:decisions|evidence)\//.test(page));
    const long = [...pages, "README.md"].flatMap((page) => {
      return sentencesOf(page).filter((sentence) => sentence.split(/\s+/).length > WORDS_MAX);
    });
    assert.deepEqual(long, []);
  });

  it("is linked from the map or from the index of its folder", () => {
    for (const page of each(PAGES.filter((one) => one !== MAP))) {
      const indexes = [MAP, `${posix.dirname(page)}/README.md`].filter((one) => one !== page);
      const linked = indexes
        .filter((index) => PAGES.includes(index))
        .flatMap((index) => linksIn(index, readPage(index)).map((link) => link.page));
      assert.ok(linked.includes(page), page);
    }
  });

  it("of the reference has a block of code", () => {
    const pages = PAGES.filter((page) => page.startsWith("docs/reference/"));
    assert.ok(pages.length >= 15);
    assert.deepEqual(
      pages.filter((page) => blocksOf(page).length === 0),
      [],
    );
  });
});
