import assert from "node:assert/strict";
import { afterEach, describe, it } from "vitest";
import type { Calendar } from "../../../../src/core/quota/calendar.ts";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { mergeLimits } from "../../../../src/core/quota/windows.ts";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { canMerge } from "../../../../src/stores/quotas/batch/mergeable.ts";
import { chargeLate } from "../../../../src/stores/quotas/outage/late-charge.ts";
import { LocalQuotas } from "../../../../src/stores/quotas/outage/local-quotas.ts";
import {
  createInvalidationChannel,
  InvalidationPublisher,
} from "../../../../src/stores/quotas/redis/changes/invalidation-publisher.ts";
import {
  InvalidationSubscriber,
  type InvalidationSubscriberOptions,
} from "../../../../src/stores/quotas/redis/changes/invalidation-subscriber.ts";
import { encodeDecide } from "../../../../src/stores/quotas/redis/decide-codec.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account } from "../redis/redis-kit.ts";

const { server } = await useRedis();
const at = (text: string) => Date.parse(text);
const CALENDAR: Calendar = [{ day: 15, fromMs: 0 }];
const MAY_15 = at("2026-05-15");
const JUNE_15 = at("2026-06-15");
const asking = (limit: number): QuotaRequest => {
  const limits = mergeLimits([{ window: "month", limit }], { calendar: CALENDAR });
  return { limits, bans: undefined, requests: 1 };
};
const accountRef = account("a");
let open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of open) await each.close();
  open = [];
});

it("requests of one anchor are merged into one call, and of different ones are not", () => {
  const twin = mergeLimits([{ window: "month", limit: 6 }], { calendar: [{ day: 15, fromMs: 0 }] });
  const other = mergeLimits([{ window: "month", limit: 6 }], {
    calendar: [{ day: 16, fromMs: 0 }],
  });
  assert.ok(canMerge(asking(6), { ...asking(6), limits: twin }));
  assert.ok(!canMerge(asking(6), { ...asking(6), limits: other }));
  assert.ok(!canMerge(asking(6), { ...asking(6), limits: [{ window: "month", limit: 6 }] }));
  const asks = [asking(6), { ...asking(6), limits: twin }].map((quotaRequest, i) => ({
    key: `k${i}`,
    quotaRequest,
  }));
  // Keys, clock, policy, lengths, tag, the number of plans.
  assert.equal(encodeDecide(asks, 0, 7)[1 + 2 + 4], 1, "both share the windows of one plan");
});

describe("while the store is unreachable, a month from an anchor", () => {
  it("has its share from the 15th on, and is charged late to the month of its requests", async () => {
    const link = connectRedis({ address: server.address });
    open.push(link);
    await link.tried;
    let nowMs = JUNE_15 - 2;
    const quotaClient = createQuotaClient(link, "anchored", { clock: () => nowMs });
    const quotaRequest = { ...asking(6), requests: 2 };
    const [decided] = await quotaClient.decide([{ accountRef, quotaRequest }]);
    assert.ok(decided !== undefined && "windows" in decided);
    const decisionCache = new DecisionCache(() => nowMs);
    const trip = { sentMs: 0, receivedMs: 1, nowMs };
    decisionCache.put(
      "production:a",
      cacheDecision(quotaRequest, decided, trip),
      decisionCache.beginCall(),
    );
    const local = new LocalQuotas(100);
    const admit = (atMs: number) => {
      const knownCount = (counter: string, startMs: number) => {
        return decisionCache.countOf(accountRef, counter, startMs);
      };
      const context = { nowMs: atMs, latestMs: atMs, gateways: 2, pendingBefore: 0, knownCount };
      let admitted = 0;
      for (let i = 0; i < 9; i++) {
        admitted += local.decide(accountRef, asking(6), context).decision.granted;
      }
      return admitted;
    };
    assert.equal(admit(JUNE_15 - 1), 2, "half of what the last count leaves");
    assert.equal(admit(JUNE_15), 3, "half of the limit");
    const owed = local.debts.take();
    const told = owed[0]?.windows.map(({ startMs, endMs, units }) => [startMs, endMs, units]);
    assert.deepEqual(told, [
      [MAY_15, JUNE_15, 2],
      [JUNE_15, at("2026-07-15"), 3],
    ]);
    nowMs = at("2026-07-10");
    const charged = await chargeLate(quotaClient, owed, performance.now() + 5_000);
    assert.deepEqual(
      charged.accounts[0]?.windows.map((window) => window?.used),
      [undefined, 3],
      "the month that is over is not charged, the running one is, though July has begun",
    );
    const [after] = await quotaClient.decide([
      { accountRef, quotaRequest: { ...asking(6), requests: 0 } },
    ]);
    assert.ok(after !== undefined && "windows" in after);
    assert.deepEqual([after.windows[0]?.used, after.windows[0]?.resetMs], [3, at("2026-07-15")]);
  });

  it("is refused from memory until its end by counts that another gateway told", async () => {
    const link = connectRedis({ address: server.address });
    open.push(link);
    await link.tried;
    const nowMs = at("2026-07-10");
    const quotaClient = createQuotaClient(link, "told", { clock: () => nowMs });
    const decisionCache = new DecisionCache(() => nowMs);
    const start = (learn: InvalidationSubscriberOptions["learn"]): InvalidationPublisher => {
      const nothing = () => undefined;
      const change = { invalidate: nothing, distrust: nothing, pending: nothing, reset: nothing };
      const more = { ...change, probed: nothing, tellDenied: nothing };
      const channel = createInvalidationChannel("told");
      const publisher = new InvalidationPublisher(quotaClient, nothing, channel);
      open.push(publisher, new InvalidationSubscriber({ quotaClient, learn, ...more }, channel));
      return publisher;
    };
    start((id, totals, toldMs) => {
      const [environment = "", named = ""] = id.split(":");
      decisionCache.learnCounts({ environment, account: named }, totals, toldMs);
    });
    const other = start(() => undefined);
    const cached = await eventually(
      () => {
        const total = { counter: "month", startMs: JUNE_15, endMs: at("2026-07-15"), used: 6 };
        other.tellCounts("production:a", [total], nowMs);
        const told = decisionCache.get("production:a");
        assert.ok(told !== undefined);
        return told;
      },
      { withinMs: 20_000 },
    );
    // The store would be asked once, if it were there.
    assert.equal(decisionCache.refusalKind("production:a", cached, asking(6)), "unnoted");
    assert.equal(decisionCache.refusalKind("production:a", cached, asking(7)), "no");
    const { decision } = decisionCache.refused(cached, asking(6));
    assert.deepEqual(
      [decision.windows[0]?.used, decision.windows[0]?.resetMs],
      [6, at("2026-07-15")],
    );
    assert.equal(decisionCache.countOf(accountRef, "month", JUNE_15), 6);
  });
});
