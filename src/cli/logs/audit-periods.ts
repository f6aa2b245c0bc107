import { quoteValue } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import { type DaySpan, dayOf, formatDay, monthRange } from "../../core/quota/days.ts";
import type { WindowName } from "../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { Balance } from "./balance.ts";
import type { Incidents } from "./incidents.ts";
import type { Ledger, PeriodSum } from "./ledger.ts";
import type { LogSpan, Period } from "./log-span.ts";

/** The day or the month of UTC that was asked for. */
export type AskedPeriod = DaySpan & {
  /** As it was given: `2026-10-21` or `2026-10`. */
  readonly name: string;
  readonly length: WindowName;
};

/** The name of what an audit compares that no period was asked of. */
const ALL_PERIODS = "all periods";

type PeriodOptions = { readonly day?: string | undefined; readonly month?: string | undefined };

/** The period of --day or --month; undefined if neither is given, or the mistake in words. */
export function parseAskedPeriod({ day, month }: PeriodOptions): AskedPeriod | string | undefined {
  if (day !== undefined && month !== undefined) {
    return "--day and --month are two periods: give one of them";
  }
  if (month !== undefined) {
    const range = monthRange(month);
    if (range !== undefined) return { ...range, name: month, length: "month" };
    return `Cannot read --month as a month such as 2026-11: the value is ${quoteValue(month)}`;
  }
  if (day === undefined) return undefined;
  const number = /^\d{4}-\d\d-\d\d$/.test(day) ? dayOf(Date.parse(day)) : Number.NaN;
  if (Number.isFinite(number) && formatDay(number) === day) {
    return { from: number, to: number, name: day, length: "day" };
  }
  return `Cannot read --day as a day such as 2026-11-21: the value is ${quoteValue(day)}`;
}

/**
 * Why nothing was compared in a period that was asked for and is not over, or in all. `charged` are the
 * units of the logs.
 */
export function whyNothing(
  asked: AskedPeriod | undefined,
  nowMs: number,
  charged: number,
): readonly { readonly window: string; readonly why: string }[] {
  const today = dayOf(nowMs);
  if (asked === undefined) {
    const why =
      charged === 0
        ? "no line of the logs charged an account"
        : "no window of these charges runs any more, and no day of theirs is over";
    return [{ window: ALL_PERIODS, why }];
  }
  if (asked.to < today) return [];
  const why =
    asked.from > today ? "it has not begun" : "it is not over, and no window of its length counts";
  return [{ window: asked.name, why }];
}

/**
 * The accounts of the logs whose counts are not known, each with its units in the period that was
 * asked for, or in all. `whys` has the reason by account.
 */
export function unknownBalances(
  ledger: Ledger,
  whys: ReadonlyMap<string, string>,
  asked: AskedPeriod | undefined,
): Balance[] {
  const window = asked?.name ?? ALL_PERIODS;
  return [...ledger.accounts].flatMap(({ account, environment, days }): Balance[] => {
    const why = whys.get(accountId({ environment, account }));
    const charged = [...days]
      .filter(([day]) => asked === undefined || (day >= asked.from && day <= asked.to))
      .reduce((sum, [, each]) => sum + each.charged, 0);
    if (why === undefined || charged === 0) return [];
    const units = { charged, counted: 0, reset: 0, open: 0, drift: 0 };
    const told = `its counts are not known: ${why}`;
    return [{ account, environment, window, ...units, verdict: "not compared", why: told }];
  });
}

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

/** A window or a day of an account, or of one of its meters. */
type JudgedPeriod = {
  readonly accountRef: AccountRef;
  readonly meter: string | undefined;
  readonly period: Period;
  /** Whether the period is a window that still counts, rather than a day that is over. */
  readonly runs: boolean;
  readonly sum: PeriodSum;
};

/**
 * The evidence that windows and days have in common. `isCounted` tells which open charges are
 * counted in the period for certain.
 */
export function evidenceIn(
  inputs: AuditInputs,
  { accountRef, meter, period, runs, sum }: JudgedPeriod,
  isCounted: (charge: OpenCharge) => boolean = () => true,
) {
  const { ledger, incidents, span, alive, openBefore, openAfter, openUnknown } = inputs;
  const { processes } = incidents;
  const { environment, account } = accountRef;
  const { counts, days } = ledger.of(environment, account) ?? {};
  const created = counts?.created ?? null;
  const life = lifeIn(period, created, sum);
  // `charges_uncertain` names the units of a meter as `production:acme#tokens`.
  const owner = meter === undefined ? account : `${account}#${meter}`;
  const lost = incidents.lostOf(accountRef, period);
  const unitsOf = (charges: readonly OpenCharge[]) => {
    return charges
      .filter((one) => one.account === account && one.environment === environment)
      .filter(({ decidedAt }) => decidedAt >= period.fromMs && decidedAt < period.toMs)
      .reduce((units, one) => {
        return units + (meter === undefined ? one.units : (one.meters?.[meter] ?? 0));
      }, 0);
  };
  const least = [openBefore, openAfter].map((charges) => unitsOf(charges.filter(isCounted)));
  return {
    sum,
    gap: span.gapIn(period, created, runs) ?? openUnknown,
    openLeast: Math.min(...least),
    openMost: unitsOf(openBefore),
    uncertain: incidents.uncertainOf({ environment, account: owner }, period),
    // With any charge of the account, units of its meters may be lost.
    lost: meter === undefined || lost === 0 ? lost : Number.POSITIVE_INFINITY,
    killedMost:
      meter === undefined
        ? openMostIn(days) * processes.endedIn(life, alive)
        : Number.POSITIVE_INFINITY,
    killed: endsWithoutLines(processes.killedIn(life, alive), processes.workerLostIn(life)),
  };
}

/**
 * The part of a period from which on the account can have been charged. Its creation is of the clock
 * that made the record, which may be wrong.
 */
function lifeIn({ fromMs, toMs }: Period, created: number | null, sum: PeriodSum): Period {
  const firstMs = Math.min(...[...sum.configs.values()].map((each) => each.firstMs), created ?? 0);
  return { fromMs: firstMs < toMs ? Math.max(fromMs, firstMs) : fromMs, toMs };
}

/** An account may have this many units open in a process without a line before, or with few. */
const OPEN_UNITS = 100;

/**
 * The units of an account that can have been open in each killed process. It may have served for a minute
 * since its last line, and that may be part of two.
 */
function openMostIn(days: ReadonlyMap<number, PeriodSum> = new Map()): number {
  return [...days.values()].reduce((most, { minutes }) => {
    return Math.max(most, 2 * minutes.most);
  }, OPEN_UNITS);
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
