import type { BanPolicy } from "../../../src/core/quota/bans.ts";
import { decide, NEW_ACCOUNT_STATE, type QuotaDecision } from "../../../src/core/quota/decide.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";

export const SECOND = 1_000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
export const NOON = Date.UTC(2026, 6, 15, 12);
export const BANS: BanPolicy = {
  strikes: 3,
  withinMs: MINUTE,
  graceMs: SECOND,
  durationMs: MINUTE,
  factor: 4,
  maxMs: HOUR,
  forgetAfterMs: DAY,
};
export const DAY_1: readonly Limit[] = [{ window: "day", limit: 1 }];

/** An account over time: each step asks at an instant and gives the verdict. */
export function timeline(
  limits: readonly Limit[],
  policy: BanPolicy | "off" | undefined = BANS,
  from = NEW_ACCOUNT_STATE,
) {
  const bans = policy === "off" ? undefined : policy;
  let account = from;
  return {
    get account() {
      return account;
    },
    at(nowMs: number, units = 1, now: { limits?: readonly Limit[] } = {}): QuotaDecision {
      const decision = decide(
        account,
        { limits: now.limits ?? limits, bans, requests: units },
        nowMs,
      );
      account = decision.account;
      return decision.decision;
    },
  };
}
