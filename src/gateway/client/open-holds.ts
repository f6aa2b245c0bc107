import type { WindowUsage } from "../../core/quota/decide.ts";
import type { Holds } from "../../core/quota/meters.ts";
import { counterName } from "../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";

/**
 * The units that requests in progress hold in the windows of meters, in this process. From them
 * follows `meter_held` (docs/reference/meters.md#what-a-client-sees), which is a hint: other
 * gateways may hold units too.
 */
export class OpenHolds {
  readonly #units = new Map<string, number>();

  /** Adds the holds of a request, or takes them out again when it ends. */
  add(accountRef: AccountRef, { windows }: Holds, sign: 1 | -1): void {
    for (const usage of windows) {
      const key = keyOf(accountRef, usage);
      const units = (this.#units.get(key) ?? 0) + sign * (usage.hold ?? 0);
      if (units > 0) this.#units.set(key, units);
      else this.#units.delete(key);
    }
  }

  /** The units that are held in a window. */
  unitsIn(accountRef: AccountRef, usage: WindowUsage): number {
    return this.#units.get(keyOf(accountRef, usage)) ?? 0;
  }
}

function keyOf(accountRef: AccountRef, usage: WindowUsage): string {
  return `${accountId(accountRef)} ${counterName(usage)} ${usage.resetMs}`;
}
