import { readFileSync, writeFileSync } from "node:fs";
import { likely, type Results, roomOf, type Score, scoreOf } from "./results.ts";

/** The rooms of src/ in the order of the table. */
export const ROOMS = [
  ...["core", "http1", "stores", "gateway", "server", "telemetry", "cli", "admin", "config"],
  ...["base", "pets"],
];
/** A file of which fewer were tried says little by itself. */
const TRIED_MIN = 10;
const PERCENT_WEAK = 80;

/** Where the figures stand: the text between the two marks is made from the results. */
export const PLACES: readonly { readonly path: string; readonly text: (r: Results) => string }[] = [
  { path: "docs/evidence/mutation.md", text: (results) => `\n${tables(results)}\n` },
  { path: "README.md", text: sentence },
];
const MARKED = /(<!-- mutation: the figures -->)([\s\S]*?)(<!-- mutation: end -->)/;

/** `page` with the figures of `results`. Throws where it has no marks. */
export function withFigures(page: string, text: string): string {
  if (!MARKED.test(page)) throw new Error("The marks of the mutation figures are missing");
  return page.replace(MARKED, (_, from: string, _old, to: string) => from + text + to);
}

export function writeFigures(results: Results): void {
  for (const { path, text } of PLACES) {
    writeFileSync(path, withFigures(readFileSync(path, "utf8"), text(results)));
  }
}

function scoresOf(results: Results): { room: string; all: number; score: Score }[] {
  const files = Object.entries(results.files);
  return ROOMS.map((room) => {
    const score = scoreOf(files.filter(([file]) => roomOf(file) === room).map(([, one]) => one));
    return { room, all: results.rooms[room] ?? 0, score };
  }).filter(({ score }) => score.tried > 0);
}

/** For the README: each room with its percentage, and how many were tried. */
function sentence(results: Results): string {
  const scores = scoresOf(results);
  if (scores.length === 0) return "not measured";
  const { tried } = scoreOf(Object.values(results.files));
  const all = scores.reduce((sum, one) => sum + one.all, 0);
  const rooms = scores.map(({ room, score }) => `${room} ${percent(score.percent)}`);
  return `at least ${rooms.join(", ")} of the ${count(tried)} tried of ${count(all)} mutants`;
}

function tables(results: Results): string {
  const rooms = scoresOf(results).map(({ room, all, score }) => {
    const isWhole = score.tried >= all;
    const [low, high] = likely(score.noticed, score.tried);
    const range = isWhole ? "all were tried" : `${low.toFixed(1)} to ${high.toFixed(1)} %`;
    return row([`\`${room}\``, count(all), ...cells(score), range]);
  });
  const weak = Object.entries(results.files)
    .map(([file, one]) => ({ file, score: scoreOf([one]), all: one.mutants }))
    .filter(({ score }) => score.tried >= TRIED_MIN && score.percent < PERCENT_WEAK)
    .sort((one, other) => one.score.percent - other.score.percent)
    .map(({ file, all, score }) => row([`\`${file}\``, count(all), ...cells(score)]));
  const columns = ["mutants", "tried", "noticed", "of them without an end", "share"];
  const head = (first: string, ...more: string[]) => {
    const names = [first, ...columns, ...more];
    return `${row(names)}\n${row(names.map((_, at) => (at === 0 ? "---" : "---:")))}`;
  };
  const first = `${head("room", "likely share of all")}\n${rooms.join("\n")}`;
  if (weak.length === 0) return first;
  const title = `Files with less than ${PERCENT_WEAK} %, of those with ${TRIED_MIN} tried or more:`;
  return `${first}\n\n${title}\n\n${head("file")}\n${weak.join("\n")}`;
}

function cells({ tried, noticed, late, percent: share }: Score): string[] {
  return [count(tried), count(noticed), count(late), percent(share)];
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function percent(value: number): string {
  return `${value.toFixed(1)} %`;
}
