import { banAt } from "../../../core/quota/bans.ts";
import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
  type WindowUsage,
} from "../../../core/quota/decide.ts";
import { rateLimitRefusal } from "../../../core/quota/rate-limit-info.ts";
import { counterName, type Limit, windowStart } from "../../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../account-ref.ts";
import { BoundedAccounts } from "../bounded-accounts.ts";
import type { OnSettlementLost } from "../count-corrections.ts";
import type { AccountDebt, WindowKey } from "./account-debt.ts";
import { Debts } from "./debts.ts";

/**
 * A part of a limit, in a window. `of` is the whole limit at that time. `most` is the largest share
 * of the window since other gateways may have one too: each of them may owe as much.
 */
type Share = WindowKey & {
  readonly of: number;
  readonly limit: number;
  readonly most: number;
  readonly outage: number;
};

/**
 * `account` counts the units that were admitted from the shares of one outage, and of each hold what
 * was used of it, once that is known.
 */
type LocalAccount = { outage: number; account: AccountState; readonly shares: Share[] };

export type OutageContext = {
  /** The store's now, in Unix milliseconds, as far as it is known. */
  readonly nowMs: number;
  /** The store's now at the latest. A window that ends before it may be over. */
  readonly latestMs: number;
  /** The number of gateways that share a limit. */
  readonly gateways: number;
  /** The number of other gateways that may still owe their shares of an earlier outage. */
  readonly pendingBefore: number;
  /** The last known count of a counter in the window that starts at `startMs`; 0 if there is none. */
  readonly knownCount: (counter: string, startMs: number) => number;
};

/**
 * A decision from shares. `admitted`: the request fits, and is owed. `exhausted`: the counted units
 * use up a limit of the plan. `share`: only this gateway's share is used up, or the window may be
 * over.
 */
type LocalDecision = {
  readonly decision: QuotaDecision;
  readonly outcome: "admitted" | "exhausted" | "share";
};

/**
 * The units that a gateway admits alone, of a limit of which `known` was used
 * (docs/reference/store.md#shares).
 */
export function shareOf(limit: number, known: number, gateways: number): number {
  return Math.ceil(Math.max(0, limit - known) / gateways);
}

/**
 * Decides accounts in this process while the store is unreachable, each from this gateway's share
 * of every window, and keeps the debts to the store. It implements the two rules of outages
 * (docs/decisions/shares.md). First, a request is refused as over a limit only if its cost does not
 * fit in addition to the last count of the store and the units owed since. Second, a gateway
 * claims, for a window and an outage, no more than its part of the units that this count leaves,
 * and no more than the claims of others leave. Bounded: beyond `accountsMax` the oldest accounts
 * are dropped together with their debts.
 */
export class LocalQuotas {
  readonly debts: Debts;
  readonly #accounts: BoundedAccounts<LocalAccount>;
  #outage = 0;

  constructor(accountsMax: number, onMeterLost?: OnSettlementLost) {
    this.#accounts = new BoundedAccounts(accountsMax);
    this.debts = new Debts(accountsMax, onMeterLost);
  }

  /**
   * Decides one request. Each window grants at most this gateway's share, and never more than the
   * plan's limit leaves after the counted units: the store's last count, and the units owed to it.
   * A request that finds that limit used up is refused as by the store, with its strike. A request
   * that finds only the share used up gets no strike (docs/reference/store.md#shares).
   */
  decide(
    accountRef: AccountRef,
    quotaRequest: QuotaRequest,
    context: OutageContext,
  ): LocalDecision {
    const local = this.#local(accountId(accountRef));
    const { cost = 1 } = quotaRequest;
    const standings = quotaRequest.limits.map((limit) => {
      return this.#standing(accountRef, local, limit, context);
    });
    const limits = quotaRequest.limits.map((limit, i) => {
      return { ...limit, limit: (standings[i] as Standing).room };
    });
    const reserved = standings.map(({ room, share }) => room - share);
    const asked = { ...quotaRequest, limits, reserved, requests: 1 };
    const { account, decision } = decide(local.account, asked, context.nowMs);
    local.account = account;
    if (decision.granted > 0)
      this.debts.add(accountRef, quotaRequest, decision.windows, context.nowMs);
    const refusal = rateLimitRefusal(decision, decision.nowMs, cost);
    const isExhausted = refusal !== undefined && refusal.rateLimitInfo.resetMs > context.latestMs;
    const outcome =
      decision.granted > 0 ? "admitted" : isExhausted ? "exhausted" : ("share" as const);
    const windows = decision.windows.map((usage, i) => {
      const limit = quotaRequest.limits[i] as Limit;
      const { before, share } = standings[i] as Standing;
      const counted = before + usage.used;
      if (outcome === "exhausted") return { ...usage, limit: limit.limit, used: counted };
      return { ...usage, limit: Math.max(0, share), counted, outage: this.#outage };
    });
    return { decision: { ...decision, windows }, outcome };
  }

  /** Whether the account is banned by a decision of this process, at `nowMs`. */
  isBanned(accountRef: AccountRef, nowMs: number): boolean {
    return banAt(this.#accounts.get(accountId(accountRef))?.account.ban, nowMs) !== undefined;
  }

  /** Counts one request and admits it, even if its windows are full (`onStoreFailure: allow`). */
  admit(accountRef: AccountRef, quotaRequest: QuotaRequest, context: OutageContext): QuotaDecision {
    const local = this.#local(accountId(accountRef));
    const limits = quotaRequest.limits.map((limit) => {
      return { ...limit, limit: Number.MAX_SAFE_INTEGER };
    });
    const counted = { ...quotaRequest, limits, bans: undefined, requests: 1 };
    const { account, decision } = decide(local.account, counted, context.nowMs);
    local.account = account;
    this.debts.add(accountRef, quotaRequest, decision.windows, context.nowMs);
    const windows = this.#whole(accountRef, quotaRequest.limits, decision, context);
    return { ...decision, windows };
  }

  /**
   * The account as a request that costs nothing would be told it, by `decide`, or by `admit` under
   * `allow`. It is not decided here for that.
   */
  peek(
    accountRef: AccountRef,
    limits: readonly Limit[],
    context: OutageContext,
    policy: "local" | "allow",
  ): QuotaDecision {
    const here = this.#accounts.get(accountId(accountRef));
    const account = here?.outage === this.#outage ? here.account : NEW_ACCOUNT_STATE;
    const local = { outage: this.#outage, account, shares: [...(here?.shares ?? [])] };
    const asked = { limits, bans: undefined, requests: 0 };
    const { decision } = decide(account, asked, context.nowMs);
    if (policy === "allow") {
      return { ...decision, windows: this.#whole(accountRef, limits, decision, context) };
    }
    const windows = decision.windows.map((usage, i) => {
      const { share } = this.#standing(accountRef, local, limits[i] as Limit, context);
      return { ...usage, limit: Math.max(0, share) };
    });
    return { ...decision, windows };
  }

  /**
   * Changes what shares count by what requests used of their holds. A hold that the store decided, or
   * that was admitted in another outage, is not counted in these shares.
   */
  settleShares(settled: readonly AccountDebt[]): void {
    for (const { accountRef, windows } of settled) {
      const local = this.#accounts.get(accountId(accountRef));
      if (local === undefined) continue;
      for (const { counter, startMs, units, outage } of windows) {
        const stored = local.account.usage[counter];
        if (outage !== this.#outage || stored?.startMs !== startMs) continue;
        const used = { ...stored, count: Math.max(0, stored.count + units) };
        local.account = { ...local.account, usage: { ...local.account.usage, [counter]: used } };
      }
    }
  }

  /**
   * Units of each limit that the store keeps for `pending` other gateways, which may have admitted
   * requests from their shares and not charged them yet, and for what the account itself owes while
   * its slot is moving.
   */
  reservedFor(
    accountRef: AccountRef,
    limits: readonly Limit[],
    pending: number,
    context: OutageContext,
  ): readonly number[] {
    const local = this.#local(accountId(accountRef));
    const isMoving = this.debts.isDeferred(accountRef);
    return limits.map((limit) => {
      if (limit.observed) return 0;
      const others =
        pending === 0 ? 0 : pending * this.#share(accountRef, local, limit, context).most;
      const own = isMoving ? this.debts.owedIn(accountRef, windowAt(limit, context.nowMs)) : 0;
      return Math.min(limit.limit, others + own);
    });
  }

  /** Called when an outage begins while other gateways may owe their shares of the last one. */
  beginOutage(): void {
    this.#outage += 1;
  }

  /** Called when the outage is over and no other gateway owes a share of it. */
  endOutage(): void {
    this.#outage += 1;
    this.#accounts.clear();
  }

  #local(id: string): LocalAccount {
    let local = this.#accounts.get(id);
    if (local === undefined) {
      local = { outage: this.#outage, account: NEW_ACCOUNT_STATE, shares: [] };
      this.#accounts.add(id, local);
    }
    if (local.outage !== this.#outage) {
      const { strikesMs, ban } = local.account;
      local.account = { usage: {}, strikesMs, ban };
      local.outage = this.#outage;
    }
    return local;
  }

  #standing(
    accountRef: AccountRef,
    local: LocalAccount,
    limit: Limit,
    context: OutageContext,
  ): Standing {
    const window = windowAt(limit, context.nowMs);
    const before = this.#counted(accountRef, window, context) - usedLocally(local, window);
    if (limit.observed) return { before, room: limit.limit, share: limit.limit };
    const room = limit.limit - before;
    const { limit: share } = this.#share(accountRef, local, limit, context);
    return { before, room, share: Math.min(room, share) };
  }

  /** The windows with their whole limits, and what counts in them. */
  #whole(
    accountRef: AccountRef,
    limits: readonly Limit[],
    { windows }: QuotaDecision,
    context: OutageContext,
  ): readonly WindowUsage[] {
    return limits.map((limit, i) => {
      const { resetMs } = windows[i] as WindowUsage;
      const used = this.#counted(accountRef, windowAt(limit, context.nowMs), context);
      const counts = { used: Math.min(limit.limit, used), counted: used };
      return { ...limit, ...counts, resetMs, outage: this.#outage };
    });
  }

  /** The count of a window: the store's last count, and the units owed since. */
  #counted(accountRef: AccountRef, window: WindowKey, { knownCount }: OutageContext): number {
    return knownCount(window.counter, window.startMs) + this.debts.owedIn(accountRef, window);
  }

  /**
   * The share of a window. If the window was running when the outage began, it is a part of the
   * units that were left; otherwise of the whole limit.
   */
  #share(accountRef: AccountRef, local: LocalAccount, limit: Limit, context: OutageContext): Share {
    const of = limit.limit;
    const window = windowAt(limit, context.nowMs);
    const at = local.shares.findIndex(({ counter }) => counter === window.counter);
    const before = local.shares[at];
    const isSame = before?.startMs === window.startMs && before.of === of;
    if (isSame && before.outage === this.#outage) return before;
    const counted = this.#counted(accountRef, window, context) - usedLocally(local, window);
    const own = shareOf(of, counted, context.gateways);
    const most = Math.max(own, isSame ? before.most : 0);
    const left = Math.max(0, of - counted - context.pendingBefore * most);
    const share = { ...window, of, limit: Math.min(own, left), most, outage: this.#outage };
    local.shares[at < 0 ? local.shares.length : at] = share;
    return share;
  }
}

/**
 * Units of a window that may be admitted here: by the plan's limit, and from the share. `before` are
 * those that count and were not admitted from the shares of this outage.
 */
type Standing = { readonly before: number; readonly room: number; readonly share: number };

/** Units of a window that were admitted from the shares of this outage, and not given back. */
function usedLocally({ account }: LocalAccount, { counter, startMs }: WindowKey): number {
  const stored = account.usage[counter];
  return stored?.startMs === startMs ? stored.count : 0;
}

/** The window of a limit that runs at `nowMs`. */
function windowAt(limit: Limit, nowMs: number): WindowKey {
  const startMs = windowStart(limit.window, nowMs, limit.calendar);
  return { counter: counterName(limit), startMs };
}
