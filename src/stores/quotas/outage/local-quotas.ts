import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
  type WindowUsage,
} from "../../../core/quota/decide.ts";
import {
  counterName,
  counterWindow,
  type Limit,
  windowEnd,
  windowStart,
} from "../../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../quota-store.ts";
import {
  type AccountDebt,
  type AdmittedTotals,
  Debts,
  keep,
  type WindowDebt,
  windowDebt,
} from "./debts.ts";

/** A part of a limit, in the window that starts at `startMs`. `of` is the whole limit then. */
type Share = {
  readonly counter: string;
  readonly startMs: number;
  readonly of: number;
  readonly limit: number;
};
type Local = {
  account: AccountState;
  readonly shares: Share[];
  /** Debts from before this absence of the store: no answer tells of them yet. */
  readonly owed: readonly WindowDebt[];
};

/** The use of a window, as the store told it when it was charged late. */
type ChargedWindow = { readonly counter: string; readonly startMs: number; readonly used: number };

export type OutageContext = {
  /** The store's now, in Unix milliseconds, as far as it is known. */
  readonly nowMs: number;
  /** When the store went, on the same clock. */
  readonly wentMs: number;
  /** Over how many gateways a limit is shared. */
  readonly gateways: number;
  /** The last answer of the store for the account, if any. */
  readonly last: QuotaDecision | undefined;
  /** Gateways that may not have charged yet what they admitted in an earlier absence. */
  readonly pending: number;
};

/**
 * The units that a gateway admits alone, of a limit of which `known` was used
 * (docs/reference/store.md#shares).
 */
export function shareOf(limit: number, known: number, gateways: number): number {
  return Math.ceil(Math.max(0, limit - known) / gateways);
}

/**
 * Decides accounts in this process while the store is away, each from this gateway's share of every
 * window, and keeps what is owed to the store. Bounded: beyond `accountsMax` the oldest go, and with
 * them what they owe.
 */
export class LocalQuotas {
  readonly debts: Debts;
  readonly #accounts = new Map<string, Local>();
  readonly #chargedWindows = new Map<string, readonly ChargedWindow[]>();
  readonly #accountsMax: number;

  constructor(accountsMax = 100_000) {
    this.#accountsMax = accountsMax;
    this.debts = new Debts(accountsMax);
  }

  /**
   * Decides one request from this gateway's share. Undefined where its cost is above a whole share:
   * no waiting would let it pass here.
   */
  decide(name: AccountRef, ask: QuotaRequest, terms: OutageContext): QuotaDecision | undefined {
    const id = accountId(name);
    const local = this.#local(id);
    const limits = ask.limits.map((limit) => this.#shared(id, local, limit, terms));
    const { cost = 1 } = ask;
    // A share of nothing refuses as a window that is used up does: by its end there is more.
    if (cost > 1 && limits.some(({ limit }) => cost > limit)) return undefined;
    const decision = decide(local.account, { ...ask, limits, requests: 1 }, terms.nowMs);
    local.account = decision.account;
    if (decision.verdict.granted > 0) this.debts.add(name, decision.verdict.windows, cost);
    return decision.verdict;
  }

  /** Counts one request and admits it, whatever its windows say (`onStoreFailure: allow`). */
  admit(name: AccountRef, ask: QuotaRequest, terms: OutageContext): QuotaDecision {
    const id = accountId(name);
    const local = this.#local(id);
    const counted = { ...ask, limits: ask.limits.map(unlimited), bans: undefined, requests: 1 };
    const { account, verdict } = decide(local.account, counted, terms.nowMs);
    local.account = account;
    this.debts.add(name, verdict.windows, ask.cost ?? 1);
    const windows = ask.limits.map((limit, i) => {
      const { used, resetMs } = verdict.windows[i] as WindowUsage;
      const startMs = windowStart(limit.window, terms.nowMs);
      const known = this.#known(id, terms, counterName(limit), startMs);
      return { ...limit, used: Math.min(limit.limit, known + used), resetMs };
    });
    return { ...verdict, windows };
  }

  /**
   * The limits of a request that the store decides while `pending` other gateways may have admitted
   * their shares and not charged them yet: without those shares.
   */
  limitsBesidePeers(
    name: AccountRef,
    limits: readonly Limit[],
    pending: number,
    terms: OutageContext,
  ) {
    const id = accountId(name);
    const local = this.#local(id);
    return limits.map((limit) => {
      if (limit.observed) return limit;
      const share = this.#shared(id, local, limit, terms).limit;
      return { ...limit, limit: Math.max(0, limit.limit - pending * share) };
    });
  }

  /** Told that what an account owed is charged, and of the use of its windows, where they run on. */
  onCharged({ name, windows }: AccountDebt, counts: readonly (number | undefined)[]): void {
    const charged: ChargedWindow[] = [];
    windows.forEach(({ counter, startMs }, i) => {
      const used = counts[i];
      if (used !== undefined) charged.push({ counter, startMs, used });
    });
    this.#learn(accountId(name), charged);
  }

  /**
   * The store charged requests that were decided here. Gives the units that are charged twice by
   * that: nothing was owed for them.
   */
  onLateDecision(
    name: AccountRef,
    windows: readonly WindowUsage[],
    admitted: AdmittedTotals,
  ): number {
    const charged = windows.map((standing) => windowDebt(standing, admitted.units));
    const used = windows.map(({ used: now }, i) => {
      const { counter, startMs } = charged[i] as WindowDebt;
      return { counter, startMs, used: now };
    });
    this.#learn(accountId(name), used);
    return this.debts.release({ name, windows: charged, admitted });
  }

  #learn(id: string, charged: readonly ChargedWindow[]): void {
    const before = this.#chargedWindows.get(id) ?? [];
    const others = before.filter((one) => {
      return !charged.some(({ counter }) => counter === one.counter);
    });
    keep(this.#chargedWindows, id, [...others, ...charged].slice(-WINDOWS_MAX), this.#accountsMax);
  }

  /** Another absence begins, or this one is over: shares and what was used of them are of one. */
  forget(): void {
    this.#accounts.clear();
  }

  #local(id: string): Local {
    let local = this.#accounts.get(id);
    if (local === undefined) {
      local = { account: NEW_ACCOUNT_STATE, shares: [], owed: this.debts.of(id) };
      keep(this.#accounts, id, local, this.#accountsMax);
    }
    return local;
  }

  /** In a window that was running when the store went: of what was left; in later ones: of all. */
  #shared(id: string, local: Local, limit: Limit, terms: OutageContext): Limit {
    if (limit.observed) return limit;
    const { window, limit: of } = limit;
    const counter = counterName(limit);
    const startMs = windowStart(window, terms.nowMs);
    const at = local.shares.findIndex((each) => each.counter === counter);
    let share = local.shares[at];
    if (share === undefined || share.startMs !== startMs || share.of !== of) {
      const running = windowStart(window, terms.wentMs) === startMs;
      const owed = local.owed.find((one) => one.counter === counter && one.startMs === startMs);
      const told = running ? this.#known(id, terms, counter, startMs) : 0;
      const ours = told + (owed?.units ?? 0);
      const known = ours + terms.pending * shareOf(of, ours, terms.gateways);
      share = { counter, startMs, of, limit: shareOf(of, known, terms.gateways) };
      local.shares[at < 0 ? local.shares.length : at] = share;
    }
    return { ...limit, limit: share.limit };
  }

  /** The last known count of the window that starts at `startMs`, 0 if none. */
  #known(id: string, { last }: OutageContext, counter: string, startMs: number): number {
    const answered = last?.windows.find((each) => counterName(each) === counter);
    const charged = this.#chargedWindows.get(id)?.find((each) => each.counter === counter);
    const endMs = windowEnd(counterWindow(counter), startMs);
    return Math.max(
      answered?.resetMs === endMs ? answered.used : 0,
      charged?.startMs === startMs ? charged.used : 0,
    );
  }
}

/** Windows of one account whose use is remembered from late charges. */
const WINDOWS_MAX = 64;

function unlimited(limit: Limit): Limit {
  return { ...limit, limit: Number.MAX_SAFE_INTEGER };
}
