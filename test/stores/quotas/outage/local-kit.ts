import {
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
} from "../../../../src/core/quota/decide.ts";
import {
  counterName,
  counterWindow,
  type Limit,
  windowEnd,
} from "../../../../src/core/quota/windows.ts";
import type { OutageContext } from "../../../../src/stores/quotas/outage/local-quotas.ts";
import { account } from "../redis/redis-kit.ts";

export const NOON = Date.UTC(2026, 6, 15, 12);
export const MINUTE = 60_000;
export const DAY_START = Date.UTC(2026, 6, 15);
export const accountRef = account("a");

export function asking(...limits: Limit[]): QuotaRequest {
  return { limits, bans: undefined, requests: 1 };
}

/** The last answer of the store, when `used` units had been charged to all windows at `nowMs`. */
export function toldBy(quotaRequest: QuotaRequest, used: number, nowMs: number): QuotaDecision {
  return decide(NEW_ACCOUNT_STATE, { ...quotaRequest, requests: used }, nowMs).decision;
}

type Terms = Partial<Omit<OutageContext, "knownCount">> & { last?: QuotaDecision | undefined };

/** `last` is the last answer of the store. */
export function terms({ last, ...more }: Terms = {}): OutageContext {
  const knownCount = (counter: string, startMs: number) => {
    const found = last?.windows.find((one) => counterName(one) === counter);
    return found?.resetMs === windowEnd(counterWindow(counter), startMs) ? found.used : 0;
  };
  const { nowMs = NOON, latestMs = nowMs } = more;
  return { gateways: 1, pendingBefore: 0, knownCount, ...more, nowMs, latestMs };
}
