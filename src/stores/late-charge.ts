import { readFileSync } from "node:fs";
import type { Owed } from "./local-accounts.ts";
import { script } from "./redis-script.ts";
import type { SharedStore } from "./redis-shared.ts";

function read(file: string): string {
  return readFileSync(new URL(file, import.meta.url), "utf8");
}

const LATE_CHARGE = script(`${read("./account.lua")}\n${read("./late-charge.lua")}`);
const LETTER = { second: "s", minute: "m", hour: "h", day: "d", month: "M" } as const;

/**
 * Charges what accounts of one call owe, each unit to the window it was admitted in (contract 8); a
 * window that is over counts for nothing any more. Rejects with StoreFailure.
 */
export async function lateCharge(
  { link, keyOf }: SharedStore,
  owed: readonly Owed[],
  clock?: () => number,
): Promise<void> {
  const keys = owed.map(({ name }) => keyOf(name));
  const texts = owed.map(({ windows }) => {
    const parts = [...windows].flatMap(([window, starts]) =>
      [...starts].map(([startMs, units]) => `${LETTER[window]} ${startMs} ${units}`),
    );
    return parts.join(" ");
  });
  const args = [keys.length, ...keys, clock ? clock() : -1, ...texts];
  const [first = ""] = keys;
  try {
    await link.send(first, "evalsha", [LATE_CHARGE.sha, ...args]);
  } catch (error) {
    if ((error as { code?: string }).code !== "NOSCRIPT") throw error;
    await link.send(first, "eval", [LATE_CHARGE.text, ...args]);
  }
}
