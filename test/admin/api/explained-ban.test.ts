import assert from "node:assert/strict";
import { it } from "vitest";
import { explainRequest, listDeprecations } from "../../../src/admin/api/diagnostics.ts";
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
    const deps = { quotas, recent: new RecentEvents(), diagnostics: { refusal } };
    const response = await explainRequest({ deps, id: "r" } as never);
    const { ban: known } = JSON.parse(String(response.body)) as Explanation;
    return [known?.imposed, known?.reason];
  };
  const endS = NOON_MS / 1_000 + 60;
  assert.deepEqual(await told(endS + 1), [true, "scrapes"]);
  assert.deepEqual(await told(endS), [null, null]);
});

it("a refusal by a ban is explained by the event of that ban, and without a cause while the store is away", async () => {
  const line = { id: "r", env: NAME.environment, account: NAME.account, ban: 1_000 };
  const refused = { method: "GET", path: "/", status: 429, code: "key_banned", charged: 0 };
  const diagnostics = { refusal: async () => ({ ...line, ...refused, decision: "refused" }) };
  const quotas = { banCause: () => Promise.reject(new Error("away")) };
  const [hand, earned] = [{ until: 1_000, imposed: true, reason: "scrapes" }, { until: 2_000 }];
  for (const [bans, expected] of [
    [
      [hand, earned],
      [true, "scrapes"],
    ],
    [
      [{ until: 1_000 }, { ...hand, until: 2_000 }],
      [false, null],
    ],
    [[earned], [null, null]],
  ] as const) {
    const deps = { quotas, recent: { bansOf: () => bans }, diagnostics };
    const response = await explainRequest({ deps, id: "r" } as never);
    const { ban } = JSON.parse(String(response.body)) as Explanation;
    assert.deepEqual([response.status, ban?.imposed, ban?.reason], [200, ...expected]);
  }
});

it("a refusal by a limit is explained without a look for bans in the store", async () => {
  const refused = { method: "GET", path: "/", status: 429, code: "rate_limited", charged: 0 };
  const line = { id: "r", env: NAME.environment, account: NAME.account, decision: "refused" };
  const asked: unknown[] = [];
  const quotas = { banCause: async (name: unknown) => void asked.push(name) };
  const diagnostics = { refusal: async () => ({ ...line, ...refused }) };
  const deps = { quotas, recent: new RecentEvents(), diagnostics };
  assert.equal((await explainRequest({ deps, id: "r" } as never)).status, 200);
  assert.deepEqual(asked, []);
});

it("deprecated operations are told page by page, each with the accounts that called it", async () => {
  const lifecycle = { deprecated: true, sunsetMs: 5 * 86_400_000 };
  const operations = ["GET", "POST", "PUT"].map((method) => ({
    method,
    template: "/v1/a",
    lifecycle,
  }));
  const environments = [{ name: "production", routes: { operations }, services: [] }];
  const call = { environment: "production", method: "POST", route: "/v1/a" };
  const calls = [{ ...call, account: "a_1", requests: 2, last: 7 }];
  const deps = {
    config: () => ({ environments }),
    now: () => 2 * 86_400_000,
    diagnostics: { flushToStore: async () => {} },
    quotas: { activity: { calls: async () => calls } },
  };
  const found: unknown[] = [];
  for (let query: string | undefined = "limit=1"; query !== undefined && found.length < 4; ) {
    const request = { deps, query: new URLSearchParams(query) };
    const { body, fields } = await listDeprecations(request as never);
    const [{ method, daysLeft, accounts }] = JSON.parse(String(body));
    found.push([method, daysLeft, accounts.length]);
    query = /<\/api\/deprecations\?(.*)>; rel="next"/.exec(fields.join())?.[1];
  }
  assert.deepEqual(found, [
    ["GET", 3, 0],
    ["POST", 3, 1],
    ["PUT", 3, 0],
  ]);
});
