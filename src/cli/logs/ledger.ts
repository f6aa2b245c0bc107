import { dayOf } from "../../core/quota/days.ts";
import { WINDOW_NAMES, type WindowName, windowStart } from "../../core/quota/windows.ts";
import type { LoggedEvent, LoggedRequest } from "../../telemetry/log/read-log.ts";

/** Units of one window. `reset`: those that an operator set to 0. */
type Sum = { startMs: number; charged: number; reset: number };

export type LedgerAccount = {
  readonly account: string;
  readonly environment: string;
  readonly sums: Partial<Record<WindowName, Sum>>;
  /** Units charged, by day of UTC since 1970. */
  readonly days: Map<number, number>;
};

/**
 * The charges that a log tells of, by account, in the latest window of each length: they are what the
 * store has counted there (docs/reference/http.md#law).
 */
export class Ledger {
  readonly #accounts = new Map<string, LedgerAccount>();
  charged = 0;
  #firstDay: number | undefined;

  /** Charges that were decided after `untilMs` are left out: the store was asked before. */
  add(
    { env, account, charged, decidedAt }: LoggedRequest,
    untilMs = Number.POSITIVE_INFINITY,
  ): void {
    if (charged === 0 || decidedAt === undefined || decidedAt > untilMs) return;
    if (env === undefined || account === undefined) return;
    this.charged += charged;
    const known = this.#accountOf(env, account);
    for (const window of WINDOW_NAMES) addTo(known, window, { atMs: decidedAt, charged, reset: 0 });
    const day = dayOf(decidedAt);
    known.days.set(day, (known.days.get(day) ?? 0) + charged);
    this.#firstDay = Math.min(day, this.#firstDay ?? day);
  }

  /** The first day on which anything was charged. */
  get firstDay(): number | undefined {
    return this.#firstDay;
  }

  /** The units that the account was charged on a day. */
  chargedOn(environment: string, account: string, day: number): number {
    return this.#accounts.get(`${environment}:${account}`)?.days.get(day) ?? 0;
  }

  /** A reset takes units out of the count, and none out of what was charged. */
  event({ msg, kind, account, env, windows, time, resetAt = time }: LoggedEvent): void {
    if ((msg === "event" ? kind : msg) !== "account_reset" || !Array.isArray(windows)) return;
    const known = this.#accountOf(String(env), String(account));
    for (const { window, units } of windows as { window: WindowName; units: number }[]) {
      if (!WINDOW_NAMES.includes(window)) continue;
      addTo(known, window, { atMs: Number(resetAt), charged: 0, reset: units });
    }
  }

  get accounts(): Iterable<LedgerAccount> {
    return this.#accounts.values();
  }

  /** The sums of the window that starts there. */
  of(
    environment: string,
    account: string,
    window: WindowName,
    startMs: number,
  ): Omit<Sum, "startMs"> {
    const sum = this.#accounts.get(`${environment}:${account}`)?.sums[window];
    return sum?.startMs === startMs ? sum : { charged: 0, reset: 0 };
  }

  #accountOf(environment: string, account: string): LedgerAccount {
    const id = `${environment}:${account}`;
    let known = this.#accounts.get(id);
    if (known === undefined) {
      known = { account, environment, sums: {}, days: new Map() };
      this.#accounts.set(id, known);
    }
    return known;
  }
}

type Entry = { readonly atMs: number; readonly charged: number; readonly reset: number };

function addTo({ sums }: LedgerAccount, window: WindowName, entry: Entry): void {
  const startMs = windowStart(window, entry.atMs);
  let sum = sums[window];
  if (sum === undefined || sum.startMs < startMs) {
    sum = { startMs, charged: 0, reset: 0 };
    sums[window] = sum;
  }
  // A line of an earlier window may come late.
  if (sum.startMs !== startMs) return;
  sum.charged += entry.charged;
  sum.reset += entry.reset;
}
