import type { SharedStore } from "../redis/decider.ts";
import { accountScript } from "../redis/script.ts";
import { fieldOfCounter } from "../redis/window-fields.ts";
import type { Owed } from "./debts.ts";

const LATE_CHARGE = accountScript("late-charge");

/**
 * Charges accounts of one call what they owe, each unit to the window that it was admitted in
 * (docs/reference/store.md#late-charges); a window that is over counts for nothing any more. Nothing
 * is charged where the store comes to the call after `giveUpMs` on performance.now(). Gives, for each
 * counter of each account in order, its count then, or undefined where the window is over. Rejects
 * with StoreFailure.
 */
export async function lateCharge(
  { runOn, keyOf }: Pick<SharedStore, "runOn" | "keyOf">,
  owed: readonly Owed[],
  giveUpMs: number,
): Promise<(number | undefined)[][]> {
  const keys = owed.map(({ name }) => keyOf(name));
  const texts = owed.map(({ units }) => {
    const parts = units.map((one) => `${fieldOfCounter(one.counter)} ${one.startMs} ${one.units}`);
    return parts.join(" ");
  });
  const counts = (await runOn(LATE_CHARGE, keys, texts, giveUpMs)) as number[];
  let at = 0;
  return owed.map(({ units }) => {
    return units.map(() => {
      const count = counts[at++] as number;
      return count < 0 ? undefined : count;
    });
  });
}
