/** Stryker's report of one file (the mutation testing report schema, as far as it is read here). */
export type Mutated = { readonly source: string; readonly mutants: readonly Mutant[] };

type Place = { readonly line: number; readonly column: number };
type Mutant = {
  readonly status: string;
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly location: { readonly start: Place; readonly end: Place };
};

/** A test failed, or never came to an end. */
const KILLED = ["Killed", "Timeout"];
const ALIVE = ["Survived", "NoCoverage"];

/** Mutants that were ignored or could not run count neither way; a file without any is whole. */
export function scoreOf({ mutants }: Mutated): { percent: number; killed: number; total: number } {
  const killed = mutants.filter(({ status }) => KILLED.includes(status)).length;
  const total = killed + mutants.filter(({ status }) => ALIVE.includes(status)).length;
  return { percent: total === 0 ? 100 : (100 * killed) / total, killed, total };
}

/** A line for each mutant that no test noticed: `FILE:LINE: CODE -> CHANGED (MUTATOR)`. */
export function survivors(file: string, { source, mutants }: Mutated): string[] {
  const lines = source.split("\n");
  return mutants
    .filter(({ status }) => ALIVE.includes(status))
    .map(({ mutatorName, replacement = "", location: { start, end } }) => {
      const line = lines[start.line - 1] ?? "";
      const lastColumn = end.line === start.line ? end.column - 1 : line.length;
      const code = line.slice(start.column - 1, lastColumn);
      return `${file}:${start.line}: ${code} -> ${oneLine(replacement)} (${mutatorName})`;
    });
}

function oneLine(code: string): string {
  return code.replaceAll(/\s+/g, " ");
}
