import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import type { ChargeResult, QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { each } from "../../../support/each.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend } from "../redis/redis-kit.ts";

let opened: QuotaStore[] = [];
afterEach(async () => {
  await Promise.all(opened.map((store) => store.close()));
  opened = [];
});
const { server, redis } = await useRedis();

async function openHere(): Promise<QuotaStore> {
  const { store } = await open(server.address);
  opened.push(store);
  return store;
}

/** Calls of the script so far: what a gateway sends for its requests. */
async function scriptCalls(): Promise<number> {
  return (await server.calls("evalsha")) + (await server.calls("eval"));
}

/** The heartbeat is a call too, a few times a second: it may fall among one try, and not among all. */
const SOON = { withinMs: 5_000 };

describe("requests that wait", () => {
  it("of one tick and one account are one call, and the first are granted", async () => {
    const store = await openHere();
    await spend(store, account("warm"), perDay(1));
    const answers = await eventually(async () => {
      const accountRef = account(`merged${await scriptCalls()}`);
      const before = await scriptCalls();
      const all = await Promise.all(
        Array.from({ length: 200 }, () => spend(store, accountRef, perDay(120))),
      );
      assert.equal((await scriptCalls()) - before, 1);
      return all;
    }, SOON);
    assert.deepEqual(
      answers.map(({ admitted }) => admitted),
      answers.map((_, i) => i < 120),
    );
    // The remaining units that each was told count down, as if they had come one by one.
    const remaining = answers
      .filter(({ admitted }) => admitted)
      .map(({ decision, requestsAfter }) => 120 - (decision.windows[0]?.used ?? 0) + requestsAfter);
    assert.deepEqual(
      remaining,
      Array.from({ length: 120 }, (_, i) => 119 - i),
    );
    assert.deepEqual(
      answers.slice(120).map(({ requestsAfter }) => requestsAfter),
      Array(80).fill(0),
    );
  });

  it("of 256 accounts are one call, of 257 two", async () => {
    const store = await openHere();
    await spend(store, account("warm"), perDay(1));
    for (const [accounts, calls] of [
      [256, 1],
      [257, 2],
    ] as const) {
      await eventually(async () => {
        const before = await scriptCalls();
        const asks = Array.from({ length: accounts }, (_, i) =>
          spend(store, account(`n${i}`), perDay(1_000)),
        );
        assert.ok(each(await Promise.all(asks)).every(({ admitted }) => admitted));
        assert.equal((await scriptCalls()) - before, calls);
      }, SOON);
    }
  });

  it("under other limits or another policy are decided under their own", async () => {
    const store = await openHere();
    const [one, other] = await Promise.all([
      Promise.all([1, 2, 3].map(() => spend(store, account("reload"), perDay(2)))),
      Promise.all([1, 2, 3].map(() => spend(store, account("reload"), perDay(4)))),
    ]);
    assert.deepEqual(
      one.map(({ admitted }) => admitted),
      [true, true, false],
    );
    assert.deepEqual(
      other.map(({ admitted }) => admitted),
      [true, true, false],
    );
    assert.deepEqual(
      other[0]?.decision.windows.map(({ limit }) => limit),
      [4],
    );
    const off = await Promise.all([
      spend(store, account("p"), perDay(2, undefined)),
      spend(store, account("p"), perDay(2, DEFAULT_BANS)),
      spend(store, account("p"), perDay(2, { ...DEFAULT_BANS, strikes: 3 })),
    ]);
    assert.deepEqual(
      off.map(({ admitted }) => admitted),
      [true, true, false],
    );
  });

  for (const accounts of [1, 1_000]) {
    it(`cost at most 0.1 calls each at 64 at a time on ${accounts} accounts`, async () => {
      const store = await openHere();
      const [before, requests] = [await scriptCalls(), 20_000];
      let [sent, admitted] = [0, 0];
      const client = async () => {
        while (sent < requests) {
          const accountRef = account(`c${sent++ % accounts}`);
          if ((await spend(store, accountRef, perDay(1e9))).admitted) admitted++;
        }
      };
      await Promise.all(Array.from({ length: 64 }, client));
      const each = ((await scriptCalls()) - before) / requests;
      assert.equal(admitted, requests);
      assert.ok(each <= 0.1, `${each} calls a request`);
    });
  }
});

/** All that gateways sent: scripts, and the version that each reads once a second. */
async function commands(): Promise<number> {
  return (await scriptCalls()) + (await server.calls("get"));
}

describe("a flood", () => {
  /**
   * Sends for `ms`, and on until it has sent a thousand requests. Gives the commands a second and the
   * answers that were no refusals.
   */
  async function flood(
    store: QuotaStore,
    ms: number,
    accounts: number,
    quotaRequest: QuotaRequest,
  ) {
    const startMs = performance.now();
    const before = await commands();
    const endMs = performance.now() + ms;
    let [requests, passed] = [0, 0];
    const client = async () => {
      while (performance.now() < endMs || requests < 1_000) {
        const accountRef = account(`x${requests++ % accounts}`);
        if ((await spend(store, accountRef, quotaRequest)).admitted) passed++;
        if (requests % 16 === 0) await new Promise(setImmediate);
      }
    };
    await Promise.all(Array.from({ length: 64 }, client));
    const sent = (await commands()) - before;
    // A busy machine takes longer than it was asked to, and so do the commands.
    return { passed, perSecond: (1_000 * sent) / (performance.now() - startMs) };
  }

  async function exhaust(
    store: QuotaStore,
    accounts: number,
    quotaRequest: QuotaRequest,
  ): Promise<void> {
    const spends: Promise<ChargeResult>[] = [];
    for (let i = 0; i < 3 * accounts; i++)
      spends.push(spend(store, account(`x${i % accounts}`), quotaRequest));
    await Promise.all(spends);
  }

  for (const accounts of [1, 2_000]) {
    it(`over the exhausted windows of ${accounts} accounts costs at most 20 calls a second`, async () => {
      const store = await openHere();
      await exhaust(store, accounts, perDay(1));
      const { passed, perSecond } = await flood(store, 1_500, accounts, perDay(1));
      assert.equal(passed, 0);
      assert.ok(perSecond <= 20, `${perSecond} calls a second`);
    });
  }

  it("over windows with room for a smaller cost asks for longer ones within 20 calls a second", async () => {
    const store = await openHere();
    const limits = [
      { window: "day", limit: 3 },
      { window: "month", limit: 9 },
    ] as const;
    const quotaRequest: QuotaRequest = { limits, bans: undefined, requests: 1, cost: 2 };
    await exhaust(store, 1_000, quotaRequest);
    const { passed, perSecond } = await flood(store, 3_000, 1_000, quotaRequest);
    assert.equal(passed, 0);
    assert.ok(perSecond > 1 && perSecond <= 20, `${perSecond} calls a second`);
  });

  it("without any grace, where each refusal may be a strike, costs no more, and is banned", async () => {
    const store = await openHere();
    const quotaRequest = perDay(1, { ...DEFAULT_BANS, graceMs: 0, strikes: 5 });
    await exhaust(store, 1, quotaRequest);
    const { perSecond } = await flood(store, 1_000, 1, quotaRequest);
    assert.ok(perSecond <= 20, `${perSecond} calls a second`);
    const { decision, admitted } = await spend(store, account("x0"), quotaRequest);
    assert.deepEqual([admitted, decision.ban?.offences], [false, 1]);
  });

  it("that earns a thousand bans costs no more, their telling included", async () => {
    const store = await openHere();
    const quotaRequest = perDay(1, { ...DEFAULT_BANS, graceMs: 0, strikes: 1 });
    await exhaust(store, 1_000, quotaRequest);
    const { perSecond, passed } = await flood(store, 2_000, 1_000, quotaRequest);
    assert.equal(passed, 0);
    assert.ok(perSecond <= 20, `${perSecond} commands a second`);
    // A busy machine may not have come to all of them in two seconds, nor in one round more.
    await eventually(async () => {
      await exhaust(store, 1_000, quotaRequest);
      assert.equal((await store.bans()).length, 1_000);
    });
  });

  it("goes on making strikes when what is known is forgotten meanwhile", async () => {
    const store = await openHere();
    const quotaRequest = perDay(1, { ...DEFAULT_BANS, graceMs: 0, strikes: 3 });
    await exhaust(store, 1, quotaRequest);
    for (let i = 0; i < 12; i++) {
      const answer = spend(store, account("x0"), quotaRequest);
      // A strike is under way: this is about others, and about itself.
      store.invalidate(account(i % 2 === 0 ? "other" : "x0"));
      await answer;
      // A strike comes more than the grace of 0 ms after the one before.
      await sleep(2);
    }
    assert.equal((await spend(store, account("x0"), quotaRequest)).decision.ban?.offences, 1);
  });

  it("of 200 at once earns no strike, however they are merged", async () => {
    const store = await openHere();
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => spend(store, account("burst"), perDay(1))),
    );
    assert.equal(answers.filter(({ admitted }) => admitted).length, 1);
    await Promise.all(Array.from({ length: 200 }, () => spend(store, account("burst"), perDay(1))));
    assert.equal(await redis.hget(accountKey("tg", account("burst")), "k"), null);
  });

  it("goes on being told the truth: Retry-After's clock never runs ahead of the store's", async () => {
    const store = await openHere();
    await exhaust(store, 1, perDay(1));
    const asks = [];
    for (let i = 0; i < 50; i++) {
      const { decision, admitted } = await spend(store, account("x0"), perDay(1));
      const [seconds, micros] = await redis.time();
      const storeMs = Number(seconds) * 1000 + Number(micros) / 1000;
      asks.push({ admitted, ahead: decision.nowMs - storeMs });
    }
    assert.deepEqual(
      asks.filter(({ admitted, ahead }) => admitted || ahead > 0),
      [],
    );
  });
});

describe("a window that ends", () => {
  it("lets the first request pass that comes after it, and none before", async () => {
    const store = await openHere();
    const quotaRequest: QuotaRequest = {
      limits: [{ window: "second", limit: 1 }],
      bans: undefined,
      requests: 1,
    };
    const admittedIn: number[] = [];
    const endMs = performance.now() + 2_200;
    while (performance.now() < endMs) {
      const { admitted, decision } = await spend(store, account("sec"), quotaRequest);
      if (admitted) admittedIn.push(decision.windows[0]?.resetMs ?? 0);
      await new Promise(setImmediate);
    }
    assert.ok(admittedIn.length >= 3, `${admittedIn.length} windows`);
    admittedIn.forEach((resetMs, i) => {
      if (i > 0) assert.equal(resetMs - (admittedIn[i - 1] ?? 0), 1_000);
    });
  });
});
