import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import { costIn } from "../../../core/quota/windows.ts";
import type { AccountRef } from "../account-ref.ts";
import type { DecisionCache } from "../batch/decision-cache.ts";
import type { CountCorrections } from "../count-corrections.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type { AccountRequest, ChargeResult } from "../quota-store.ts";
import type { LocalQuotas, OutageContext } from "./local-quotas.ts";

type KnownAccountsOptions = {
  readonly decisionCache: DecisionCache;
  readonly corrections: Pick<CountCorrections, "onBanned" | "onCounted">;
  readonly localQuotas: LocalQuotas;
  /** How requests without an answer are admitted now; undefined if no outage admits any. */
  readonly mode: () => "local" | "allow" | undefined;
  readonly outageContext: (accountRef: AccountRef) => OutageContext;
};

/**
 * The accounts of one circuit breaker as they are known without a decision in time. Answers their
 * last known state, and learns from late decisions and from readings.
 */
export class KnownAccounts {
  readonly #options: KnownAccountsOptions;

  constructor(options: KnownAccountsOptions) {
    this.#options = options;
  }

  /** See OutageHandler.withOwed. */
  withOwed(accountRef: AccountRef, refused: ChargeResult): ChargeResult {
    const { debts } = this.#options.localQuotas;
    if (!debts.hasAny) return refused;
    return { ...refused, decision: debts.countIn(accountRef, refused.decision) };
  }

  /** See OutageHandler.lastKnown. */
  lastKnown(...[accountRef, limits, known, options]: Parameters<OutageHandler["lastKnown"]>) {
    const { localQuotas, mode, outageContext } = this.#options;
    const admitting = mode();
    if (admitting === undefined) return known;
    // Beside a ban, a refusal tells the whole limits.
    if (options.isRead || known?.ban !== undefined) {
      return known && localQuotas.debts.countIn(accountRef, known);
    }
    return localQuotas.peek(accountRef, limits, outageContext(accountRef), admitting);
  }

  /** See OutageHandler.onLateDecision. */
  onLateDecision({ accountRef, quotaRequest }: AccountRequest, decision: QuotaDecision): void {
    const { localQuotas, decisionCache, corrections } = this.#options;
    const { debts } = localQuotas;
    this.#learnBan(accountRef, quotaRequest, decision);
    const { cost = 1, plan } = quotaRequest;
    const { granted, windows, nowMs } = decision;
    const isCharged = granted > 0 && windows.some((one) => costIn(one, cost) !== 0);
    if (!isCharged) return;
    for (const usage of debts.subtract(accountRef, quotaRequest, decision)) {
      corrections.onCounted({ accountRef, plan, usage });
    }
    decisionCache.learnCounts(accountRef, debts.totalsOf(accountRef, windows), nowMs);
  }

  /** See OutageHandler.onReading. */
  onReading(accountRef: AccountRef, { windows, ban, nowMs }: QuotaDecision): void {
    const { localQuotas, decisionCache } = this.#options;
    const totals = localQuotas.debts.totalsOf(accountRef, windows);
    // An unused window is told as unused anyway, and an account may have many operations.
    const counts = totals.filter(({ counter, startMs, used }) => {
      return used > 0 || decisionCache.countOf(accountRef, counter, startMs) > 0;
    });
    decisionCache.learnCounts(accountRef, counts, nowMs);
    if (ban !== undefined) decisionCache.learnBan(accountRef, ban, nowMs);
  }

  /** Reports a ban that no request was told, and refuses for it from now on. */
  #learnBan(accountRef: AccountRef, { plan }: QuotaRequest, decision: QuotaDecision): void {
    const { ban, newBan: earned, nowMs } = decision;
    const { localQuotas, decisionCache, corrections } = this.#options;
    if (earned === undefined) return;
    if (ban !== undefined) decisionCache.learnBan(accountRef, ban, nowMs);
    if (localQuotas.isBanned(accountRef, nowMs)) return;
    corrections.onBanned({ accountRef, plan, decision, earned });
  }
}
