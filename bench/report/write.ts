import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installPackages } from "../stage/packages.ts";
import { markdownPage, readmeTable } from "./markdown.ts";
import { drawPlots } from "./plots.ts";
import type { Report } from "./report.ts";
import { isTrusted } from "./text.ts";

const ROOT = join(import.meta.dirname, "../..");
const [BEGIN, END] = ["<!-- bench: the table -->", "<!-- bench: end -->"];

/** Writes docs/performance.md, its plots, and, if the run can be trusted, the table in README.md. */
export function writePages(report: Report, say: (text: string) => void): void {
  installPackages(say);
  const folder = join(ROOT, "docs/performance");
  mkdirSync(folder, { recursive: true });
  for (const [name, svg] of Object.entries(drawPlots(report))) {
    writeFileSync(join(folder, `${name}.svg`), `${svg}\n`);
  }
  writeFileSync(join(ROOT, "docs/performance.md"), markdownPage(report));
  say("wrote docs/performance.md: npm run generate adds its place among the pages");
  if (!isTrusted(report)) {
    say(
      "README.md keeps its table: copies of one variant lay too far apart, or the warm-up was short",
    );
    return;
  }
  const readme = join(ROOT, "README.md");
  writeFileSync(readme, withTable(readFileSync(readme, "utf8"), readmeTable(report)));
  say("wrote the table in README.md");
}

/** The page with the table between its two marks; throws when it has none. */
export function withTable(page: string, table: string): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from === -1 || to < from) throw new Error(`README.md has no place for the table: ${BEGIN}`);
  return `${page.slice(0, from + BEGIN.length)}\n${table}\n${page.slice(to)}`;
}
