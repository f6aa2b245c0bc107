import assert from "node:assert/strict";
import { it } from "vitest";
import { formatTable } from "../../../src/cli/framework/table.ts";

it("columns stand under each other at a terminal that shows letters of Asia and emoji two columns wide", () => {
  // Combining marks, halfwidth forms and signs of text take what other letters take.
  const names = [
    "日本語の店",
    "한국",
    "ＡＢ",
    "👨‍👩‍👧🇩🇪☎️",
    "cafe\u0301",
    "ｶﾞ·©☎",
    "क्षか\u3099",
    "Söhne",
  ];
  const rows = names.map((name) => [name, "x"]);
  assert.equal(
    formatTable({ env: {}, isTty: false }, ["NAME", "ID"], rows),
    `NAME        ID
日本語の店  x
한국        x
ＡＢ        x
👨‍👩‍👧🇩🇪☎️      x
cafe\u0301        x
ｶﾞ·©☎       x
क्षか\u3099        x
Söhne       x
`,
  );
});
