import {
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
} from "../../../../src/core/quota/decide.ts";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import type { OutageContext } from "../../../../src/stores/quotas/outage/local-quotas.ts";
import { account } from "../redis/redis-kit.ts";

export const NOON = Date.UTC(2026, 6, 15, 12);
export const MINUTE = 60_000;
export const DAY_START = Date.UTC(2026, 6, 15);
export const name = account("a");

export function asking(...limits: Limit[]): QuotaRequest {
  return { limits, bans: undefined, requests: 1 };
}

/** The last answer of the store, when `used` units had been charged to all windows at `nowMs`. */
export function toldBy(ask: QuotaRequest, used: number, nowMs: number): QuotaDecision {
  return decide(NEW_ACCOUNT_STATE, { ...ask, requests: used }, nowMs).verdict;
}

export function terms(more: Partial<OutageContext> = {}): OutageContext {
  return { nowMs: NOON, wentMs: NOON, gateways: 1, last: undefined, pending: 0, ...more };
}
