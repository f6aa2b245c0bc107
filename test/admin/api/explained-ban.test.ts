import assert from "node:assert/strict";
import { it } from "vitest";
import { explainRequest } from "../../../src/admin/api/diagnostics.ts";
import type { Explanation } from "../../../src/core/quota/explain.ts";
import { RecentEvents } from "../../../src/telemetry/history/recent-events.ts";
import { NOON_MS, openAdminHouse } from "../admin-house.ts";

const NAME = { environment: "production", account: "acme" };

it("a refusal by a ban of which the gateway has no event is explained by the store, and not by another ban", async () => {
  await using house = await openAdminHouse();
  const ban = { window: "minute", keptMs: 1_000, plan: "free", reason: "scrapes" } as const;
  // It ends inside a second, of which clients are told the end.
  await house.quotas.ban(NAME, { ...ban, lengthMs: 60_500 });
  const { quotas } = house;
  const told = async (until: number) => {
    const line = { id: "r", env: NAME.environment, account: NAME.account, ban: until };
    const refused = { method: "GET", path: "/", status: 429, code: "key_banned", charged: 0 };
    const refusal = async () => ({ ...line, ...refused, decision: "refused" });
    const deps = { quotas, recent: new RecentEvents(), recall: { refusal } };
    const answer = await explainRequest({ deps, id: "r" } as never);
    const { ban: known } = JSON.parse(String(answer.body)) as Explanation;
    return [known?.imposed, known?.reason];
  };
  const endS = NOON_MS / 1_000 + 60;
  assert.deepEqual(await told(endS + 1), [true, "scrapes"]);
  assert.deepEqual(await told(endS), [null, null]);
});
