import { measureSlice, type Slice, type SliceOptions } from "./slice.ts";

/** One thing to measure, again in every round. */
export type Case = { readonly id: string; readonly slice: SliceOptions };

export type RoundOptions = {
  readonly rounds: number;
  readonly sliceMs: number;
  say(text: string): void;
};

/** The slices of one case, and why those that are missing were spoilt. */
export type Found = { readonly slices: Slice[]; readonly failures: string[] };

/**
 * Measures every case once a round, each round in an order of its own, so that a change of the
 * machine's mood meets all of them alike.
 */
export async function runRounds(
  cases: readonly Case[],
  { rounds, sliceMs, say }: RoundOptions,
): Promise<Map<string, Found>> {
  const found = new Map(cases.map(({ id }) => [id, { slices: [], failures: [] } as Found]));
  const startMs = performance.now();
  for (let round = 1; round <= rounds; round++) {
    const leftMs = ((performance.now() - startMs) / (round - 1)) * (rounds - round + 1);
    const left = round === 1 ? "" : `, ${Math.ceil(leftMs / 1000)} s to go`;
    say(`round ${round} of ${rounds}: ${cases.length} slices of ${sliceMs} ms${left}`);
    for (const { id, slice } of shuffled(cases)) {
      try {
        found.get(id)?.slices.push(await measureSlice(slice, sliceMs));
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        found.get(id)?.failures.push(why);
        say(`${id}: a slice is spoilt: ${why}`);
      }
    }
  }
  return found;
}

/** Fisher and Yates. */
function shuffled<T>(list: readonly T[]): T[] {
  const copy = [...list];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [copy[i], copy[j]] = [copy[j] as T, copy[i] as T];
  }
  return copy;
}
