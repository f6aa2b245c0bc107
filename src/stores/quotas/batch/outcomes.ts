import type { QuotaDecision } from "../../../core/quota/decide.ts";
import { heldUnits } from "../../../core/quota/meters.ts";
import { rateLimitRefusal } from "../../../core/quota/rate-limit-info.ts";
import type { StoreFailure } from "../../redis/store-failure.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { ChargeResult } from "../quota-store.ts";
import type { MergedRequest } from "./call-queue.ts";

/** A decision for each request, or why there is none. Requests of one call share the ban policy. */
export type CallOutcome =
  | QuotaDecision
  | {
      readonly failure: StoreFailure;
      /** The outcome, if a reply may still come. Never rejects. */
      readonly later?: Promise<CallOutcome> | undefined;
    };

export function failureOf(outcome: CallOutcome | undefined): StoreFailure | undefined {
  return outcome !== undefined && "failure" in outcome ? outcome.failure : undefined;
}

/** The decision of an outcome; undefined if there is none. */
export function decisionOf(outcome: CallOutcome | undefined): QuotaDecision | undefined {
  return outcome === undefined || "failure" in outcome ? undefined : outcome;
}

export function laterOf(outcome: CallOutcome | undefined): Promise<CallOutcome> | undefined {
  return outcome !== undefined && "failure" in outcome ? outcome.later : undefined;
}

/**
 * The units of requests whose call may have run, unless a reply may still say so. They count as not
 * run, and may be charged twice.
 */
export function uncertainCharges(
  requests: readonly MergedRequest[],
  outcomes: readonly CallOutcome[],
): UncertainCharge[] {
  return requests.flatMap(({ accountRef, cached, quotaRequest, waiting }, i) => {
    const isUnknown = failureOf(outcomes[i])?.executed === "unknown" && !laterOf(outcomes[i]);
    if (!isUnknown || cached !== undefined) return [];
    const { cost = 1, limits } = quotaRequest;
    const meters = heldUnits(limits).map(({ name, units }) => {
      return { name, units: waiting.length * units };
    });
    const charge = { accountRef, units: waiting.length * cost };
    if (meters.length > 0) return [{ ...charge, meters }];
    return cost === 0 ? [] : [charge];
  });
}

/**
 * Answers the requests that the store decided together: the first are admitted, as many as it
 * granted, and the others refused.
 */
export function answerWaiting(merged: MergedRequest, decision: QuotaDecision): void {
  const { quotaRequest, waiting, reserved } = merged;
  const { granted } = decision;
  const { cost = 1 } = quotaRequest;
  const share = granted < waiting.length ? shareRefusal(decision, cost, reserved) : undefined;
  for (let i = 0; i < waiting.length; i++) {
    const admitted = i < granted;
    if (share !== undefined && !admitted) {
      waiting[i]?.(share);
      continue;
    }
    const requestsAfter = admitted ? granted - 1 - i : 0;
    // Reported to only one of the refused requests: a ban is earned once.
    const earned = i === granted ? decision.newBan : undefined;
    const answer = { decision, requestsAfter, admitted, by: "store" } as const;
    waiting[i]?.(earned === undefined ? answer : { ...answer, earned });
  }
}

/**
 * The refusal of requests that fit in the plan's limits, but not without the units that are kept
 * for other gateways; undefined if a limit or a ban refuses them.
 */
function shareRefusal(
  decision: QuotaDecision,
  cost: number,
  reserved: readonly number[] | undefined,
): ChargeResult | undefined {
  if (reserved === undefined) return undefined;
  if (rateLimitRefusal(decision, decision.nowMs, cost) !== undefined) return undefined;
  const windows = decision.windows.map((usage, i) => {
    return { ...usage, limit: Math.max(0, usage.limit - (reserved[i] ?? 0)) };
  });
  return { decision: { ...decision, windows }, requestsAfter: 0, admitted: false, by: "share" };
}
