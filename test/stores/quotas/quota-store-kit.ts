import assert from "node:assert/strict";
import { afterEach } from "vitest";
import type { BanPolicy } from "../../../src/core/quota/bans.ts";
import type { QuotaRequest, WindowUsage } from "../../../src/core/quota/decide.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { ChargeResult, QuotaStore } from "../../../src/stores/quotas/quota-store.ts";

/** A store whose clock the test holds. Each opening is of an empty store, or of accounts of its own. */
export type OpenQuotaStore = (now: () => number) => Promise<QuotaStore>;

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const DAY = 1_440 * MINUTE;
/** Ten seconds into a minute of a day of a month that has more of each before and after. */
export const START = Date.UTC(2026, 6, 15, 12, 30, 10);
export const BANS: BanPolicy = {
  strikes: 3,
  withinMs: MINUTE,
  graceMs: SECOND,
  durationMs: MINUTE,
  factor: 4,
  maxMs: 10 * MINUTE,
  forgetAfterMs: 20 * MINUTE,
};
export const MINUTE_2_DAY_5 = [
  { window: "minute", limit: 2 },
  { window: "day", limit: 5 },
] as const;
export const DAY_1 = [{ window: "day", limit: 1 }] as const;

/**
 * The parts that the claims about one engine share: the clock, and stores that are closed after
 * each test.
 */
export class Bench {
  nowMs = START;
  readonly #open: OpenQuotaStore;
  readonly #opened: QuotaStore[] = [];
  #count = 0;

  constructor(open: OpenQuotaStore) {
    this.#open = open;
    afterEach(async () => {
      for (const store of this.#opened.splice(0)) await store.close();
    });
  }

  async start(): Promise<{ store: QuotaStore; accountRef: AccountRef }> {
    this.nowMs = START;
    this.#count += 1;
    const store = await this.#open(() => this.nowMs);
    this.#opened.push(store);
    return { store, accountRef: { environment: "production", account: `acct_${this.#count}` } };
  }
}

export async function spend(
  store: QuotaStore,
  accountRef: AccountRef,
  limits: readonly Limit[],
  bans: BanPolicy | "off" = BANS,
): Promise<ChargeResult> {
  const quotaRequest: QuotaRequest = {
    limits,
    bans: bans === "off" ? undefined : bans,
    requests: 1,
  };
  const answer = await store.charge(accountRef, quotaRequest);
  assert.ok("decision" in answer, "the store gave no answer");
  return answer;
}

export async function spendTimes(
  store: QuotaStore,
  accountRef: AccountRef,
  limits: readonly Limit[],
  times: number,
): Promise<boolean[]> {
  const admitted: boolean[] = [];
  for (let i = 0; i < times; i++) admitted.push((await spend(store, accountRef, limits)).admitted);
  return admitted;
}

export async function used(store: QuotaStore, accountRef: AccountRef, limits: readonly Limit[]) {
  return usedIn((await store.peek(accountRef, { limits, bans: BANS })).windows);
}

export function usedIn(windows: readonly WindowUsage[]): number[] {
  return windows.map((window) => window.used);
}
