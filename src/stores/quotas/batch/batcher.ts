import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import { type AccountRef, accountId, isAddressAccount } from "../account-ref.ts";
import type { LostCount } from "../count-corrections.ts";
import type { ChargeResult, StoreUnavailable } from "../quota-store.ts";
import { cacheDecision, type PacedKind, type RoundTrip } from "./cached-decision.ts";
import {
  boundTurn,
  CALL_ACCOUNTS_MAX,
  type KnownRefusal,
  type MergedRequest,
  waitForDecision,
} from "./call-queue.ts";
import type { DecisionCache, InvalidatedAccounts } from "./decision-cache.ts";
import { isPaced } from "./known-refusal.ts";
import { findLostCount } from "./lost-count.ts";
import { canMerge } from "./mergeable.ts";
import { answerWaiting } from "./outcomes.ts";
import { Rounds, type RoundsOptions } from "./rounds.ts";

export type BatcherOptions = RoundsOptions & {
  readonly decisionCache: DecisionCache;
  /**
   * Called with every decision of the store, and with the counts it has lost since the one before.
   */
  readonly onVerdict: (
    accountRef: AccountRef,
    decision: QuotaDecision,
    lost: LostCount | undefined,
  ) => void;
};

/**
 * Decides waiting requests together (docs/architecture.md). While rounds are in flight, requests
 * gather, and the next round carries all of them. A refusal that follows from the cached decision
 * costs no call, or goes with a paced one if it could be a strike or cannot tell each window.
 *
 * No request waits for a call longer than the outage handler allows. After that its requests are
 * decided without the store, and the call itself charges nothing any more
 * (docs/reference/store.md#deadlines).
 */
export class Batcher {
  readonly #options: BatcherOptions;
  readonly #rounds: Rounds;

  constructor(options: BatcherOptions) {
    this.#options = options;
    this.#rounds = new Rounds(options, {
      settle: (merged, decision, trip, invalidated) => {
        this.#settle(merged, decision, trip, invalidated);
      },
      fail: (merged) => this.#fail(merged),
    });
  }

  charge(
    accountRef: AccountRef,
    quotaRequest: QuotaRequest,
  ): ChargeResult | StoreUnavailable | Promise<ChargeResult | StoreUnavailable> {
    const { decisionCache, outage } = this.#options;
    const id = accountId(accountRef);
    const cached = decisionCache.get(id);
    const kind = cached === undefined ? "no" : decisionCache.refusalKind(id, cached, quotaRequest);
    if (cached !== undefined && kind === "surely")
      return this.#refused(accountRef, cached, quotaRequest);
    if (cached !== undefined && isPaced(kind))
      return this.#sendPaced({ id, accountRef, quotaRequest, cached }, kind);
    const queue = this.#rounds.queueOf(accountRef);
    if (outage.isAway(queue.number)) {
      return cached !== undefined && kind === "unnoted"
        ? this.#refused(accountRef, cached, quotaRequest)
        : outage.decide(accountRef, quotaRequest);
    }

    const isBanned =
      cached !== undefined && decisionCache.banOf(cached, quotaRequest) !== undefined;
    const asked = isBanned ? { ...quotaRequest, strikesOnly: true } : quotaRequest;
    let merged = queue.open.get(id);
    if (merged === undefined || !canMerge(merged.quotaRequest, asked)) {
      const known = isBanned ? cached : undefined;
      merged = { id, accountRef, quotaRequest: asked, cached: known, waiting: [] };
      this.#rounds.add(queue, merged);
    }
    return waitForDecision(merged);
  }

  close(): void {
    this.#rounds.close();
  }

  /**
   * Sends a known refusal. Only one of an account is in flight at a time, and at most as many
   * accounts as fit in a call. The request waits for the store if the usage of a window is unknown or
   * stale, or if its strike could earn a ban. Otherwise it is refused immediately, and only the strike
   * is sent.
   */
  #sendPaced({ id, accountRef, quotaRequest, cached }: KnownRefusal, kind: PacedKind) {
    const { decisionCache, outage } = this.#options;
    const queue = this.#rounds.queueOf(accountRef);
    // Client addresses, of which anyone may have any number, leave half of the places to accounts.
    const places = isAddressAccount(accountRef) ? CALL_ACCOUNTS_MAX / 2 : CALL_ACCOUNTS_MAX;
    const full = queue.strikes.length >= places;
    if (cached.refusal?.pending !== undefined || full || outage.isAway(queue.number))
      return this.#refused(accountRef, cached, quotaRequest);
    if (cached.refusal !== undefined) cached.refusal.pending = kind;
    const onItsWayMs = this.#rounds.longestPauseMs + outage.timeoutMs;
    const waits =
      kind === "incomplete" || decisionCache.mayEarnBan(cached, quotaRequest, onItsWayMs);
    const isStrike = !waits || decisionCache.banOf(cached, quotaRequest) !== undefined;
    const asked = isStrike ? { ...quotaRequest, strikesOnly: true } : quotaRequest;
    const merged: MergedRequest = { id, accountRef, quotaRequest: asked, cached, waiting: [] };
    this.#rounds.addKnown(queue, merged);
    if (kind === "incomplete")
      boundTurn(queue, merged, outage.timeoutMs, () => this.#answerAlone(merged));
    return waits ? waitForDecision(merged) : this.#refused(accountRef, cached, quotaRequest);
  }

  #refused(accountRef: AccountRef, cached: KnownRefusal["cached"], quotaRequest: QuotaRequest) {
    const { decisionCache, outage } = this.#options;
    return outage.withOwed(accountRef, decisionCache.refused(cached, quotaRequest));
  }

  #settle(
    merged: MergedRequest,
    decision: QuotaDecision,
    trip: RoundTrip,
    invalidated: InvalidatedAccounts,
  ): void {
    const { id, accountRef, quotaRequest, waiting } = merged;
    const { decisionCache, onVerdict } = this.#options;
    const last = decisionCache.lastOf(id);
    // A change of the account, or of the configuration, lowers no count.
    onVerdict(accountRef, decision, findLostCount(last, quotaRequest, decision));
    const before = decisionCache.believed(last);
    const isUnbanned = quotaRequest.strikesOnly && decision.ban === undefined;
    // A lifted ban is dropped by a message, so that one which is still known is lost in the store.
    const ban = isUnbanned && before ? decisionCache.lostBanOf(before, quotaRequest) : decision.ban;
    const told = ban === decision.ban ? decision : { ...decision, ban };
    const asked = quotaRequest.strikesOnly ? 1 : waiting.length;
    decisionCache.put(id, cacheDecision(quotaRequest, told, trip, before, asked), invalidated);
    if (waiting.length === 0) decisionCache.putUnreportedBan(id, decision.newBan);
    if (isUnbanned && ban === undefined) this.#askAgain(merged);
    else answerWaiting(merged, told);
  }

  /** Asks for the requests that went as those of a banned account, whose ban was lifted meanwhile. */
  #askAgain({ accountRef, quotaRequest, waiting }: MergedRequest): void {
    const asked = { ...quotaRequest, strikesOnly: false };
    for (const answer of waiting) void Promise.resolve(this.charge(accountRef, asked)).then(answer);
  }

  #fail(merged: MergedRequest): void {
    const { id, cached } = merged;
    const latest = this.#options.decisionCache.get(id);
    if (cached?.refusal) cached.refusal.pending = undefined;
    // A message may have replaced the decision meanwhile by one with other counts.
    if (cached && latest?.refusal) latest.refusal.pending = undefined;
    this.#answerAlone(merged);
  }

  /** Answers the requests without the store. */
  #answerAlone({ id, accountRef, quotaRequest, cached, waiting }: MergedRequest): void {
    const { decisionCache, outage } = this.#options;
    const known = cached ?? decisionCache.get(id);
    for (const answer of waiting) {
      const isRefused = known && decisionCache.refusalKind(id, known, quotaRequest) !== "no";
      if (isRefused) answer(this.#refused(accountRef, known, quotaRequest));
      // The ban for which it was to be a strike alone may be over, or lifted, meanwhile.
      else answer(outage.decide(accountRef, { ...quotaRequest, strikesOnly: false }));
    }
  }
}
