import { inSlices, nextTurn } from "../../../base/event-loop.ts";
import type { AccountRecord, KeyRecord } from "../../../core/keys/records.ts";

/** Records sorted before the event loop continues: a millisecond or two. */
const AT_ONCE = 2_000;

/** Sorts oldest first, as in a file. 100,000 records are sorted in many turns of the event loop. */
export async function sortByAge<T extends KeyRecord | AccountRecord>(
  records: readonly T[],
): Promise<readonly T[]> {
  let runs: T[][] = [];
  for (let from = 0; from < records.length; from += AT_ONCE) {
    runs.push(records.slice(from, from + AT_ONCE).sort(byAge));
    await nextTurn();
  }
  while (runs.length > 1) {
    const longer: T[][] = [];
    for (let i = 0; i < runs.length; i += 2) {
      longer.push(await merged(runs[i] as T[], runs[i + 1] ?? []));
    }
    runs = longer;
  }
  return runs[0] ?? [];
}

type DatedRecord = { readonly id: string; readonly createdMs: number };

function byAge(a: DatedRecord, b: DatedRecord): number {
  return a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1);
}

async function merged<T extends DatedRecord>(one: readonly T[], other: readonly T[]): Promise<T[]> {
  const all: T[] = [];
  await inSlices(inTurns(one, other), (record) => all.push(record));
  return all;
}

/** The records of two sorted lists, merged oldest first. */
function* inTurns<T extends DatedRecord>(one: readonly T[], other: readonly T[]): Generator<T> {
  for (let [i, j] = [0, 0]; i < one.length || j < other.length; ) {
    const [first, second] = [one[i], other[j]];
    const isFirst = second === undefined || (first !== undefined && byAge(first, second) < 0);
    yield (isFirst ? first : second) as T;
    if (isFirst) i += 1;
    else j += 1;
  }
}
