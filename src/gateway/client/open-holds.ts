import type { WindowUsage } from "../../core/quota/decide.ts";
import type { Holds } from "../../core/quota/meters.ts";
import { counterName } from "../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { HeardReset } from "../../stores/quotas/admin-changes.ts";

/**
 * The units that requests in progress hold in the windows of meters, in this process. From them
 * follows `meter_held` (docs/reference/meters.md#what-a-client-sees), which is a hint: other
 * gateways may hold units too.
 */
export class OpenHolds {
  readonly #units = new Map<string, number>();
  /** By account: the windows in which each of its requests still holds units. */
  readonly #open = new Map<string, Map<Holds, readonly WindowUsage[]>>();

  add(accountRef: AccountRef, holds: Holds): void {
    const id = accountId(accountRef);
    const open = this.#open.get(id) ?? new Map<Holds, readonly WindowUsage[]>();
    this.#open.set(id, open.set(holds, holds.windows));
    this.#count(id, holds.windows, 1);
  }

  /** Takes out the holds of a request that ends. */
  remove(accountRef: AccountRef, holds: Holds): void {
    const id = accountId(accountRef);
    const open = this.#open.get(id);
    this.#count(id, open?.get(holds) ?? [], -1);
    open?.delete(holds);
    if (open?.size === 0) this.#open.delete(id);
  }

  /** Takes out what was held before a reset, because a settlement gives none of it back. */
  reset({ accountRef, atMs, counters }: HeardReset): void {
    const id = accountId(accountRef);
    const open = this.#open.get(id);
    if (open === undefined) return;
    const isReset = (usage: WindowUsage) => counters.includes(counterName(usage));
    for (const [holds, windows] of open) {
      if (holds.decidedMs > atMs) continue;
      this.#count(id, windows.filter(isReset), -1);
      open.set(
        holds,
        windows.filter((usage) => !isReset(usage)),
      );
    }
  }

  /** The units that are held in a window. */
  unitsIn(accountRef: AccountRef, usage: WindowUsage): number {
    return this.#units.get(keyOf(accountId(accountRef), usage)) ?? 0;
  }

  #count(id: string, windows: readonly WindowUsage[], sign: 1 | -1): void {
    for (const usage of windows) {
      const key = keyOf(id, usage);
      const units = (this.#units.get(key) ?? 0) + sign * (usage.hold ?? 0);
      if (units > 0) this.#units.set(key, units);
      else this.#units.delete(key);
    }
  }
}

function keyOf(id: string, usage: WindowUsage): string {
  return `${id} ${counterName(usage)} ${usage.resetMs}`;
}
