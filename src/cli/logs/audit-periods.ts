import { formatCount } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { CountReport } from "../../core/keys/usage-reports.ts";
import { closesMs, DAY_MS, dayOf, formatDay, monthRange } from "../../core/quota/days.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import {
  type Balance,
  type CountTolerance,
  type Evidence,
  fewerByChanges,
  judge,
  unitsWere,
} from "./balance.ts";
import { type DayRow, lateUnits } from "./day-balances.ts";
import type { Incidents } from "./incidents.ts";
import { capOf, type Ledger, meterOfWindow, newSum, type PeriodSum } from "./ledger.ts";
import type { LogSpan, Period } from "./log-span.ts";

/** The period that was asked for; if undefined, all that logs, store and history cover. */
export type AskedPeriod = { readonly day?: number; readonly month?: string };

/** All data of one round of queries. */
export type AuditInputs = {
  readonly config: Pick<Config, "plans" | "planBounds" | "historyMs">;
  readonly ledger: Ledger;
  readonly incidents: Incidents;
  readonly span: LogSpan;
  /** Open charges before the logs were read, and after. */
  readonly openBefore: readonly OpenCharge[];
  readonly openAfter: readonly OpenCharge[];
  /** Why `openBefore` may lack some; undefined if each process of the gateways that run told. */
  readonly openUnknown?: string | undefined;
  /** Gateways that run, each with all its workers, as it has one line `serving`. */
  readonly alive: number;
  /** Whether the operations of lines are known. */
  readonly hasDescriptions: boolean;
};

/** Judges, for each account, each window that was current when the store was asked. */
export function windowBalances(inputs: AuditInputs, asked: AskedPeriod): Balance[] {
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

/**
 * The accounts of the logs whose counts are not known, each with its units in the period that was
 * asked for. `whys` has the reason by account.
 */
export function unknownBalances(
  ledger: Ledger,
  whys: ReadonlyMap<string, string>,
  asked: AskedPeriod,
): Balance[] {
  const range = rangeOf(asked);
  const window = asked.month ?? (asked.day === undefined ? "all periods" : formatDay(asked.day));
  return [...ledger.accounts].flatMap(({ account, environment, days }): Balance[] => {
    const why = whys.get(`${environment}:${account}`);
    const charged = [...days]
      .filter(([day]) => range === undefined || (day >= range.from && day <= range.to))
      .reduce((sum, [, each]) => sum + each.charged, 0);
    if (why === undefined || charged === 0) return [];
    const units = { charged, counted: 0, reset: 0, open: 0, drift: 0 };
    const told = `its counts are not known: ${why}`;
    return [{ account, environment, window, ...units, verdict: "not compared", why: told }];
  });
}

/** Whether a period is a current window, not a day that is over. The ID of an operation may begin with a digit. */
export function isWindow(period: string): boolean {
  return !/^\d{4}-\d\d-\d\d(?: |$)/.test(period);
}

/**
 * A current day or month that was asked for is compared by the windows of that length: those of the
 * plan, and such as `createPet.day`, `tokens.day` and `key.day of k_1`.
 */
function isAskedWindow(asked: AskedPeriod, window: string, atMs: number): boolean {
  const range = rangeOf(asked);
  if (range === undefined) return true;
  const [label = ""] = window.split(" ");
  const length = label.slice(label.lastIndexOf(".") + 1);
  const today = dayOf(atMs);
  const isCurrent = today >= range.from && today <= range.to;
  const isOfLength = asked.day === undefined ? length === "month" : length === "day";
  return isCurrent && isOfLength;
}

/** The period that was asked for, where it is not over: why nothing in it was compared. */
export function openPeriod(asked: AskedPeriod, nowMs: number) {
  const range = rangeOf(asked);
  const today = dayOf(nowMs);
  if (range === undefined || range.to < today) return [];
  const why =
    range.from > today ? "it has not begun" : "it is not over, and no window of its length counts";
  return [{ window: asked.month ?? formatDay(range.from), why }];
}

function rangeOf({ day, month }: AskedPeriod) {
  if (day !== undefined) return { from: day, to: day };
  return month === undefined ? undefined : monthRange(month);
}

function windowBalance(
  inputs: AuditInputs,
  counts: CountReport,
  { window, used, from, keys }: CountReport["windows"][number],
): Balance | undefined {
  const { ledger, incidents, span, alive } = inputs;
  const { account, environment, plan, created, at } = counts;
  const accountRef = { account, environment };
  const sum = ledger.of(environment, account)?.windows.get(window) ?? newSum();
  if (used === 0 && sum.charged + sum.atEdge + sum.reset === 0) return undefined;
  const period = { fromMs: from, toMs: at + 1 };
  const meter = meterIn(inputs, accountRef, window);
  const { lost } = ledger.of(environment, account)?.meters.get(meter ?? "") ?? {};
  const ofPlan = (each: string) => planHas(inputs.config, each, window, meter);
  const config = incidents.configIn(period);
  const terms = withPresent(sum, plan, config);
  const isOfOperation = keys === undefined && meter === undefined && window.includes(".");
  if (isOfOperation && !inputs.hasDescriptions) {
    const units = { charged: 0, counted: used, reset: sum.reset, open: 0, drift: 0 };
    return { ...accountRef, window, ...units, verdict: "not compared", why: UNDESCRIBED };
  }
  const isChanged = !ofPlan(plan) && incidents.mayHaveBegun(window, accountId(accountRef), period);
  const isAway = incidents.isAway(accountRef, period, alive);
  // No open charge tells its operation or its key.
  const isOfAll = keys === undefined && !isOfOperation;
  // A window that came with another plan or configuration lacks what was decided before.
  const isCounted = (one: OpenCharge) =>
    isOfAll &&
    !(isChanged || isAway) &&
    (one.plan === undefined || one.plan === plan || ofPlan(one.plan)) &&
    (one.config === undefined || config === undefined || one.config === config.name);
  const change = "the account was changed, which may have added the window";
  const isNewCap = keys?.some((key) => incidents.mayHaveBegun(capOf(window), key, period));
  const evidence = {
    ...{ counted: used, sum, gap: span.gapIn(period, created, true) ?? inputs.openUnknown },
    ...openIn(inputs, accountRef, period, { meter, isCounted }),
    ...commonEvidence(inputs, accountRef, { period, life: lifeIn(period, created, sum) }, meter),
    settlementLost: lost && unitsLostIn(lost, period),
    unsettled: unsettledAtResets(sum, accountRef, incidents),
    fewer: [
      ...fewerByChanges(terms, ofPlan, incidents.replacementsIn(period)),
      ...(isChanged ? [{ from: 0, to: sum.charged, why: change }] : []),
      ...(isNewCap ? [{ from: 0, to: sum.charged, why: NEW_CAP }] : []),
    ],
  };
  const fewer = isAway ? [...evidence.fewer, ...fewerByOutage(evidence)] : evidence.fewer;
  return { ...accountRef, window, ...judge({ ...evidence, fewer }) };
}

/**
 * While a gateway is away, the store may lack what was charged since, alone or beyond what something
 * else explains.
 */
function fewerByOutage(evidence: Evidence): CountTolerance[] {
  const { sum, lost, settlementLost = 0, unsettled = 0, fewer } = evidence;
  const since = Number.isFinite(sum.awayFromMs) ? sum.sinceAway : sum.charged;
  const units = since + lost + settlementLost + unsettled;
  const all = sum.charged;
  const lacking = [
    { from: all, to: all, why: AWAY },
    ...fewer.map((one) => ({ ...one, why: `${one.why}, and ${AWAY}` })),
  ];
  return lacking.map((one) => ({ ...one, from: one.from - units }));
}

const AWAY = "a gateway is away from the store";

/** The plan and the configuration of today may be other than those of all lines. */
function withPresent(
  sum: PeriodSum,
  plan: string,
  config: ReturnType<Incidents["configIn"]>,
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
  const length = window.slice(window.lastIndexOf(".") + 1);
  return (meter === undefined ? limits : metered).some((limit) => limit.window === length);
}

/** `charges_uncertain` names the units of a meter as `production:acme#tokens`, others do not. */
function commonEvidence(
  { incidents, alive }: AuditInputs,
  accountRef: AccountRef,
  { period, life }: { readonly period: Period; readonly life: Period },
  meter?: string,
) {
  const account = meter === undefined ? accountRef.account : `${accountRef.account}#${meter}`;
  const lost = incidents.lostOf(accountRef, period);
  return {
    uncertain: incidents.uncertainOf({ ...accountRef, account }, period),
    lost: meter === undefined || lost === 0 ? lost : Number.POSITIVE_INFINITY,
    killed: endsWithoutLines(incidents.killedIn(life, alive), incidents.workerLostIn(life)),
  };
}

/** Either may be the cause if both ended. */
function endsWithoutLines(gatewayMs: number | undefined, workerMs: number | undefined) {
  const ends = Object.entries({ gateway: gatewayMs, worker: workerMs }).flatMap(([of, ms]) => {
    return ms === undefined ? [] : [{ of, at: new Date(ms).toISOString() }];
  });
  const [first, second] = ends;
  if (first === undefined) return undefined;
  const told = `a ${first.of} ended without a last line at ${first.at}`;
  if (second === undefined) return `${told}, and what was open in it is not known`;
  return `${told}, and a ${second.of} at ${second.at}, and what was open in them is not known`;
}

/**
 * The part of a period from which on the account can have been charged. Its creation is of the clock
 * that made the record, which may be wrong.
 */
function lifeIn({ fromMs, toMs }: Period, created: number | null, sum: PeriodSum): Period {
  const firstMs = Math.min(...[...sum.configs.values()].map((each) => each.firstMs), created ?? 0);
  return { fromMs: firstMs < toMs ? Math.max(fromMs, firstMs) : fromMs, toMs };
}

/**
 * The units in progress in a period: the least, of those that are counted for certain, after the
 * logs were read, and the most, before.
 */
function openIn(
  { openBefore, openAfter }: AuditInputs,
  { account, environment }: AccountRef,
  { fromMs, toMs }: Period,
  { meter, isCounted }: { readonly meter: string | undefined; isCounted(one: OpenCharge): boolean },
) {
  const sum = (charges: readonly OpenCharge[]) => {
    return charges
      .filter((one) => one.account === account && one.environment === environment)
      .filter(({ decidedAt }) => decidedAt >= fromMs && decidedAt < toMs)
      .reduce((units, one) => {
        return units + (meter === undefined ? one.units : (one.meters?.[meter] ?? 0));
      }, 0);
  };
  const least = [openBefore, openAfter].map((charges) => sum(charges.filter(isCounted)));
  return { openLeast: Math.min(...least), openMost: sum(openBefore) };
}

/** Judges days that are over: those whose units differ between history and logs. */
export function dayBalances(
  inputs: AuditInputs,
  rows: readonly DayRow[],
  {
    nowMs,
    createdOf,
  }: { readonly nowMs: number; createdOf(accountRef: AccountRef): number | null },
): Balance[] {
  const { incidents, span } = inputs;
  const late = lateUnits(rows, (row) => incidents.isReturnDay(row));
  const over = rows.filter(({ day }) => day < dayOf(nowMs));
  return over.map((row): Balance => {
    const { account, environment, day, sum, meter, lost } = row;
    const accountRef = { account, environment };
    const period = { fromMs: day * DAY_MS, toMs: (day + 1) * DAY_MS };
    const moved = late.get(row) ?? 0;
    const created = createdOf(accountRef);
    const life = lifeIn(period, created, sum);
    const judged = judge({
      ...{ counted: row.counted + lost - moved, sum },
      gap: span.gapIn(period, created, false) ?? inputs.openUnknown,
      ...openIn(inputs, accountRef, period, { meter, isCounted: () => true }),
      ...commonEvidence(inputs, accountRef, { period, life }, meter),
      fewer: fewerByChanges(sum, () => true, incidents.replacementsIn(period), false),
    });
    const window = meter === undefined ? formatDay(day) : `${formatDay(day)} ${meter}`;
    const told = { ...accountRef, window, ...judged, counted: row.counted };
    if (nowMs < closesMs(day) && judged.verdict === "drift") {
      const why = "the day closes 15 minutes after its end";
      return { ...told, drift: 0, verdict: "not compared", why };
    }
    if (lost !== 0 && judged.verdict === "matched") {
      const why = `${formatCount(Math.abs(lost), "unit")} ${lost > 0 ? "fewer" : "more"}: told as settlement_lost`;
      return { ...told, verdict: "explained", why };
    }
    if (moved === 0 || judged.verdict !== "matched") return told;
    const why = `${unitsWere(Math.abs(moved))} charged late, on the ${moved < 0 ? "next day" : "day after"}`;
    return { ...told, verdict: "explained", why };
  });
}
