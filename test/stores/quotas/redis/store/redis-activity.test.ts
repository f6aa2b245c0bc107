import assert from "node:assert/strict";
import { it } from "vitest";
import type { QuotaClient } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { RedisActivity } from "../../../../../src/stores/quotas/redis/store/redis-activity.ts";
import { lateFailure } from "../../../../../src/stores/redis/store-failure.ts";

it("of more deprecated calls than one command has, those behind a command without an answer are not sent, and left for later", async () => {
  let sent = 0;
  const run = () => {
    sent += 1;
    return Promise.reject(lateFailure(2_000));
  };
  const activity = new RedisActivity({ prefix: "tg", run } as unknown as QuotaClient, () => {});
  const operation = { environment: "production", method: "GET", route: "/v1/old" };
  const calls = Array.from({ length: 2_500 }, (_, i) => {
    return { ...operation, account: `a_${i}`, requests: 1, last: 1 };
  });
  const { sums, left } = await activity.addCalls(calls);
  assert.deepEqual([sums, left, sent], [[], calls.slice(1_000), 1], "the first may have run");
});
