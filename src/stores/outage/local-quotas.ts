import {
  type Account,
  type Ask,
  decide,
  NEW_ACCOUNT,
  type Verdict,
  type WindowStanding,
} from "../../core/quota/decide.ts";
import { type Limit, type WindowName, windowEnd, windowStart } from "../../core/quota/windows.ts";
import { type AccountName, accountId } from "../interface/quota-store.ts";

/** Units that were admitted here in the window that starts at `startMs`. */
export type OwedUnits = { readonly window: WindowName; readonly startMs: number; units: number };

/** The units that one account has yet to be charged. */
export type Owed = { readonly name: AccountName; readonly units: OwedUnits[] };

/** A part of a limit, in the window that starts at `startMs`. `of` is the whole limit then. */
type Share = {
  readonly window: WindowName;
  readonly startMs: number;
  readonly of: number;
  readonly limit: number;
};
type Local = { account: Account; readonly shares: Share[] };

/** The use of a window, as the store told it when it was charged late. */
type ChargedWindow = {
  readonly window: WindowName;
  readonly startMs: number;
  readonly used: number;
};

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

/**
 * The units that a gateway admits alone, of a limit of which `known` was used
 * (docs/reference/store.md#shares).
 */
export function shareOf(limit: number, known: number, gateways: number): number {
  return Math.ceil(Math.max(0, limit - known) / gateways);
}

/** Windows of one kind that an account can owe: the one that ends now, and the one after it. */
const OWED_OF_A_KIND = 2;

/**
 * Decides accounts in this process while the store is away, each from this gateway's share of every
 * window, and keeps what is owed to the store. Bounded: beyond `accountsMax` the oldest go, and with
 * them what they owe; of windows long over nothing is owed.
 */
export class LocalAccounts {
  readonly #accounts = new Map<string, Local>();
  readonly #owed = new Map<string, Owed>();
  readonly #chargedWindows = new Map<string, ChargedWindow[]>();
  readonly #accountsMax: number;

  constructor(accountsMax = 100_000) {
    this.#accountsMax = accountsMax;
  }

  /** Decides one request from this gateway's share. */
  decide(name: AccountName, ask: Ask, terms: Terms): Verdict {
    const id = accountId(name);
    const local = this.#local(id);
    const limits = ask.limits.map((limit) => this.#shared(id, local, limit, terms));
    const decision = decide(local.account, { ...ask, limits, units: 1 }, terms.nowMs);
    local.account = decision.account;
    if (decision.verdict.granted > 0 && terms.owed) this.#oweOne(name, decision.verdict.windows);
    return decision.verdict;
  }

  /** Counts one request and admits it, whatever its windows say (`onStoreFailure: allow`). */
  admit(name: AccountName, ask: Ask, terms: Terms): Verdict {
    const id = accountId(name);
    const local = this.#local(id);
    const counted = { ...ask, limits: ask.limits.map(unlimited), bans: undefined, units: 1 };
    const { account, verdict } = decide(local.account, counted, terms.nowMs);
    local.account = account;
    if (terms.owed) this.#oweOne(name, verdict.windows);
    const windows = ask.limits.map(({ window, limit }, i) => {
      const { used, resetMs } = verdict.windows[i] as WindowStanding;
      const known = this.#known(id, terms, window, windowStart(window, terms.nowMs));
      return { window, limit, used: Math.min(limit, known + used), resetMs };
    });
    return { ...verdict, windows };
  }

  /** Takes all that is owed, for charging. */
  take(): Owed[] {
    const owed = [...this.#owed.values()];
    this.#owed.clear();
    return owed;
  }

  /** Puts back what could not be charged, beside what was admitted since. */
  restore(owed: readonly Owed[]): void {
    for (const { name, units } of owed) for (const each of units) this.#owe(name, each);
  }

  /**
   * ChargedWindow that an account's debt is charged, with the use of its windows now, as far as they still
   * run.
   */
  charged({ name, units }: Owed, counts: readonly (number | undefined)[]): void {
    const charged: ChargedWindow[] = [];
    units.forEach(({ window, startMs }, i) => {
      const used = counts[i];
      if (used !== undefined) charged.push({ window, startMs, used });
    });
    keep(this.#chargedWindows, accountId(name), charged, this.#accountsMax);
  }

  get owes(): boolean {
    return this.#owed.size > 0;
  }

  /** Another absence begins, or this one is over: shares and what was used of them are of one. */
  forget(): void {
    this.#accounts.clear();
  }

  #local(id: string): Local {
    let local = this.#accounts.get(id);
    if (local === undefined) {
      local = { account: NEW_ACCOUNT, shares: [] };
      keep(this.#accounts, id, local, this.#accountsMax);
    }
    return local;
  }

  /** In a window that was running when the store went: of what was left; in later ones: of all. */
  #shared(id: string, local: Local, { window, limit }: Limit, terms: Terms): Limit {
    const startMs = windowStart(window, terms.nowMs);
    const at = local.shares.findIndex((each) => each.window === window);
    let share = local.shares[at];
    if (share === undefined || share.startMs !== startMs || share.of !== limit) {
      const running = windowStart(window, terms.wentMs) === startMs;
      const known = running ? this.#known(id, terms, window, startMs) : 0;
      share = { window, startMs, of: limit, limit: shareOf(limit, known, terms.gateways) };
      local.shares[at < 0 ? local.shares.length : at] = share;
    }
    return { window, limit: share.limit };
  }

  /** The last known count of the window that starts at `startMs`, 0 if none. */
  #known(id: string, { last }: Terms, window: WindowName, startMs: number): number {
    const answered = last?.windows.find((each) => each.window === window);
    const charged = this.#chargedWindows.get(id)?.find((each) => each.window === window);
    return Math.max(
      answered?.resetMs === windowEnd(window, startMs) ? answered.used : 0,
      charged?.startMs === startMs ? charged.used : 0,
    );
  }

  #oweOne(name: AccountName, windows: readonly WindowStanding[]): void {
    for (const { window, resetMs } of windows) {
      this.#owe(name, { window, startMs: windowStart(window, resetMs - 1), units: 1 });
    }
  }

  #owe(name: AccountName, { window, startMs, units }: OwedUnits): void {
    const id = accountId(name);
    let owed = this.#owed.get(id);
    if (owed === undefined) {
      owed = { name, units: [] };
      keep(this.#owed, id, owed, this.#accountsMax);
    }
    const same = owed.units.filter((each) => each.window === window);
    const found = same.find((each) => each.startMs === startMs);
    if (found !== undefined) found.units += units;
    else owed.units.push({ window, startMs, units });
    if (found !== undefined || same.length < OWED_OF_A_KIND) return;
    const oldest = same.reduce((one, other) => (other.startMs < one.startMs ? other : one));
    owed.units.splice(owed.units.indexOf(oldest), 1);
  }
}

function unlimited({ window }: Limit): Limit {
  return { window, limit: Number.MAX_SAFE_INTEGER };
}

/** Keeps the value as the newest; beyond `max` the oldest goes. */
function keep<T>(map: Map<string, T>, id: string, value: T, max: number): void {
  map.delete(id);
  if (map.size >= max) {
    const [oldest] = map.keys();
    if (oldest !== undefined) map.delete(oldest);
  }
  map.set(id, value);
}
