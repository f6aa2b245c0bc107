/** Names that are further away than this, in edits, are not what was meant. */
const DISTANCE_MAX = 2;

/** ": did you mean start?" for the known name that is closest to a mistyped one, else "". */
export function didYouMean(typed: string, known: readonly string[]): string {
  const max = Math.min(DISTANCE_MAX, Math.floor(typed.length / 2));
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const distance = name.startsWith(typed) && typed.length > 1 ? 1 : edits(typed, name);
    if (distance <= max && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { name, distance };
    }
  }
  return best === undefined ? "" : `: did you mean ${best.name}?`;
}

/** Insertions, deletions, changes and swaps of neighbours that make one text of the other. */
function edits(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    const before = rows[i - 1] as number[];
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1];
      const [above = 0, aside = 0, across = 0] = [before[j], row[j - 1], before[j - 1]];
      let least = Math.min(above + 1, aside + 1, across + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      if (swapped) least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
