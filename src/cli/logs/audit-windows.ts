import type { CountReport } from "../../core/keys/usage-reports.ts";
import { dayOf } from "../../core/quota/days.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import { type AskedPeriod, type AuditInputs, evidenceIn } from "./audit-periods.ts";
import {
  type Balance,
  type CountTolerance,
  type Evidence,
  fewerByChanges,
  judge,
} from "./balance.ts";
import type { ConfigHistory } from "./config-history.ts";
import type { Incidents } from "./incidents.ts";
import { capOf, meterOfWindow, newSum, type PeriodSum } from "./ledger.ts";
import type { Period } from "./log-span.ts";

/** Judges, for each account, each window that was current when the store was asked. */
export function windowBalances(inputs: AuditInputs, asked: AskedPeriod | undefined): Balance[] {
  const found: Balance[] = [];
  for (const { counts } of inputs.ledger.accounts) {
    if (counts === undefined) continue;
    for (const counted of counts.windows) {
      if (isAskedWindow(asked, counted.window, counts.at)) {
        const balance = windowBalance(inputs, counts, counted);
        if (balance !== undefined) found.push(balance);
      }
    }
  }
  return found;
}

/** Whether a period is a current window, not a day that is over. The ID of an operation may begin with a digit. */
export function isWindow(period: string): boolean {
  return !/^\d{4}-\d\d-\d\d(?: |$)/.test(period);
}

/** A current day or month that was asked for is compared by the windows of that length. */
function isAskedWindow(asked: AskedPeriod | undefined, window: string, atMs: number): boolean {
  if (asked === undefined) return true;
  const today = dayOf(atMs);
  return asked.length === lengthOf(window) && today >= asked.from && today <= asked.to;
}

/** `day` of `day`, `createPet.day`, `tokens.day` and `key.day of k_1`. */
function lengthOf(window: string): string {
  const label = capOf(window);
  return label.slice(label.lastIndexOf(".") + 1);
}

function windowBalance(
  inputs: AuditInputs,
  counts: CountReport,
  { window, used, from, keys }: CountReport["windows"][number],
): Balance | undefined {
  const { ledger, incidents, alive } = inputs;
  const { account, environment, plan, at } = counts;
  const accountRef = { account, environment };
  const known = ledger.of(environment, account);
  const sum = known?.windows.get(window) ?? newSum();
  if (used === 0 && sum.charged + sum.atEdge + sum.reset === 0) return undefined;
  const period = { fromMs: from, toMs: at + 1 };
  const meter = meterIn(inputs, accountRef, window);
  const { lost } = known?.meters.get(meter ?? "") ?? {};
  const ofPlan = (each: string) => planHas(inputs.config, each, window, meter);
  const config = incidents.configs.lastIn(period);
  const terms = withPresent(sum, plan, config);
  const isOfOperation = keys === undefined && meter === undefined && window.includes(".");
  if (isOfOperation && !inputs.hasDescriptions) {
    const units = { charged: 0, counted: used, reset: sum.reset, open: 0, drift: 0 };
    return { ...accountRef, window, ...units, verdict: "not compared", why: UNDESCRIBED };
  }
  const isChanged = !ofPlan(plan) && incidents.mayHaveBegun(window, accountId(accountRef), period);
  const away = incidents.awayIn(accountRef, period, alive);
  const isAway = away.some(({ toMs }) => toMs === Number.POSITIVE_INFINITY);
  // No open charge tells its operation or its key.
  const isOfAll = keys === undefined && !isOfOperation;
  // A window that came with another plan or configuration lacks what was decided before.
  const isCounted = (one: OpenCharge) =>
    isOfAll &&
    !(isChanged || isAway) &&
    (one.plan === undefined || one.plan === plan || ofPlan(one.plan)) &&
    (one.config === undefined || config === undefined || one.config === config.name);
  const isNewCap = keys?.some((key) => incidents.mayHaveBegun(capOf(window), key, period));
  const changes = [
    ...fewerByChanges(terms, ofPlan, incidents.configs.recountsIn(period)),
    ...(isChanged ? [{ from: 0, to: sum.charged, why: OWN_LIMIT }] : []),
    ...fewerByOwnLimit(terms, ofPlan, (isOnPlan) =>
      incidents.mayHaveBegun(window, accountId(accountRef), period, isOnPlan),
    ),
    ...(isNewCap ? [{ from: 0, to: sum.charged, why: NEW_CAP }] : []),
  ];
  const evidence = {
    ...evidenceIn(inputs, { accountRef, meter, period, runs: true, sum }, isCounted),
    counted: used,
    setBack: counts.moved || incidents.hasMoved(accountRef, period) ? sum.ahead : 0,
    mayLackReset: incidents.mayLackReset(period),
    settlementLost: lost && unitsLostIn(lost, period),
    unsettled: unsettledAtResets(sum, accountRef, incidents),
    fewer: incidents.hasForgotten(accountRef, period) ? [] : changes,
  };
  const lacking = away.length > 0 ? fewerByOutage(evidence, isAway ? AWAY : KILLED_AWAY) : [];
  const fewer = [...evidence.fewer, ...lacking];
  return { ...accountRef, window, ...judge({ ...evidence, fewer }) };
}

/**
 * A limit of the account's own may have added the window on a plan that lacks it, before the account
 * came to one that has it: this one counts all that it charged.
 */
function fewerByOwnLimit(
  { charged, atEdge, plans }: PeriodSum,
  ofPlan: (plan: string) => boolean,
  mayHaveBegun: (isOnPlan: (plan: string) => boolean) => boolean,
): CountTolerance[] {
  if (!mayHaveBegun((plan) => !ofPlan(plan))) return [];
  const having = [...plans].filter(([plan]) => ofPlan(plan));
  const units = having.reduce((sum, [, each]) => sum + each, 0);
  return [{ from: units - atEdge, to: charged, why: OWN_LIMIT }];
}

const OWN_LIMIT = "the account was changed, which may have added the window";

/** The store may lack what was charged while a gateway was away that has not charged it yet. */
function fewerByOutage(evidence: Evidence, away: string): CountTolerance[] {
  const { sum, lost, settlementLost = 0, unsettled = 0, fewer } = evidence;
  const untold = sum.away.length > 0 ? sum.whileAway : sum.charged;
  const units = untold + lost + settlementLost + unsettled;
  const all = sum.charged;
  const lacking = [
    { from: all, to: all, why: away },
    ...fewer.map((one) => ({ ...one, why: `${one.why}, and ${away}` })),
  ];
  return lacking.map((one) => ({ ...one, from: one.from - units, hasTold: true }));
}

const AWAY = "a gateway is away from the store";
const KILLED_AWAY = "a gateway ended while the store was away";

/** The plan and the configuration of today may be other than those of all lines. */
function withPresent(
  sum: PeriodSum,
  plan: string,
  config: ReturnType<ConfigHistory["lastIn"]>,
): PeriodSum {
  const plans = new Map([[plan, 0], ...sum.plans]);
  const configs = new Map(sum.configs);
  if (config !== undefined) {
    const { atMs } = config;
    const known = configs.get(config.name) ?? { units: 0, firstMs: atMs, lastMs: atMs };
    configs.set(config.name, { ...known, lastMs: Math.max(known.lastMs, atMs) });
  }
  return { ...sum, plans, configs };
}

const UNDESCRIBED = "the operations of the gateway are not known, as its file cannot be used";

const NEW_CAP = "the cap of the key was set in the window";

/** The meter of a window such as `tokens.minute`; undefined for windows of plans and operations. */
function meterIn(
  { config, ledger, openBefore }: AuditInputs,
  { environment, account }: AccountRef,
  window: string,
) {
  const meter = meterOfWindow(window);
  const isKnown =
    ledger.of(environment, account)?.meters.has(meter) === true ||
    openBefore.some(({ meters }) => meters?.[meter] !== undefined) ||
    [...config.planBounds.values()].some(({ meters }) => meters.some(({ name }) => name === meter));
  return isKnown ? meter : undefined;
}

/** The units of a meter that lines tell as lost settlements, which no window has. */
function unitsLostIn(lost: ReadonlyMap<number, number>, { fromMs, toMs }: Period): number {
  return [...lost]
    .filter(([day]) => day >= dayOf(fromMs) && day <= dayOf(toMs))
    .reduce((sum, [, each]) => sum + Math.abs(each), 0);
}

/**
 * Units by which the window of a meter may differ from the lines because a window that was reset
 * takes no settlement of what was held before. A gateway settles nothing during an outage.
 */
function unsettledAtResets(
  { resetsMs, settling }: PeriodSum,
  accountRef: AccountRef,
  incidents: Incidents,
): number {
  return resetsMs.reduce((sum, atMs) => {
    return sum + settling.unsettledIn(incidents.awaySince(accountRef, atMs), atMs);
  }, 0);
}

/**
 * Whether accounts of a plan count a window, in force or observed. A window of an operation is not
 * part of a plan and always exists.
 */
function planHas(
  { plans, planBounds }: AuditInputs["config"],
  plan: string,
  window: string,
  meter: string | undefined,
): boolean {
  const own = plans.get(plan);
  if (own === undefined || (meter === undefined && window.includes("."))) return true;
  const { meters = [], observe = [] } = planBounds.get(plan) ?? {};
  const metered = meters.find(({ name }) => name === meter)?.limits ?? [];
  const limits = own === "custom" ? observe : [...own, ...observe];
  return (meter === undefined ? limits : metered).some(
    (limit) => limit.window === lengthOf(window),
  );
}
