import type { Config } from "../../config/config.ts";
import type { CountReport } from "../../core/keys/reports.ts";
import { dayOf } from "../../core/quota/days.ts";
import { windowLabel } from "../../core/quota/rate-limit-info.ts";
import type { LoggedEvent, LoggedRequest } from "../../telemetry/log/logged-line.ts";
import { operationsOf } from "./traffic-replay.ts";

/**
 * The units that lines charged in one period of an account. `charged` was decided before the store
 * was asked, `atEdge` in the same millisecond, before or after.
 */
export type PeriodSum = {
  charged: number;
  atEdge: number;
  /** Units that an operator set to 0. */
  reset: number;
  /** Units by plan and configuration of their lines, with the last instant of each. */
  readonly plans: Map<string, number>;
  readonly configs: Map<string, { units: number; lastMs: number }>;
};

type LedgerAccount = {
  readonly account: string;
  readonly environment: string;
  readonly counts: CountReport | undefined;
  readonly windows: Map<string, PeriodSum>;
  /** By UTC day since 1970. */
  readonly days: Map<number, PeriodSum>;
};

/**
 * The charges in logs, by account: in the windows that were current when the store was asked, and
 * by day. The store must have counted the same units (docs/reference/http.md#law).
 */
export class Ledger {
  readonly #accounts = new Map<string, LedgerAccount>();
  readonly #operations: ReturnType<typeof operationsOf>;
  charged = 0;
  firstDay: number | undefined;

  constructor(counts: readonly CountReport[], environments: Config["environments"]) {
    for (const each of counts) this.#add(each.environment, each.account, each);
    this.#operations = operationsOf(environments);
  }

  /** Charges that were decided after the store was asked are not added to the windows. */
  request(line: LoggedRequest): void {
    const { env, account, charged, decidedAt } = line;
    if (charged === 0 || decidedAt === undefined) return;
    if (env === undefined || account === undefined) return;
    const known = this.of(env, account) ?? this.#add(env, account, undefined);
    const day = dayOf(decidedAt);
    this.firstDay = Math.min(day, this.firstDay ?? day);
    addLine(sumOf(known.days, day), line, Number.POSITIVE_INFINITY);
    const { counts } = known;
    if (counts === undefined || decidedAt > counts.at) return;
    this.charged += charged;
    for (const { window, from, to } of counts.windows) {
      if (decidedAt < from || decidedAt >= to) continue;
      if (window.includes(".") && !this.#charges(line, window)) continue;
      addLine(sumOf(known.windows, window), line, counts.at);
    }
  }

  /** A reset removes units from the count, but not from the charges. */
  event({ msg, account, env, windows, time, resetAt = time }: LoggedEvent): void {
    if (msg !== "account_reset" || !Array.isArray(windows)) return;
    const known = this.of(String(env), String(account));
    for (const each of windows as unknown[]) {
      const { window, units } = (each ?? {}) as { window?: unknown; units?: unknown };
      const counted = known?.counts?.windows.find((one) => one.window === window);
      if (known === undefined || counted === undefined || !Number.isSafeInteger(units)) continue;
      const atMs = Number(resetAt);
      if (atMs < counted.from || atMs >= counted.to) continue;
      sumOf(known.windows, counted.window).reset += units as number;
    }
  }

  get accounts(): Iterable<LedgerAccount> {
    return this.#accounts.values();
  }

  of(environment: string, account: string): LedgerAccount | undefined {
    return this.#accounts.get(`${environment}:${account}`);
  }

  #add(environment: string, account: string, counts: CountReport | undefined): LedgerAccount {
    const added = { account, environment, counts, windows: new Map(), days: new Map() };
    this.#accounts.set(`${environment}:${account}`, added);
    return added;
  }

  /** Whether a request belongs to the operation of a window such as `createPet.minute`. */
  #charges({ env, method, route }: LoggedRequest, window: string): boolean {
    const name = method === "HEAD" ? "GET" : method;
    const limits = this.#operations.get(`${env} ${name} ${route}`) ?? [];
    return limits.some((limit) => windowLabel(limit) === window);
  }
}

export function newSum(): PeriodSum {
  return { charged: 0, atEdge: 0, reset: 0, plans: new Map(), configs: new Map() };
}

function sumOf<K>(sums: Map<K, PeriodSum>, key: K): PeriodSum {
  let sum = sums.get(key);
  if (sum === undefined) {
    sum = newSum();
    sums.set(key, sum);
  }
  return sum;
}

function addLine(sum: PeriodSum, line: LoggedRequest, askedMs: number): void {
  const { charged, decidedAt = 0, plan = "", config = "" } = line;
  if (decidedAt === askedMs) sum.atEdge += charged;
  else sum.charged += charged;
  sum.plans.set(plan, (sum.plans.get(plan) ?? 0) + charged);
  const terms = sum.configs.get(config) ?? { units: 0, lastMs: 0 };
  terms.units += charged;
  terms.lastMs = Math.max(terms.lastMs, decidedAt);
  sum.configs.set(config, terms);
}
