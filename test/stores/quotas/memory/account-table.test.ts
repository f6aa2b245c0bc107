import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "vitest";
import type { BanPolicy } from "../../../../src/core/quota/bans.ts";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { SPARE_MS } from "../../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import { openFolder } from "../../../cli/kit.ts";
import { eventually } from "../../../support/poll.ts";
import { account } from "../redis/redis-kit.ts";

const BANS: BanPolicy = {
  strikes: 2,
  withinMs: 60_000,
  graceMs: 1_000,
  durationMs: 60_000,
  factor: 4,
  maxMs: 3_600_000,
  forgetAfterMs: 3_600_000,
};

const AWAY = { onStoreFailure: "deny", expectedGateways: 1, storeTimeoutMs: 50 } as const;

async function openAt(startMs: number, stateFile?: string) {
  const clock = { ms: startMs };
  const store = await createMemoryQuotaStore({
    now: () => clock.ms,
    report: () => undefined,
    bans: BANS,
    everyMs: 5,
    ...(stateFile !== undefined && { stateFile }),
  });
  return { store, clock, [Symbol.asyncDispose]: () => store.close() };
}

const second = (bans: BanPolicy | undefined): QuotaRequest => ({
  limits: [{ window: "second", limit: 1 }],
  bans,
  requests: 1,
});

it("more banned accounts than are listed at once are all listed", async () => {
  const noonMs = Date.UTC(2026, 6, 15, 12);
  await using house = await openAt(noonMs);
  const { store, clock } = house;
  const ACCOUNTS = 10_001;
  const once = { ...BANS, strikes: 1, graceMs: 0 };
  for (const atMs of [noonMs, noonMs + 1, noonMs + 2]) {
    clock.ms = atMs;
    for (let i = 0; i < ACCOUNTS; i++) await store.charge(account(`a${i}`), second(once));
  }
  assert.equal((await store.bans()).length, ACCOUNTS);
});

it("an account is kept for its strikes while they count, and let go of when they do not", async () => {
  const noonMs = Date.UTC(2026, 6, 15, 12);
  await using house = await openAt(noonMs);
  const { store, clock } = house;
  const struck = account("struck");
  // A strike comes more than the grace after the first refusal of its window.
  const minute: QuotaRequest = {
    limits: [{ window: "minute", limit: 1 }],
    bans: BANS,
    requests: 1,
  };
  await store.charge(struck, minute);
  await store.charge(struck, minute);
  clock.ms = noonMs + 30_000;
  assert.ok("decision" in (await store.charge(struck, minute)));
  assert.equal(store.lastKnown(struck)?.strikes, 1);
  // The minute is over, the strike counts for another half.
  clock.ms = noonMs + 60_001;
  await passes(store, clock);
  assert.ok(store.lastKnown(struck));
  clock.ms = noonMs + 30_000 + 60_001 + SPARE_MS;
  await eventually(() => assert.equal(store.lastKnown(struck), undefined));
});

it("a ban ends an account's time in memory where bans were turned off since", async () => {
  const noonMs = Date.UTC(2026, 6, 15, 12);
  await using house = await openAt(noonMs);
  const { store, clock } = house;
  const once = { ...BANS, strikes: 1, graceMs: 0 };
  const banned = account("banned");
  for (const atMs of [0, 1, 2]) {
    clock.ms = noonMs + atMs;
    await store.charge(banned, second(once));
  }
  assert.equal((await store.bans()).length, 1);
  store.reconfigure({ ...AWAY, historyMs: undefined, bans: undefined });
  clock.ms = noonMs + 59_000;
  await passes(store, clock);
  assert.ok(store.lastKnown(banned));
  clock.ms = noonMs + 61_000 + SPARE_MS;
  await eventually(() => assert.equal(store.lastKnown(banned), undefined));
});

describe("a window that is used up, whose end is past and that no request has followed,", () => {
  const month: QuotaRequest = {
    limits: [{ window: "month", limit: 1 }],
    bans: undefined,
    requests: 1,
  };
  const endMs = Date.UTC(2028, 0, 1);
  const used = account("used");

  it("stays used up when the clock steps back behind its end within a minute", async () => {
    await using house = await openAt(endMs - 1_500);
    const { store, clock } = house;
    assert.equal(await isAdmitted(store, used, month), true);
    clock.ms = endMs + SPARE_MS - 1;
    await passes(store, clock);
    clock.ms = endMs - 2_000;
    assert.equal(await isAdmitted(store, used, month), false);
  });

  it("stays used up over a restart", async () => {
    await using folder = await openFolder();
    const stateFile = join(folder.path, "state.json");
    const before = await openAt(endMs - 1_500, stateFile);
    assert.equal(await isAdmitted(before.store, used, month), true);
    before.clock.ms = endMs + 500;
    await before.store.close();
    await using house = await openAt(endMs + SPARE_MS - 1, stateFile);
    const { store, clock } = house;
    await passes(store, clock);
    clock.ms = endMs - 2_000;
    assert.equal(await isAdmitted(store, used, month), false);
  });

  it("is let go of after a minute, so that idle accounts take no memory", async () => {
    await using house = await openAt(endMs - 1_500);
    const { store, clock } = house;
    await store.charge(used, month);
    clock.ms = endMs + SPARE_MS;
    await eventually(() => assert.equal(store.lastKnown(used), undefined));
  });
});

async function isAdmitted(store: Store, accountRef: AccountRef, request: QuotaRequest) {
  const answer = await store.charge(accountRef, request);
  return "admitted" in answer && answer.admitted;
}

type Store = Awaited<ReturnType<typeof createMemoryQuotaStore>>;

/** Waits until a sweep has looked at every account: one that is over is gone. */
async function passes(store: Store, clock: { ms: number }): Promise<void> {
  const nowMs = clock.ms;
  clock.ms = nowMs - 2_000 - SPARE_MS;
  const marker = account("marker");
  await store.charge(marker, second(BANS));
  clock.ms = nowMs;
  await eventually(() => assert.equal(store.lastKnown(marker), undefined));
}
