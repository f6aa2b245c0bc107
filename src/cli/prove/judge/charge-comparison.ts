import { setTimeout as sleep } from "node:timers/promises";
import { isObject } from "../../../base/is-object.ts";
import type { UsageReport } from "../../../core/keys/usage-reports.ts";
import { DAY_MS } from "../../../core/quota/days.ts";
import type { DayReport } from "../../../stores/queries/read-history.ts";
import { PROOF_HISTORY_PATH } from "../trial/workload.ts";
import type { PromiseChecker } from "./checker.ts";

/** Units by which the store differs from what was admitted. */
export type ChargeComparison = {
  readonly chargesLost: number;
  readonly chargesDoubled: number;
  /** Units that were charged twice and that a gateway reported as uncertain. */
  readonly uncertain: number;
  readonly historyLost: number;
  readonly historyDoubled: number;
  /**
   * Units that a killed gateway had admitted without the store and not charged yet: at most those of
   * its last moments. The others are lost charges.
   */
  readonly killLost: number;
};

type ComparisonInputs = {
  /** The admin listener of a gateway. */
  readonly adminUrl: string;
  readonly accounts: readonly string[];
  readonly checker: Pick<PromiseChecker, "admittedOf" | "unansweredOf">;
  /** Units that gateways have reported as possibly charged twice. */
  readonly uncertain: () => number;
  /** The most units of an account that a killed gateway had not charged. */
  readonly killLostOf: (account: string) => number;
  /** The time in which late charges may still arrive. */
  readonly waitMs: number;
};

/**
 * The counts of the days and the history must have everything that was admitted. They may have more,
 * but at most the units of requests that were never answered.
 */
export async function compareCharges(inputs: ComparisonInputs): Promise<ChargeComparison> {
  const { adminUrl, accounts, checker, uncertain, killLostOf, waitMs } = inputs;
  const untilMs = Date.now() + waitMs;
  for (;;) {
    const history = await readHistory(adminUrl);
    const found = { lost: 0, doubled: 0, historyLost: 0, historyDoubled: 0, killLost: 0 };
    for (const account of accounts) {
      const today = await readToday(adminUrl, account);
      const days = history.get(account) ?? [];
      const kept = days.reduce((sum, { units }) => sum + units, 0);
      // At midnight UTC the count of the day began again.
      const over = days.filter(({ day }) => Date.parse(day) < today.fromMs);
      const used = over.reduce((sum, { units }) => sum + units, today.used);
      const admitted = checker.admittedOf(account);
      const most = admitted + checker.unansweredOf(account);
      const excused = killLostOf(account);
      found.lost += Math.max(0, admitted - excused - used);
      found.doubled += Math.max(0, used - most);
      found.historyLost += Math.max(0, admitted - excused - kept);
      found.killLost += Math.min(excused, Math.max(0, admitted - Math.min(used, kept)));
      found.historyDoubled += Math.max(0, kept - most);
    }
    const { lost: chargesLost, doubled, historyLost, historyDoubled, killLost } = found;
    const over = Math.max(doubled, historyDoubled) - uncertain();
    // Units that were admitted during the outage are charged a moment later, and those of late
    // replies are taken back.
    if (chargesLost + historyLost + Math.max(0, over) === 0 || Date.now() > untilMs) {
      return {
        ...{ chargesLost, historyLost, killLost, uncertain: Math.min(uncertain(), doubled) },
        chargesDoubled: Math.max(0, doubled - uncertain()),
        historyDoubled: Math.max(0, historyDoubled - uncertain()),
      };
    }
    await sleep(100);
  }
}

type DayUnits = Pick<DayReport, "account" | "day" | "units">;

/** The days of a proof by account; empty if the planted fault is a missing history. */
async function readHistory(adminUrl: string): Promise<ReadonlyMap<string, DayUnits[]>> {
  const response = await fetch(`${adminUrl}${PROOF_HISTORY_PATH}`);
  if (response.status === 409) return new Map();
  if (!response.ok) throw await unreadable("the usage by day", response);
  return Map.groupBy((await response.json()) as DayUnits[], ({ account }) => account);
}

/** The count of the running day, and when that began. */
async function readToday(
  adminUrl: string,
  account: string,
): Promise<{ readonly used: number; readonly fromMs: number }> {
  const response = await fetch(`${adminUrl}/api/usage/${account}`);
  if (!response.ok) throw await unreadable(`the usage of ${account}`, response);
  const { windows } = (await response.json()) as Pick<UsageReport, "windows">;
  const day = windows.find(({ window }) => window === "day");
  return { used: day?.used ?? 0, fromMs: (day?.reset ?? 0) * 1_000 - DAY_MS };
}

/** The mistake of an answer without a result. A store that is gone for good leaves nothing to compare. */
async function unreadable(what: string, response: Response): Promise<Error> {
  const body: unknown = await response.json().catch(() => undefined);
  const told = isObject(body) && typeof body.message === "string" ? body.message : undefined;
  const why = `Cannot compare the charges: cannot read ${what}: ${told ?? response.status}`;
  const isAway = response.status === 503;
  return new Error(isAway ? `${why}. Start the store again, and then the proof` : why);
}
