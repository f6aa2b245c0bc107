import type { UsageReport } from "../../core/keys/reports.ts";
import { WINDOW_NAMES, type WindowName, windowStart } from "../../core/quota/windows.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { Ledger } from "./ledger.ts";

/** One running window of an account, as the log, the store and the gateways tell it. */
export type Balance = {
  readonly account: string;
  readonly environment: string;
  readonly window: WindowName;
  /** Units that the lines of the log charged. */
  readonly charged: number;
  /** Units that the store counted. */
  readonly counted: number;
  /** Units that were counted, and set to 0 by an operator. */
  readonly reset: number;
  /** Units of requests under way, which have no line yet. */
  readonly open: number;
  /** Units that nothing accounts for: above 0 the store has more, below 0 less. */
  readonly drift: number;
};

/** `charged + open = counted + reset` in each running window, or there is drift. */
export function balances(
  reports: readonly UsageReport[],
  ledger: Ledger,
  openCharges: readonly OpenCharge[],
): readonly Balance[] {
  const open = Map.groupBy(openCharges, ({ environment, account }) => `${environment}:${account}`);
  return reports.flatMap(({ account, environment, windows }) => {
    const own = open.get(`${environment}:${account}`) ?? [];
    return windows.flatMap(({ window: label, used: counted, reset: endSeconds }): Balance[] => {
      const window = WINDOW_NAMES.find((name) => name === label);
      if (window === undefined) return [];
      const endMs = endSeconds * 1_000;
      const startMs = windowStart(window, endMs - 1);
      const { charged, reset } = ledger.of(environment, account, window, startMs);
      const underWay = own
        .filter(({ decidedAt }) => decidedAt >= startMs && decidedAt < endMs)
        .reduce((sum, { units }) => sum + units, 0);
      const drift = counted + reset - charged - underWay;
      return [{ account, environment, window, charged, counted, reset, open: underWay, drift }];
    });
  });
}
