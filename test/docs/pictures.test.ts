import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { posix } from "node:path";
import { it } from "vitest";
import { ROOT, readerPages, readPage } from "./markdown.ts";

it("every picture of the documentation is shown on a page, with words for those who do not see it", () => {
  const shown = new Map<string, string>();
  for (const page of readerPages()) {
    for (const [, words = "", target = ""] of readPage(page).matchAll(
      /!\[([^\]]*)\]\(([^)]+)\)/g,
    )) {
      shown.set(posix.join(posix.dirname(page), target), words);
    }
  }
  const pictures = globSync("docs/**/*.{png,svg}", { cwd: ROOT });
  assert.ok(pictures.length >= 8, `${pictures.length} pictures`);
  assert.deepEqual(
    pictures.filter((path) => !shown.has(path)),
    [],
    "shown on no page",
  );
  for (const [path, words] of shown) assert.ok(words.length >= 15, `${path}: ${words}`);
});
