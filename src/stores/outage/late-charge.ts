import type { AccountDebt } from "../quotas/outage/debts.ts";
import { isAddressAccount } from "../quotas/quota-store.ts";
import { accountScript } from "../quotas/redis/account-scripts.ts";
import type { QuotaClient } from "../quotas/redis/quota-client.ts";
import { counterField } from "../quotas/redis/window-fields.ts";

const NOTHING = { requests: 0, units: 0 };
const LATE_CHARGE = accountScript("history", "late-charge");

/**
 * Charges accounts of one call what they owe, each unit to the window that it was admitted in
 * (docs/reference/store.md#late-charges); a window that is over counts for nothing any more. Nothing
 * is charged where the store comes to the call after `giveUpMs` on performance.now(). Gives, for each
 * counter of each account in order, its count then, or undefined where the window is over. Rejects
 * with StoreFailure.
 */
export async function chargeLate(
  { runOn, keyOf, historyMs = 0 }: Pick<QuotaClient, "runOn" | "keyOf" | "historyMs">,
  owed: readonly AccountDebt[],
  giveUpMs: number,
): Promise<(number | undefined)[][]> {
  const keys = owed.map(({ name }) => keyOf(name));
  const texts = owed.map(({ name, units, admitted }) => {
    const parts = units.map((one) => `${counterField(one.counter)} ${one.startMs} ${one.units}`);
    const { requests, units: charged } = isAddressAccount(name) ? NOTHING : admitted;
    return [requests, charged, ...parts].join(" ");
  });
  const args = [historyMs, ...texts];
  const counts = (await runOn(LATE_CHARGE, keys, args, giveUpMs)) as number[];
  let at = 0;
  return owed.map(({ units }) => {
    return units.map(() => {
      const count = counts[at++] as number;
      return count < 0 ? undefined : count;
    });
  });
}
