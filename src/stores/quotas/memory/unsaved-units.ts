import type { WindowCounts } from "../../../core/quota/window-count.ts";
import { accountId } from "../account-ref.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { DayCounts } from "./day-counts.ts";
import { readState, type SavedAccount } from "./state-file.ts";

/** The counts in memory, and the file with those of the last write. */
export type UnsavedInputs = {
  readonly stateFile: string;
  readonly accounts: Iterable<SavedAccount>;
  readonly days: DayCounts;
};

/**
 * The units of each account that the files lack, at least: a window that ended before the last write
 * failed may have had more. Empty if the files cannot be read.
 */
export async function unsavedUnits(inputs: UnsavedInputs): Promise<UncertainCharge[]> {
  try {
    const saved = new Map(
      (await readState(inputs.stateFile)).map((one) => [accountId(one), one.state.usage]),
    );
    const ofDays = await inputs.days.unsavedUnits();
    return [...inputs.accounts].map(({ environment, account, state }) => {
      const accountRef = { environment, account };
      const id = accountId(accountRef);
      const { plan, meters } = missing(state.usage, saved.get(id) ?? {});
      const units = Math.max(plan, ofDays.get(id) ?? 0);
      return { accountRef, units, meters };
    });
  } catch {
    return [];
  }
}

/** The most that one window lacks: of the plan, and of each meter. */
function missing(now: WindowCounts, saved: WindowCounts) {
  let plan = 0;
  const meters = new Map<string, number>();
  for (const [counter, counted] of Object.entries(now)) {
    if (counted === undefined) continue;
    const before = saved[counter];
    const isSame = before?.startMs === counted.startMs;
    const units = counted.count - (isSame ? before.count : 0);
    const [, meter] = /^#(.+)\./.exec(counter) ?? [];
    if (meter !== undefined) meters.set(meter, Math.max(meters.get(meter) ?? 0, units));
    else if (!counter.includes(".")) plan = Math.max(plan, units);
  }
  return { plan, meters: [...meters].map(([name, units]) => ({ name, units })) };
}
