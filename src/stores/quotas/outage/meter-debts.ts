import { heldUnits } from "../../../core/quota/meters.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import type { LostSettlement } from "../settlement-lost.ts";

/**
 * Units of a meter for the usage of a day; below 0 they are taken back. `ids` are those of the
 * requests that were settled, and `cancelled` those of another debt that this one cancels.
 */
export type MeterDebt = LostSettlement & { readonly cancelled?: readonly string[] };

/** The units that requests take from each meter of the windows, on a day. */
export function metersOf(limits: readonly Limit[], day: number, requests: number): MeterDebt[] {
  return heldUnits(limits).map(({ name, units }) => {
    return { day, meter: name, units: requests * units, ids: [] };
  });
}

/** So many requests are named where the settlement of a meter on a day is lost. */
const IDS_MAX = 20;

/** Adds to the debt of the same meter and day. */
export function addMeter(
  meters: MeterDebt[],
  { day, meter, units, ids, cancelled = [] }: MeterDebt,
): void {
  const at = meters.findIndex((one) => one.day === day && one.meter === meter);
  const found = meters[at] ?? { units: 0, ids: [] };
  const all = [...found.ids, ...ids].filter((id) => !cancelled.includes(id));
  const sum = { day, meter, units: found.units + units, ids: all.slice(0, IDS_MAX) };
  meters[at < 0 ? meters.length : at] = sum;
}
