import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { DAY_MS, dayOf, formatDay } from "../../src/core/quota/days.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";

/** So far this machine's clock is behind that of Redis. */
const BEHIND_MS = 70_000;

const realNow = Date.now;
/** By the clock of Redis this has been; by that of this machine it is to come. */
const SUNSET = new Date(realNow() - BEHIND_MS / 7).toISOString();
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: list, responses: {} }
  /old:
    get:
      operationId: old
      deprecated: true
      x-deprecated-since: "2025-01-01"
      x-sunset: "${SUNSET}"
      responses: {}
`;
const PLANS = {
  free: { minute: 60, day: 1_000, included: { day: 1 } },
  pro: { minute: 300, day: 10_000 },
};
let redis: TestRedis;
let house: TestGateway;
beforeAll(async () => {
  redis = await startRedis();
  vi.spyOn(Date, "now").mockImplementation(() => realNow() - BEHIND_MS);
  house = await startTestGateway({
    config: { store: redis.url, plans: PLANS },
    files: { "api.yaml": API },
    api: "./api.yaml",
  });
});
afterAll(async () => {
  vi.restoreAllMocks();
  await house[Symbol.asyncDispose]();
  await redis.close();
});

describe("a gateway whose clock is behind that of Redis", () => {
  it("suspends until an instant of the clock of Redis, and has that suspension in force", async () => {
    const { key, account } = await house.issue();
    assert.equal((await house.ask(key)).status, 200);
    const body = JSON.stringify({ for: "60s" });
    const path = `/api/accounts/${account}/suspend`;
    const headers = { "Content-Type": "application/json" };
    const response = await house.admin(path, { method: "POST", headers, body });
    const { suspended } = (await response.json()) as { suspended: { until: number } };
    const leftMs = suspended.until * 1_000 - realNow();
    assert.ok(leftMs > 45_000 && leftMs <= 61_000, `${leftMs}`);
    assert.equal((await house.ask(key)).status, 403);
    const resumed = await house.admin(`/api/accounts/${account}/resume`, { method: "POST" });
    assert.equal(resumed.status, 200);
    assert.equal((await house.ask(key)).status, 200);
  });

  it("serves an operation until its sunset by its own clock", async () => {
    const { key } = await house.issue();
    assert.equal((await house.ask(key, "/v1/old")).status, 200);
  });

  it("keeps the marker of an overage until a minute after the window has ended by the clock of Redis", async () => {
    const { key, account } = await house.issue();
    for (const _ of [1, 2]) assert.equal((await house.ask(key)).status, 200);
    const told = () => house.said.filter((line) => line.account === account);
    const { reset } = await eventually(() => {
      return told().find(({ kind }) => kind === "overage") ?? assert.fail("not yet");
    });
    const endMs = Number(reset) * 1_000;
    const name = hash("sha256", `overage production ${account} day ${endMs}`, "hex").slice(0, 20);
    const client = await redis.client();
    const marker = await eventually(async () => {
      const [found] = await client.keys(`*:told.${name}`);
      return found ?? assert.fail("not yet");
    });
    const spareMs = (await client.pexpiretime(marker)) - endMs;
    assert.ok(spareMs > 50_000 && spareMs < 70_000, `${spareMs}`);
  });

  it("drops a plan by a reload once its keys have ended by the clock of Redis", async () => {
    await house.issue({ plan: "pro", expires: "2s" });
    await house.rewrite({ plans: { free: PLANS.free } });
    assert.equal((await house.gateway.reload()).ok, false);
    const isTaken = async () => assert.ok((await house.gateway.reload()).ok);
    await eventually(isTaken, { withinMs: 30_000, everyMs: 200 });
  });

  it("tells a failed authentication a reset that is still to come", async () => {
    const sentSeconds = Math.floor(realNow() / 1_000);
    const response = await house.ask("pets_live_no");
    assert.equal(response.status, 401);
    const reset = Number(response.headers.get("x-ratelimit-reset"));
    assert.ok(reset >= sentSeconds && reset <= sentSeconds + 61, `${reset - sentSeconds}`);
  });

  it("says once by how much the clocks differ, and when they agree again", async () => {
    const told = () => house.said.filter(({ msg }) => String(msg).startsWith("clock_"));
    await eventually(() => assert.equal(told().length, 1), { withinMs: 8_000 });
    assert.equal(told()[0]?.msg, "clock_differs");
    assert.ok(Math.abs(Number(told()[0]?.aheadMs) + BEHIND_MS) < 1_000, `${told()[0]?.aheadMs}`);
    vi.spyOn(Date, "now").mockImplementation(realNow);
    await eventually(() => assert.equal(told()[1]?.msg, "clock_agrees"), { withinMs: 4_000 });
    assert.equal(told().length, 2);
  });
});

it("a gateway whose clock is a day behind counts what it refuses by itself on the day of Redis", async () => {
  vi.spyOn(Date, "now").mockImplementation(() => realNow() - DAY_MS);
  await using behind = await startTestGateway({ config: { store: redis.url, history: "10d" } });
  const { key, account } = await behind.issue();
  const before = formatDay(dayOf(realNow()));
  assert.equal((await behind.ask(key)).status, 200);
  const headers = { "Content-Type": "application/json" };
  const path = `/api/accounts/${account}/suspend`;
  await behind.admin(path, { method: "POST", headers, body: "{}" });
  assert.equal((await behind.ask(key)).status, 403);
  const response = await behind.admin(`/api/history?account=${account}`);
  const rows = (await response.json()) as { day: string; refused: number }[];
  const day = rows.find(({ refused }) => refused > 0)?.day;
  assert.ok([before, formatDay(dayOf(realNow()))].includes(String(day)), JSON.stringify(rows));
});
