import type { AccountRef } from "../account-ref.ts";
import type { LostCount } from "../count-corrections.ts";
import { metersKey } from "./account-key.ts";
import type { QuotaClient } from "./quota-client.ts";
import { counterField } from "./window-fields.ts";

/**
 * Whether the window of a count was reset since it counted as much: see lua/lowered.lua. Rejects with
 * StoreFailure.
 */
export async function wasReset(
  { ask, keyOf }: Pick<QuotaClient, "ask" | "keyOf">,
  accountRef: AccountRef,
  { counter, countedMs }: Pick<LostCount, "counter" | "countedMs">,
): Promise<boolean> {
  const field = counterField(counter);
  const key = keyOf(accountRef);
  const text = await ask("hget", field.startsWith("#") ? metersKey(key) : key, ["r"]);
  const words = String(text ?? "").split(" ");
  return words.some((word, i) => {
    return i % 3 === 0 && word === field && Number(words[i + 2]) >= countedMs;
  });
}
