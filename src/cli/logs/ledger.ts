import type { Config } from "../../config/config.ts";
import type { CountReport } from "../../core/keys/usage-reports.ts";
import { loggedUnits } from "../../core/meters/meter-charge.ts";
import { DAY_MS, dayOf, lastClosedDay } from "../../core/quota/days.ts";
import { windowLabel } from "../../core/quota/rate-limit-info.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { LoggedEvent, LoggedRequest } from "../../telemetry/log/logged-line.ts";
import type { Period } from "./log-span.ts";
import { operationOf, operationsOf } from "./logged-operations.ts";
import { SettlingUnits } from "./settling-units.ts";

/**
 * The units that lines charged in one period of an account. `charged` was decided before the store
 * was asked, `atEdge` in the same millisecond, before or after.
 */
export type PeriodSum = {
  charged: number;
  atEdge: number;
  /** Units that were decided after the store was asked, by the clock of then. */
  ahead: number;
  /** Units of keys whose caps were changed, which it may have counted. */
  former: number;
  /** Units that an operator set to 0. */
  reset: number;
  /** When an operator did so, by the store's clock. */
  readonly resetsMs: number[];
  /** The outages in which gateways still are or were killed, as far as they are known. */
  away: readonly Period[];
  /** Units of lines that were written in one of them. */
  whileAway: number;
  /** The minute of the last line with the units of its lines, and the most of any minute. */
  readonly minutes: { last: number; units: number; most: number };
  /** Units by which the requests of a meter used more or less than they held. */
  readonly settling: SettlingUnits;
  /** Units by plan and configuration of their lines. */
  readonly plans: Map<string, number>;
  readonly configs: Map<string, ConfigSum>;
};

/**
 * The units that lines of one configuration charged, with the beginnings of the first and of the last
 * request by the clock of their gateway, which places reloads too.
 */
export type ConfigSum = { units: number; firstMs: number; lastMs: number };

type LedgerAccount = AccountRef & {
  readonly counts: CountReport | undefined;
  readonly windows: Map<string, PeriodSum>;
  /** By UTC day since 1970. */
  readonly days: Map<number, PeriodSum>;
  readonly meters: Map<string, MeterDays>;
};

/** The units of one meter of an account. */
type MeterDays = {
  readonly days: Map<number, PeriodSum>;
  /** By day: units of its lines that no count has, as `settlement_lost` lines tell. */
  readonly lost: Map<number, number>;
};

/** The outages of an account in a period in which gateways still are or were killed. */
export type AwayIn = (accountRef: AccountRef, period: Period) => readonly Period[];

/**
 * The charges in logs, by account: in the windows that were current when the store was asked, and
 * by day. The store must have counted the same units (docs/reference/http.md#law).
 */
export class Ledger {
  readonly #accounts = new Map<string, LedgerAccount>();
  readonly #operations: ReturnType<typeof operationsOf>;
  charged = 0;
  firstDay: number | undefined;

  constructor(
    counts: readonly CountReport[],
    environments: Config["environments"],
    awayIn: AwayIn = () => [],
  ) {
    for (const each of counts) {
      const { windows } = this.#add(each.environment, each.account, each);
      for (const { window, from } of each.windows) {
        const away = awayIn(each, { fromMs: from, toMs: each.at + 1 });
        if (away.length > 0) sumOf(windows, window).away = away;
      }
    }
    this.#operations = operationsOf(environments);
  }

  /** Charges that were decided after the store was asked are not added to the windows. */
  request(line: LoggedRequest): void {
    const { env, account, charged, decidedAt, meters } = line;
    if (decidedAt === undefined || (charged === 0 && meters === undefined)) return;
    if (env === undefined || account === undefined) return;
    const known = this.of(env, account) ?? this.#add(env, account, undefined);
    const day = dayOf(decidedAt);
    // By the clock of the store. The duration is longer than the time since the decision.
    const settledMs = decidedAt + line.durationMs;
    this.firstDay = Math.min(day, this.firstDay ?? day);
    if (charged > 0) addLine(sumOf(known.days, day), line, charged);
    for (const [meter, { hold, ...rest }] of Object.entries(meters ?? {})) {
      const { days } = metersOf(known, meter);
      const units = loggedUnits({ hold, ...rest });
      // After a day has closed a raise goes to the day on which it was settled.
      const isLate = units > hold && day <= lastClosedDay(settledMs);
      addLine(sumOf(days, day), line, isLate ? hold : units);
      if (isLate) addLine(sumOf(days, dayOf(settledMs)), line, units - hold);
    }
    const { counts } = known;
    const isAhead = counts !== undefined && decidedAt > counts.at;
    if (!isAhead) this.charged += charged;
    if (counts === undefined) return;
    // They ran when the store was asked, so none of them was over by then.
    for (const { window, from, keys, formerKeys } of counts.windows) {
      if (decidedAt < from) continue;
      if (!isAhead && formerKeys?.includes(line.key ?? ""))
        sumOf(known.windows, window).former += charged;
      if (keys?.includes(line.key ?? "") === false) continue;
      const units = keys === undefined ? this.#unitsIn(line, window) : charged;
      if (units === undefined) continue;
      const sum = sumOf(known.windows, window);
      if (isAhead) {
        sum.ahead += units;
        continue;
      }
      addLine(sum, line, units, counts.at);
      const logged = meters?.[meterOfWindow(window)];
      if (logged === undefined || units === logged.hold) continue;
      sum.settling.add(decidedAt, settledMs, Math.abs(units - logged.hold));
    }
  }

  event(line: LoggedEvent): void {
    if (line.msg === "account_reset") this.#reset(line);
    if (line.msg === "settlement_lost") this.#lose(line);
  }

  #lose({ environment, account, meter, units, day }: LoggedEvent): void {
    const atMs = Date.parse(String(day));
    const known = this.of(String(environment), String(account));
    if (known === undefined || !Number.isSafeInteger(units) || !(atMs % DAY_MS === 0)) return;
    const { lost } = metersOf(known, String(meter));
    lost.set(dayOf(atMs), (lost.get(dayOf(atMs)) ?? 0) + Number(units));
  }

  /** A reset removes units from the count, but not from the charges. */
  #reset({ account, env, windows, time, resetAt = time }: LoggedEvent): void {
    if (!Array.isArray(windows)) return;
    const known = this.of(String(env), String(account));
    const atMs = Number(resetAt);
    // A count that was read before the reset still has the units.
    if (known?.counts === undefined || !(atMs <= known.counts.at)) return;
    for (const each of windows as unknown[]) {
      const reset = (each ?? {}) as ResetWindow;
      const { units } = reset;
      const [counted, another] = known.counts.windows.filter((one) => isReset(one, reset));
      if (another !== undefined) continue;
      if (counted === undefined || atMs < counted.from || !Number.isSafeInteger(units)) continue;
      const sum = sumOf(known.windows, counted.window);
      sum.reset += units as number;
      sum.resetsMs.push(atMs);
    }
  }

  get accounts(): Iterable<LedgerAccount> {
    return this.#accounts.values();
  }

  of(environment: string, account: string): LedgerAccount | undefined {
    return this.#accounts.get(accountId({ environment, account }));
  }

  #add(environment: string, account: string, counts: CountReport | undefined): LedgerAccount {
    const added = {
      account,
      environment,
      counts,
      windows: new Map(),
      days: new Map(),
      meters: new Map(),
    };
    this.#accounts.set(accountId(added), added);
    return added;
  }

  /** The units that a request took from a window; undefined if it does not belong to the window. */
  #unitsIn(line: LoggedRequest, window: string): number | undefined {
    const logged = line.meters?.[meterOfWindow(window)];
    if (logged !== undefined) return loggedUnits(logged);
    return window.includes(".") && !this.#charges(line, window) ? undefined : line.charged;
  }

  /** Whether a request belongs to the operation of a window such as `createPet.minute`. */
  #charges(line: LoggedRequest, window: string): boolean {
    const limits = this.#operations.get(operationOf(line)) ?? [];
    return limits.some((limit) => windowLabel(limit) === window);
  }
}

export function newSum(): PeriodSum {
  const units = { charged: 0, atEdge: 0, ahead: 0, former: 0, reset: 0, resetsMs: [] };
  const away = { away: [], whileAway: 0, minutes: { last: 0, units: 0, most: 0 } };
  return { ...units, ...away, settling: new SettlingUnits(), plans: new Map(), configs: new Map() };
}

function sumOf<K>(sums: Map<K, PeriodSum>, key: K): PeriodSum {
  let sum = sums.get(key);
  if (sum === undefined) {
    sum = newSum();
    sums.set(key, sum);
  }
  return sum;
}

/** The members of a window in an `account_reset` line. Older lines have no `keys`. */
type ResetWindow = Readonly<Partial<Record<"window" | "units" | "keys", unknown>>>;

/** Whether it may be the window that was reset. Each key of an account may have a `key.day`. */
function isReset(
  { window: label, keys: counted }: CountReport["windows"][number],
  { window, keys }: ResetWindow,
): boolean {
  if (counted === undefined) return label === window;
  const isOf = !Array.isArray(keys) || counted.some((key) => keys.includes(key));
  return isOf && capOf(label) === window;
}

/** `key.day` of `key.day of k_1`. */
export function capOf(window: string): string {
  return window.split(" ", 1)[0] as string;
}

/** `tokens` of `tokens.minute`; "" of a window that belongs to no meter and no operation. */
export function meterOfWindow(window: string): string {
  return window.slice(0, Math.max(0, window.lastIndexOf(".")));
}

function metersOf({ meters }: LedgerAccount, meter: string): MeterDays {
  let known = meters.get(meter);
  if (known === undefined) {
    known = { days: new Map(), lost: new Map() };
    meters.set(meter, known);
  }
  return known;
}

/** The lines of one log come one minute after the other. */
function addToMinute(minutes: PeriodSum["minutes"], minute: number, units: number): void {
  minutes.units = minute === minutes.last ? minutes.units + units : units;
  minutes.last = minute;
  minutes.most = Math.max(minutes.most, minutes.units);
}

/** Adds units of a line that were charged before the store was asked, or in that millisecond. */
function addLine(
  sum: PeriodSum,
  line: LoggedRequest,
  units: number,
  askedMs = Number.POSITIVE_INFINITY,
): void {
  const { decidedAt = 0, plan = "", config = "" } = line;
  if (decidedAt === askedMs) sum.atEdge += units;
  else sum.charged += units;
  // A meter is charged as its answer ends, which is when the line is written.
  const isAway = sum.away.some(({ fromMs, toMs }) => line.time >= fromMs && line.time <= toMs);
  if (isAway) sum.whileAway += units;
  addToMinute(sum.minutes, Math.floor(line.time / 60_000), units);
  sum.plans.set(plan, (sum.plans.get(plan) ?? 0) + units);
  const beganMs = line.time - line.durationMs;
  const terms = sum.configs.get(config) ?? { units: 0, firstMs: beganMs, lastMs: beganMs };
  terms.units += units;
  terms.firstMs = Math.min(terms.firstMs, beganMs);
  terms.lastMs = Math.max(terms.lastMs, beganMs);
  sum.configs.set(config, terms);
}
