import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { importsOf } from "../support/source.ts";

/** Files by their path from the root of the repository, with their text. */
export type Sources = ReadonlyMap<string, string>;

/** Part of a file, by offsets. */
export type Range = readonly [from: number, to: number];

/** These wait for quiet, for a package or for chance: a mutant would be told from them by accident. */
const UNFIT = /\.(?:alone|release)\.test\.ts$|^test\/(?:fuzz|mutation|bench|tidy)\b/;

/**
 * The test files that may reach `file`, the nearest first: those that import it, or import what does, or
 * name a file that does (`src/main.ts` as the program of a process). The tests of its own room stand
 * ahead of others, those of its name first, and then those with the fewest files between.
 */
export function testsNear(file: string, sources: Sources): string[] {
  const users = usersOf(sources);
  const steps = new Map([[file, 0]]);
  for (const [at, count] of steps) {
    for (const user of users.get(at) ?? []) if (!steps.has(user)) steps.set(user, count + 1);
  }
  const name = posix.basename(file, ".ts");
  const farness = (test: string) => {
    const folders = sharedFolders(file, test) + (posix.basename(test).startsWith(name) ? 1 : 0);
    return (steps.get(test) ?? 0) - 100 * folders;
  };
  return [...steps.keys()]
    .filter((path) => path.endsWith(".test.ts") && !UNFIT.test(path))
    .sort((one, other) => farness(one) - farness(other) || (one < other ? -1 : 1));
}

/** How many folders below src/ and test/ they have in common: two where both stand in core/quota. */
function sharedFolders(file: string, test: string): number {
  const [one, other] = [file, test].map((path) => path.split("/").slice(1, -1));
  const differs = (one ?? []).findIndex((folder, at) => folder !== other?.[at]);
  return differs < 0 ? (one ?? []).length : differs;
}

const graphs = new WeakMap<Sources, Map<string, string[]>>();

/** The files that import or name each file. */
function usersOf(sources: Sources): Map<string, string[]> {
  const known = graphs.get(sources);
  if (known !== undefined) return known;
  const users = new Map<string, string[]>();
  for (const [path, text] of sources) {
    for (const used of usedBy(path, text, sources)) {
      users.set(used, [...(users.get(used) ?? []), path]);
    }
  }
  graphs.set(sources, users);
  return users;
}

const NAMED = /["'`]([\w./-]+\.(?:ts|js|lua))["'`]/g;

function usedBy(path: string, text: string, sources: Sources): Set<string> {
  const beside = (name: string) => posix.join(posix.dirname(path), name);
  const imported = importsOf(text).map((one) => beside(one.path));
  const named = [...text.matchAll(NAMED)].flatMap(([, name = ""]) => [name, beside(name)]);
  return new Set([...imported, ...named].filter((used) => used !== path && sources.has(used)));
}

type Coverage = {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly { readonly ranges: readonly Covered[] }[];
  }[];
};
type Covered = {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
};

/**
 * The parts of each file below `root` that ran, in all processes that left their coverage in `folder`
 * (NODE_V8_COVERAGE). Node strips types to blanks, so that the offsets are those of the source.
 */
export function ranIn(folder: string, root: string): Map<string, Range[]> {
  const ran = new Map<string, Range[]>();
  for (const name of readdirSync(folder)) {
    for (const { url, functions } of coverageIn(join(folder, name)).result) {
      if (!url.startsWith("file:")) continue;
      const path = fileURLToPath(url);
      if (!path.startsWith(`${root}/src/`)) continue;
      const file = path.slice(root.length + 1);
      const ranges = covered(functions.flatMap((one) => one.ranges));
      ran.set(file, joined([...(ran.get(file) ?? []), ...ranges]));
    }
  }
  return ran;
}

/** Nothing where the process was ended while it wrote. */
function coverageIn(path: string): Coverage {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Coverage;
  } catch {
    return { result: [] };
  }
}

/** V8 tells ranges within ranges: the innermost says whether a place ran. */
function covered(ranges: readonly Covered[]): Range[] {
  const edges = new Set(ranges.flatMap(({ startOffset, endOffset }) => [startOffset, endOffset]));
  const sorted = [...edges].sort((a, b) => a - b);
  const inward = ranges.toSorted(
    (a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset,
  );
  const open: Covered[] = [];
  const found: Range[] = [];
  let next = 0;
  for (const [at, from] of sorted.entries()) {
    while ((open.at(-1)?.endOffset ?? Number.POSITIVE_INFINITY) <= from) open.pop();
    for (; inward[next]?.startOffset === from; next += 1) open.push(inward[next] as Covered);
    const to = sorted[at + 1];
    if (to !== undefined && (open.at(-1)?.count ?? 0) > 0) found.push([from, to]);
  }
  return found;
}

/** The same places by the fewest ranges. */
function joined(ranges: readonly Range[]): Range[] {
  const out: [number, number][] = [];
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = out.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}
