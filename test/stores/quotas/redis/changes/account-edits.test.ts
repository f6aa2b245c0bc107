import assert from "node:assert/strict";
import { afterEach, it, vi } from "vitest";
import type { AccountChanges } from "../../../../../src/stores/quotas/redis/changes/account-changes.ts";
import { AccountEdits } from "../../../../../src/stores/quotas/redis/changes/account-edits.ts";
import {
  type QuotaClient,
  REPLY_LATE_MS,
} from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { account } from "../redis-kit.ts";

/** So long the store takes to tell its clock. */
const CLOCK_MS = 1_500;

afterEach(() => {
  vi.useRealTimers();
});

it("a change by hand is given up two seconds after it was asked for, the time that the clock took included", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const giveUps: unknown[] = [];
  const quotaClient = {
    ensureClock: async () => void vi.advanceTimersByTime(CLOCK_MS),
    keyOf: () => "tg:{0}:production:a",
    runOnAccounts: (...[, , , giveUpMs]: Parameters<QuotaClient["runOnAccounts"]>) => {
      giveUps.push(giveUpMs);
      return new Promise(() => {});
    },
  } as unknown as QuotaClient;
  const edits = new AccountEdits(quotaClient, {} as AccountChanges, "redis://…");
  const endMs = performance.now() + REPLY_LATE_MS;
  const ends: unknown[] = [];
  edits.liftBan(account("a")).catch(({ code, message }) => ends.push(code, message));
  const pass = async (ms: number) => {
    // A timer that is due waits for what was received meanwhile.
    for (let i = 0; i < 5; i++) await new Promise(setImmediate);
    vi.advanceTimersByTime(ms);
    for (let i = 0; i < 5; i++) await new Promise(setImmediate);
    return [...ends];
  };
  assert.deepEqual(await pass(REPLY_LATE_MS - CLOCK_MS - 1), []);
  assert.deepEqual(
    [await pass(1), giveUps],
    [["late", `Redis: no answer in ${REPLY_LATE_MS} ms`], [endMs]],
  );
});
