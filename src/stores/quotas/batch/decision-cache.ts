import { AgingMap } from "../../../base/aging-map.ts";
import type { Ban, NewBan } from "../../../core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import { type AccountRef, accountId, isAddressId, parseAccountId } from "../account-ref.ts";
import type { LostCount, WindowTotal } from "../count-corrections.ts";
import type { AccountBan, ChargeResult } from "../quota-store.ts";
import { AnswerTime } from "./answer-time.ts";
import {
  type CachedDecision,
  onlyBan,
  onlyCounts,
  unknownAccount,
  windowIn,
  withBan,
  withCounts,
  withoutCounts,
} from "./cached-decision.ts";
import {
  couldCauseBan,
  decisionAfter,
  knownBan,
  type RefusalKind,
  refusalKind,
} from "./known-refusal.ts";
import { findLossIn } from "./lost-count.ts";
import { SettlingMeters } from "./settling-meters.ts";

/** The accounts invalidated since a call was sent, whose decisions are outdated. */
export type InvalidatedAccounts = { ids: Set<string> | undefined; readonly era: number };

/** Means every account; no account has this name. */
const ALL = "*";
/** The era of counts whose refusals and ban are not believed. */
const OUTDATED = -1;
/** The fewest addresses remembered. */
const ADDRESSES = 10_000;

/** Whether the account was among those invalidated: by its name, or with all. */
export function isInvalidated({ ids }: InvalidatedAccounts, id: string): boolean {
  return ids !== undefined && (ids.has(id) || ids.has(ALL));
}

/** The last answer of the store about each account, and the refusals that follow from it. */
export class DecisionCache {
  readonly #time: AnswerTime;
  readonly #accounts = new AgingMap<CachedDecision>();
  /** Client addresses have a place of their own, so that no number of them drops an account. */
  readonly #addresses = new AgingMap<CachedDecision>(ADDRESSES);
  /**
   * A Set that grows and shrinks with each call keeps garbage alive (docs/decisions/hot-path.md).
   */
  readonly #underWay: InvalidatedAccounts[] = [];
  readonly settlingMeters = new SettlingMeters();
  /** Grows when all refusals are dropped: no refusal follows from an answer of another era. */
  #era = 0;
  /** The first era whose bans are believed: those of earlier ones may have been lifted. */
  #bansFrom = 0;

  /** See AnswerTime. */
  constructor(...clocks: ConstructorParameters<typeof AnswerTime>) {
    this.#time = new AnswerTime(...clocks);
  }

  /** The last answer. Nothing but the ban is left of one that is outdated, if it is believed. */
  get(id: string): CachedDecision | undefined {
    return this.believed(this.lastOf(id));
  }

  /** The last answer, outdated or not: its counts stay valid. */
  lastOf(id: string): CachedDecision | undefined {
    return this.#mapOf(id).get(id);
  }

  /** The answer as `get` returns it. */
  believed(cached: CachedDecision | undefined): CachedDecision | undefined {
    if (cached === undefined || cached.era === this.#era) return cached;
    return this.#believesBan(cached) ? onlyBan(cached) : undefined;
  }

  #believesBan({ era, refusal }: CachedDecision): boolean {
    return era === this.#era || (refusal?.banEra ?? era) >= this.#bansFrom;
  }

  /** Called when a call is sent: collects the accounts invalidated until `endCall`. */
  beginCall(): InvalidatedAccounts {
    const invalidated = { ids: undefined, era: this.#era };
    this.#underWay.push(invalidated);
    return invalidated;
  }

  endCall(invalidated: InvalidatedAccounts): void {
    this.#underWay.splice(this.#underWay.indexOf(invalidated), 1);
  }

  /**
   * Keeps an answer of the call that `invalidated` was collected for, unless it is outdated. In this
   * case a later one stays, such as the ban that was read, unless the answer changed it in place.
   */
  put(id: string, answer: CachedDecision, invalidated: InvalidatedAccounts): void {
    const known = this.#mapOf(id);
    if (!invalidated.ids?.has(id)) {
      answer.era = invalidated.era;
      known.set(id, answer);
    } else if (known.get(id) === answer) known.delete(id);
  }

  /** Keeps a ban that was earned while no request waited: the next refusal reports it. */
  putUnreportedBan(id: string, earned: NewBan | undefined): void {
    const refusal = this.get(id)?.refusal;
    if (earned !== undefined && refusal !== undefined) refusal.unreportedBan = earned;
  }

  /**
   * Drops one account. Without a name, drops the refusals of all accounts, because any of them may
   * have changed. The counts of all accounts stay valid: during an outage the shares are computed
   * from them. Bans stay in force during an outage, and are otherwise asked for again.
   */
  invalidate(accountRef?: AccountRef): void {
    const id = accountRef === undefined ? ALL : accountId(accountRef);
    for (const since of this.#underWay) since.ids = (since.ids ?? new Set()).add(id);
    if (accountRef === undefined) this.#era += 1;
    else this.#mapOf(id).delete(id);
  }

  /**
   * Drops the refusals of one account, because its windows have changed. Its counts and its ban are
   * kept as those of all accounts are.
   */
  outdate(accountRef: AccountRef): void {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id);
    this.invalidate(accountRef);
    if (cached === undefined) return;
    const { refusal, era } = cached;
    const banned = refusal && { ...refusal, banEra: refusal.banEra ?? era };
    this.#mapOf(id).set(id, { ...cached, era: OUTDATED, refusal: banned });
  }

  /** Drops what is known of one account but its counts, because its ban changed and nothing else. */
  keepCounts(accountRef: AccountRef): void {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id);
    this.invalidate(accountRef);
    if (cached !== undefined) this.#mapOf(id).set(id, onlyCounts(cached, OUTDATED));
  }

  /** Drops what is known of one account but its ban, because its counts changed and nothing else. */
  keepBan(accountRef: AccountRef): void {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id);
    this.invalidate(accountRef);
    const banned = cached && withoutCounts(cached);
    if (banned !== undefined) this.#mapOf(id).set(id, banned);
  }

  /** Drops all refusals and bans, because a missed message may have lifted one of them. */
  distrust(): void {
    this.invalidate();
    this.#bansFrom = this.#era;
  }

  /**
   * The account in the windows of `limits`, or in all known windows; undefined if there are none.
   * With `limits` an outdated answer serves too: its counts stay valid. Its ban is told while it is
   * believed.
   */
  lastKnown(accountRef: AccountRef, limits?: readonly Limit[]): QuotaDecision | undefined {
    const id = accountId(accountRef);
    const believed = this.get(id);
    const cached = limits === undefined ? believed : this.#mapOf(id).get(id);
    if (cached === undefined) return undefined;
    const known = decisionAfter(cached, this.#time.sinceReceived(cached), limits);
    return believed?.refusal?.ban === undefined ? { ...known, ban: undefined } : known;
  }

  /**
   * The last known count of the window of a counter that starts at `startMs`, even if its refusals
   * were dropped since; 0 if there is none.
   */
  countOf(accountRef: AccountRef, counter: string, startMs: number): number {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id);
    return cached === undefined ? 0 : (windowIn(cached, counter, startMs)?.used ?? 0);
  }

  /**
   * Keeps counts that the store reported at `nowMs` of its clock without a decision: they are now
   * the last known ones of windows that were not decided since.
   */
  learnCounts(accountRef: AccountRef, counts: readonly WindowTotal[], nowMs: number): void {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id) ?? unknownAccount(this.#era);
    if (counts.length === 0) return;
    this.#mapOf(id).set(id, withCounts(cached, counts, this.#time.toldAt(accountRef, nowMs)));
  }

  /** The loss shown by a count that the store reported at `nowMs`; undefined if it shows none. */
  lostOf(accountRef: AccountRef, total: WindowTotal, nowMs: number): LostCount | undefined {
    const cached = this.lastOf(accountId(accountRef));
    return cached && findLossIn(cached, total, nowMs);
  }

  /**
   * Keeps a ban that no answer in time has brought, known at `nowMs` of the store's clock: it was
   * read, decided late, earned here during an outage, or told by another gateway, `toldMsAgo`.
   */
  learnBan(accountRef: AccountRef, ban: Ban, nowMs: number, toldMsAgo?: number): void {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id) ?? unknownAccount(this.#era);
    if (cached.trip.nowMs > nowMs) return;
    const banned = { ban, banEra: this.#era, isTold: toldMsAgo !== undefined };
    this.#mapOf(id).set(
      id,
      withBan(cached, banned, this.#time.toldAt(accountRef, nowMs, toldMsAgo)),
    );
  }

  /**
   * How the decision refuses the request of the account. Time counts from when the decision's call
   * was sent: early costs a command, late would break a promise.
   */
  refusalKind(id: string, cached: CachedDecision, quotaRequest: QuotaRequest): RefusalKind {
    if (cached.refusal === undefined) return "no";
    const nowMs = this.#time.latestNow(cached);
    const kind = refusalKind(cached, quotaRequest, nowMs, this.settlingMeters.of(id));
    return kind !== "no" && this.#time.wasSetBack(cached) ? "unnoted" : kind;
  }

  /** The ban that is known to refuse the request. The store may not have it. */
  banOf(cached: CachedDecision, { bans }: QuotaRequest): Ban | undefined {
    return cached.refusal && knownBan(cached.refusal, bans, this.#time.latestNow(cached));
  }

  /**
   * The known ban that refuses the request although the store has answered without it. One that
   * was only told by another gateway may have been lifted since.
   */
  lostBanOf(cached: CachedDecision, quotaRequest: QuotaRequest): Ban | undefined {
    return cached.refusal?.isTold ? undefined : this.banOf(cached, quotaRequest);
  }

  /** The known ban that refuses the account although the store may answer without it. */
  heldBan(accountRef: AccountRef): Ban | undefined {
    const id = accountId(accountRef);
    const cached = this.#mapOf(id).get(id);
    return cached && this.#heldIn(cached)?.ban;
  }

  /**
   * The held bans of accounts that are not among `stored`. Looks at every account and moves none, so
   * that a question of people neither delays requests nor drops what is known of an account.
   */
  heldBans(stored: Pick<ReadonlySet<string>, "has">): AccountBan[] {
    const held: AccountBan[] = [];
    for (const [id, cached] of this.#accounts) {
      const one = stored.has(id) ? undefined : this.#heldIn(cached);
      if (one !== undefined) held.push({ ...parseAccountId(id), ...one, isLost: true });
    }
    return held;
  }

  #heldIn(cached: CachedDecision): Pick<AccountBan, "ban" | "leftMs"> | undefined {
    const { ban, isTold } = cached.refusal ?? {};
    if (ban === undefined || isTold || !this.#believesBan(cached)) return undefined;
    const leftMs = ban.untilMs - this.#time.latestNow(cached);
    return leftMs > 0 ? { ban, leftMs } : undefined;
  }

  /** Whether a strike that reaches the store within `onItsWayMs` could be the one that bans. */
  mayEarnBan(cached: CachedDecision, { bans }: QuotaRequest, onItsWayMs: number): boolean {
    return couldCauseBan(cached, bans, this.#time.latestNow(cached) + onItsWayMs);
  }

  /** The refusal. Beside a ban, windows have their last known counts: one may end after it. */
  refused(cached: CachedDecision, quotaRequest: QuotaRequest): ChargeResult {
    const { outdated: counted = cached } = cached;
    const { limits, cost = 1 } = quotaRequest;
    const decision = decisionAfter(counted, this.#time.sinceReceived(cached), limits, cost);
    const answer = { decision, requestsAfter: 0, admitted: false, by: "memory" } as const;
    const earned = cached.refusal?.unreportedBan;
    if (cached.refusal === undefined || earned === undefined) return answer;
    cached.refusal.unreportedBan = undefined;
    return { ...answer, earned };
  }

  #mapOf(id: string): AgingMap<CachedDecision> {
    return isAddressId(id) ? this.#addresses : this.#accounts;
  }
}
