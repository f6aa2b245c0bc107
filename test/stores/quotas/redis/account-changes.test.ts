import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { afterAll, expect, it, vi } from "vitest";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { AccountChanges } from "../../../../src/stores/quotas/redis/account-changes.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../src/stores/redis/single-link.ts";
import { eventually } from "../../../support/poll.ts";
import { startRedis } from "../../../support/redis/redis.ts";
import { account } from "./redis-kit.ts";

const server = await startRedis();
const client = await server.client();
afterAll(() => server.close());

/** A gateway that knows accounts, hears of their changes and tells them. */
function open(prefix: string) {
  const link = connectRedis({ address: server.address });
  const quotaClient = createQuotaClient(link, prefix, {});
  const decisionCache = new DecisionCache();
  const changes = new AccountChanges({
    ...{ quotaClient, prefix, decisionCache },
    probed: () => {},
    tellDenied: () => {},
  });
  return {
    ...{ quotaClient, decisionCache, changes },
    [Symbol.asyncDispose]: async () => {
      changes.close();
      await link.close();
    },
  };
}

it("the bans that one message names are read as one call, as each change is noted at every call under way", async () => {
  const prefix = randomUUID();
  await using here = open(prefix);
  await using there = open(prefix);
  const accountRefs = Array.from({ length: 100 }, (_, i) => account(`${i}`));
  for (const accountRef of accountRefs) {
    await client.hset(here.quotaClient.keyOf(accountRef), "b", `${Date.now() + 60_000} 60000 d 1`);
  }
  await eventually(async () => {
    assert.deepEqual(await client.pubsub("NUMSUB", `${prefix}:events`), [`${prefix}:events`, 2]);
  });
  const begun = vi.spyOn(there.decisionCache, "beginCall");
  for (const accountRef of accountRefs) here.changes.tellBanSoon(accountRef);
  await eventually(() => {
    for (const accountRef of accountRefs) {
      assert.ok(there.decisionCache.lastKnown(accountRef)?.ban !== undefined);
    }
  });
  // The first account is told alone, and the others half a second later.
  expect(begun).toHaveBeenCalledTimes(2);
});
