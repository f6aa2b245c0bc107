import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "vitest";
import { each } from "../support/each.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** How each word begins that the page writes into its head, up to what varies in it. */
function headsOfPage(): string[] {
  const [main, live, api] = ["main.js", "parts/live.js", "parts/api.js"].map((file) =>
    read(`src/admin/page/${file}`),
  ) as [string, string, string];
  const found = [
    ...each(main.matchAll(/\bword: ["`](?<head>[^"`$]+)/g)),
    ...each(live.matchAll(/#say\(["`](?<head>[^"`$]+)/g)),
    ...each(api.matchAll(/"(?<head>The gateway does not answer: is [^"]*)"/g)),
  ];
  return found.map(({ groups }) => (groups?.head ?? "").toLowerCase());
}

it("the page of the admin listener lists every head that the page may have, and no other", () => {
  const page = read("docs/reference/admin.md");
  const table = page.slice(page.indexOf("Its head says"), page.indexOf("A page that is out of"));
  const rows = [...table.matchAll(/^\| `([^`]+)` \|/gm)].map(([, head = ""]) => head.toLowerCase());
  const heads = headsOfPage();
  const fits = (row: string, head: string) => row.startsWith(head);
  const unlisted = heads.filter((head) => !rows.some((row) => fits(row, head)));
  const unknown = rows.filter((row) => !heads.some((head) => fits(row, head)));
  assert.deepEqual({ unlisted, unknown }, { unlisted: [], unknown: [] });
});
