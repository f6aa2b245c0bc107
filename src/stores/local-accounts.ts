import {
  type Account,
  type Ask,
  decide,
  NEW_ACCOUNT,
  type Verdict,
  type WindowStanding,
} from "../core/quota.ts";
import { type Limit, type WindowName, windowEnd, windowStart } from "../core/windows.ts";
import type { AccountName } from "./store.ts";

/** Units that were admitted here in one window and have yet to be charged to it. */
export type Owed = {
  readonly name: AccountName;
  readonly windows: Map<WindowName, Map<number, number>>;
};

/** A part of a limit, in the window that starts at `startMs`. `of` is the whole limit then. */
type Share = { readonly startMs: number; readonly of: number; readonly limit: number };
type Local = { account: Account; readonly shares: Map<WindowName, Share> };

export type Terms = {
  /** The store's now, in Unix milliseconds, as far as it is known. */
  readonly nowMs: number;
  /** When the store went, on the same clock. */
  readonly wentMs: number;
  /** Over how many gateways a limit is shared. */
  readonly gateways: number;
  /** The last answer of the store for the account, if any. */
  readonly last: Verdict | undefined;
  /** Whether a unit admitted is owed to the store: not when it may have been charged already. */
  readonly owed: boolean;
};

/** Contract 8: what a gateway admits alone, of a limit of which `known` was used. */
export function shareOf(limit: number, known: number, gateways: number): number {
  return Math.ceil(Math.max(0, limit - known) / gateways);
}

/**
 * Decides accounts in this process while the store is away, each from this gateway's share of every
 * window, and keeps what is owed to the store. Bounded: beyond `accountsMax` the oldest go, and with
 * them what they owe.
 */
export class LocalAccounts {
  readonly #accounts = new Map<string, Local>();
  readonly #owed = new Map<string, Owed>();
  readonly #accountsMax: number;

  constructor(accountsMax = 100_000) {
    this.#accountsMax = accountsMax;
  }

  /** Decides one request from this gateway's share. */
  decide(name: AccountName, ask: Ask, terms: Terms): Verdict {
    const local = this.#local(name);
    const limits = ask.limits.map((limit) => this.#shared(local, limit, terms));
    const decision = decide(local.account, { ...ask, limits, units: 1 }, terms.nowMs);
    local.account = decision.account;
    if (decision.verdict.granted > 0 && terms.owed) this.#oweOne(name, decision.verdict.windows);
    return decision.verdict;
  }

  /** Counts one request and admits it, whatever its windows say (`onStoreFailure: allow`). */
  admit(name: AccountName, ask: Ask, terms: Terms): Verdict {
    const local = this.#local(name);
    const counted = { ...ask, limits: ask.limits.map(unlimited), bans: undefined, units: 1 };
    const { account, verdict } = decide(local.account, counted, terms.nowMs);
    local.account = account;
    if (terms.owed) this.#oweOne(name, verdict.windows);
    const windows = ask.limits.map(({ window, limit }, i) => {
      const { used, resetMs } = verdict.windows[i] as WindowStanding;
      const known = knownCount(terms, window, windowStart(window, terms.nowMs));
      return { window, limit, used: Math.min(limit, known + used), resetMs };
    });
    return { ...verdict, windows };
  }

  /** Takes all that is owed, for charging. */
  settle(): Owed[] {
    const owed = [...this.#owed.values()];
    this.#owed.clear();
    return owed;
  }

  /** Puts back what could not be charged, beside what was admitted since. */
  restore(owed: readonly Owed[]): void {
    for (const { name, windows } of owed) {
      for (const [window, starts] of windows) {
        for (const [startMs, units] of starts) this.#owe(name, window, startMs, units);
      }
    }
  }

  get owes(): boolean {
    return this.#owed.size > 0;
  }

  /** The store decides again: shares are of one absence only. */
  forget(): void {
    this.#accounts.clear();
  }

  #local(name: AccountName): Local {
    const id = `${name.environment}:${name.account}`;
    let local = this.#accounts.get(id);
    if (local === undefined) {
      local = { account: NEW_ACCOUNT, shares: new Map() };
      if (this.#accounts.size >= this.#accountsMax) drop(this.#accounts);
      this.#accounts.set(id, local);
    }
    return local;
  }

  /** In a window that was running when the store went: of what was left; in later ones: of all. */
  #shared(local: Local, { window, limit }: Limit, terms: Terms): Limit {
    const startMs = windowStart(window, terms.nowMs);
    let share = local.shares.get(window);
    if (share === undefined || share.startMs !== startMs || share.of !== limit) {
      const running = windowStart(window, terms.wentMs) === startMs;
      const known = running ? knownCount(terms, window, startMs) : 0;
      share = { startMs, of: limit, limit: shareOf(limit, known, terms.gateways) };
      local.shares.set(window, share);
    }
    return { window, limit: share.limit };
  }

  #oweOne(name: AccountName, windows: readonly WindowStanding[]): void {
    for (const { window, resetMs } of windows) {
      this.#owe(name, window, windowStart(window, resetMs - 1), 1);
    }
  }

  #owe(name: AccountName, window: WindowName, startMs: number, units: number): void {
    const id = `${name.environment}:${name.account}`;
    let owed = this.#owed.get(id);
    if (owed === undefined) {
      owed = { name, windows: new Map() };
      if (this.#owed.size >= this.#accountsMax) drop(this.#owed);
      this.#owed.set(id, owed);
    }
    const starts = owed.windows.get(window) ?? new Map<number, number>();
    owed.windows.set(window, starts);
    starts.set(startMs, (starts.get(startMs) ?? 0) + units);
  }
}

function unlimited({ window }: Limit): Limit {
  return { window, limit: Number.MAX_SAFE_INTEGER };
}

/** The count that the store last told of the window that starts at `startMs`, 0 if none. */
function knownCount({ last }: Terms, window: WindowName, startMs: number): number {
  const known = last?.windows.find((each) => each.window === window);
  return known !== undefined && known.resetMs === windowEnd(window, startMs) ? known.used : 0;
}

function drop(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
