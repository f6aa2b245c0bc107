import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The part of Stryker that knows what to change. Not a dependency: it is 78 packages, and is needed
 * on demand only, so that it is installed below node_modules.
 */
const PACKAGE = "@stryker-mutator/instrumenter";
const VERSION = "10.1.1";
const PLACE = `node_modules/.cache/stryker-${VERSION}`;
/** The mutants found, by the text: a room takes half a minute. */
const FOUND = `${PLACE}/found`;
const ENTRY = `${PLACE}/node_modules/${PACKAGE}/dist/src/index.js`;

/** One change of a file: `after` in the place of the text between two offsets. */
export type Mutant = {
  readonly file: string;
  /** Its place among the mutants of the file, which are the same for the same text. */
  readonly index: number;
  /** How many mutants the file has. */
  readonly of: number;
  readonly from: number;
  readonly to: number;
  readonly after: string;
  /** For people: `LINE: CODE -> CHANGED (MUTATOR)`. */
  readonly told: string;
};

type Position = { readonly line: number; readonly column: number };
type Found = {
  readonly mutatorName: string;
  readonly replacement: string;
  readonly location: { readonly start: Position; readonly end: Position };
};
type Instrumenter = {
  instrument(files: readonly object[], options: object): Promise<{ mutants: readonly Found[] }>;
};

/** Finds the mutants of a file, given its path and its text. */
export type FindMutants = (file: string, text: string) => Promise<Mutant[]>;

/** Installs what finds mutants where it is missing. Throws where that fails. */
export async function openFinder(): Promise<FindMutants> {
  if (!existsSync(ENTRY)) install();
  const { Instrumenter } = (await import(pathToFileURL(resolve(ENTRY)).href)) as {
    Instrumenter: new (log: object) => Instrumenter;
  };
  const quiet = () => undefined;
  const finder = new Instrumenter({ debug: quiet, info: quiet, isDebugEnabled: () => false });
  const options = { plugins: null, excludedMutations: [], ignorers: [], noHeader: true };
  return async (file, content) => {
    const kept = `${FOUND}/${createHash("sha256").update(content).digest("hex")}.json`;
    if (existsSync(kept)) return placed(file, content, JSON.parse(readFileSync(kept, "utf8")));
    const { mutants } = await finder.instrument([{ name: file, mutate: true, content }], options);
    mkdirSync(FOUND, { recursive: true });
    writeFileSync(kept, JSON.stringify(mutants));
    return placed(file, content, mutants);
  };
}

function install(): void {
  mkdirSync(PLACE, { recursive: true });
  const args = ["install", "--prefix", PLACE, "--no-save", "--silent", `${PACKAGE}@${VERSION}`];
  const { status } = spawnSync("npm", args, { stdio: "inherit" });
  if (status !== 0)
    throw new Error(`Cannot install ${PACKAGE}@${VERSION}: is npm's registry there?`);
}

/** The mutants of `text` by offsets; lines and columns of those found count from zero. */
export function placed(file: string, text: string, found: readonly Found[]): Mutant[] {
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
  const offsetOf = ({ line, column }: Position) => (starts[line] ?? 0) + column;
  return found.map(({ mutatorName, replacement, location: { start, end } }, index) => {
    const [from, to] = [offsetOf(start), offsetOf(end)];
    const [first = ""] = text.slice(from, to).split("\n");
    const change = `${first} -> ${replacement.replaceAll(/\s+/g, " ") || "nothing"}`;
    const told = `${start.line + 1}: ${change} (${mutatorName})`;
    return {
      file,
      index,
      of: found.length,
      from,
      to,
      after: withBrackets(mutatorName, replacement),
      told,
    };
  });
}

/** An operator may bind otherwise than the one whose place it takes: `a && b && c`, `!(a || b)`. */
function withBrackets(mutatorName: string, code: string): string {
  const changesOperators = ["LogicalOperator", "BooleanLiteral", "ArithmeticOperator"];
  return changesOperators.includes(mutatorName) ? `(${code})` : code;
}

/** The text of its file with the mutant in it. */
export function mutated(text: string, { from, to, after }: Mutant): string {
  return text.slice(0, from) + after + text.slice(to);
}
