import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { listHistory } from "../../../src/admin/api/history.ts";
import { dayOf } from "../../../src/core/quota/days.ts";
import { startTestGateway } from "../../support/gateway/house.ts";

/** As many accounts are read from the store together. */
const TOGETHER = 500;

describe("a page of the history that is full with the accounts of one read", () => {
  it("has the way to the next one, which has the rest", async () => {
    await using house = await startTestGateway({ config: { history: "30d" } });
    const made = (await house.issue({ count: TOGETHER + 1 })) as unknown as { key: string }[];
    for (let from = 0; from < made.length; from += 20) {
      const some = made.slice(from, from + 20);
      await Promise.all(some.map(async ({ key }) => (await house.ask(key)).text()));
    }
    const accounts = new Set<string>();
    const lengths: number[] = [];
    for (let path = `/api/history?limit=${TOGETHER}`; path !== ""; ) {
      const response = await house.admin(path);
      assert.equal(response.status, 200);
      const rows = (await response.json()) as { account: string }[];
      for (const { account } of rows) accounts.add(account);
      lengths.push(rows.length);
      path = /<([^>]*)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1] ?? "";
    }
    assert.deepEqual([lengths, accounts.size], [[TOGETHER, 1], TOGETHER + 1]);
  });
});

it("a page of the history that has all that there is has no way to a next one, and one of a part has", async () => {
  await using house = await startTestGateway({ config: { history: "30d" } });
  const keys = [await house.issue(), await house.issue()];
  for (const { key } of keys) await (await house.ask(key)).text();
  const linkOf = async (limit: number) => {
    const response = await house.admin(`/api/history?limit=${limit}`);
    assert.equal(((await response.json()) as unknown[]).length, limit);
    assert.equal(response.headers.get("x-total-count"), null, "as the documentation says");
    return response.headers.get("link") !== null;
  };
  assert.deepEqual([await linkOf(1), await linkOf(2)], [true, false]);
});

it("the history of one environment, of one plan and of one key has the accounts of these alone", async () => {
  const plans = { free: { day: 10 }, pro: { day: 10 } };
  await using house = await startTestGateway({ config: { history: "30d", plans } });
  const issued = [await house.issue({ plan: "free" }), await house.issue({ plan: "pro" })];
  for (const { key } of issued) await (await house.ask(key)).text();
  const plansOf = async (query: string) => {
    const rows = (await (await house.admin(`/api/history?${query}`)).json()) as { plan: string }[];
    return rows.map(({ plan }) => plan).sort();
  };
  assert.deepEqual(await plansOf("env=production"), ["free", "pro"]);
  assert.deepEqual([await plansOf("plan=pro"), await plansOf("env=none")], [["pro"], []]);
  assert.deepEqual(await plansOf(`account=${issued[1]?.id}`), ["pro"]);
  const { message } = (await (await house.admin("/api/history?days=0")).json()) as {
    message: string;
  };
  assert.match(message, /^Cannot read days as a number of days/);
});

it("the history of a month tells the units above those in the price of the plan, and that of days does not", async () => {
  const plans = { free: { month: 10, included: { month: 1 } } };
  const nowMs = Date.UTC(2026, 5, 10, 12);
  await using house = await startTestGateway({
    config: { history: "400d", plans },
    now: () => nowMs,
  });
  const { key } = await house.issue();
  for (let i = 0; i < 3; i++) await (await house.ask(key)).text();
  const overageOf = async (query: string) => {
    const [row] = (await (await house.admin(`/api/history?${query}`)).json()) as object[];
    return (row as { overage?: number }).overage;
  };
  assert.deepEqual([await overageOf("month=2026-06"), await overageOf("days=1")], [2, undefined]);
});

it("a history that is off is a conflict, as that of the configuration is no mistake of the caller", async () => {
  const deps = { config: () => ({ historyMs: undefined }) };
  const { status, body } = await listHistory({ deps, query: new URLSearchParams() } as never);
  const { code, message } = JSON.parse(String(body));
  assert.deepEqual([status, code], [409, "conflict"]);
  assert.match(message, /^Usage by day is not counted: history is off/);
});

it("a history of days that are none is a mistake of the caller", async () => {
  const deps = { config: () => ({ historyMs: 30 * 86_400_000 }) };
  const query = new URLSearchParams({ days: "many" });
  const { status, body } = await listHistory({ deps, query } as never);
  assert.deepEqual([status, JSON.parse(String(body)).code], [400, "bad_request"]);
});

it("a page of the history is read from the store no further than it goes", async () => {
  const accounts = Array.from({ length: 2 * TOGETHER }, (_, i) => {
    return { id: `a_${i}`, environment: "production", plan: "free" };
  });
  let readings = 0;
  const history = async (names: readonly unknown[]) => {
    readings += 1;
    return names.map(() => [
      { day: dayOf(Date.UTC(2026, 5, 10)), admitted: 1, units: 1, refused: 0 },
    ]);
  };
  const deps = {
    config: () => ({ historyMs: 30 * 86_400_000, planBounds: new Map() }),
    keys: { records: () => ({ accounts, keys: [] }) },
    quotas: { history },
    diagnostics: { flushToStore: async () => {} },
    now: () => Date.UTC(2026, 5, 10),
  };
  for (const [limit, expected] of [
    [TOGETHER - 1, 1],
    [TOGETHER, 2],
  ] as const) {
    readings = 0;
    const query = new URLSearchParams({ limit: String(limit) });
    const { body } = await listHistory({ deps, query } as never);
    assert.deepEqual([JSON.parse(String(body)).length, readings], [limit, expected]);
  }
});
