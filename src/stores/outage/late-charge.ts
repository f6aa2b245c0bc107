import { runScript, type SharedStore } from "../redis/decider.ts";
import { accountScript } from "../redis/script.ts";
import { fieldOfCounter } from "../redis/window-fields.ts";
import type { Owed } from "./debts.ts";

const LATE_CHARGE = accountScript("late-charge");

/**
 * Charges what accounts of one call owe, each unit to the window it was admitted in
 * (docs/reference/store.md#late-charges); a window that is over counts for nothing any more.
 * Returns, for each unit group of each account in order, the count of that window then, or
 * undefined where it is over. Rejects with StoreFailure.
 */
export async function lateCharge(
  { link, keyOf }: Pick<SharedStore, "link" | "keyOf">,
  owed: readonly Owed[],
  clock?: () => number,
): Promise<(number | undefined)[][]> {
  const keys = owed.map(({ name }) => keyOf(name));
  const texts = owed.map(({ units }) => {
    return units
      .map((each) => `${fieldOfCounter(each.counter)} ${each.startMs} ${each.units}`)
      .join(" ");
  });
  const args = [keys.length, ...keys, clock ? clock() : -1, ...texts];
  const counts = (await runScript(link, LATE_CHARGE, keys[0] as string, args)) as number[];
  let at = 0;
  return owed.map(({ units }) => {
    return units.map(() => {
      const count = counts[at++] as number;
      return count < 0 ? undefined : count;
    });
  });
}
