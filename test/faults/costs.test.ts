import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import {
  assertCounted,
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { useProxiedRedis } from "../support/redis/redis-of-file.ts";
import { openClient, requestBytes } from "../support/wire/client.ts";
import { metric, readyWithin } from "./redis-house.ts";

const { proxy } = await useProxiedRedis();

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /free: { get: { operationId: free, x-cost: 0, responses: {} } }
  /one: { get: { operationId: one, responses: {} }, post: { operationId: add, x-cost: 4, requestBody: {}, responses: {} } }
  /dear: { get: { operationId: dear, x-cost: 7, x-limits: { month: 35 }, responses: {} } }
`;
const IN_FLIGHT = "tollgate_http_requests_in_flight";
const CLIENTS = 30;
const TARGETS = [
  { method: "GET", path: "/v1/free" },
  { method: "GET", path: "/v1/one" },
  { method: "POST", path: "/v1/one", body: "{}" },
  { method: "GET", path: "/v1/dear" },
  { method: "GET", path: "/v1/nothing" },
] as const;

/** The law over whatever happened to requests that cost from 0 to 7 units: months end in no test. */
async function openCosts(store: string): Promise<TestGateway> {
  let turn = 0;
  const backend = await startTestUpstream(async (_seen, response, request, whole) => {
    turn += 1;
    // Every ninth connection breaks before an answer, every seventh in the middle of one.
    if (turn % 9 === 0) return void request.socket.resetAndDestroy();
    if (turn % 7 === 0) {
      response.writeHead(200, { "Content-Length": "100" });
      response.write("half");
      return void setTimeout(() => request.socket.destroy(), 2);
    }
    await whole;
    response.writeHead(turn % 5 === 0 ? 500 : 200).end("[]");
  });
  const options: TestGatewayOptions = {
    backend,
    api: "./api.yaml",
    files: { "api.yaml": API },
    config: {
      store,
      history: "400d",
      plans: { free: { month: 150, observe: { month: 50 } } },
      bans: { strikes: 5, grace: "5ms", duration: "1h" },
    },
  };
  return startTestGateway(options);
}

/** Some clients leave before their answer. Resolves when each request has its line. */
async function load(house: TestGateway, keys: readonly string[]): Promise<void> {
  const before = house.lines.length;
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, i) => {
      const client = await openClient(house.port);
      const target = TARGETS[i % TARGETS.length] as (typeof TARGETS)[number];
      const key = keys[i % keys.length] as string;
      client.write(requestBytes({ ...target, key }));
      if (i % 6 === 0) {
        setTimeout(() => client.socket.destroy(), i % 4);
        return;
      }
      await client.responses([target.method]).catch(() => undefined);
      client.socket.destroy();
    }),
  );
  // A client may leave before the gateway has read its head: then there is no line.
  const least = before + CLIENTS - Math.ceil(CLIENTS / 6);
  await eventually(() => assert.ok(house.lines.length >= least));
  // No call is under way when the store goes: one that was cut may be charged twice.
  await eventually(async () => assert.equal(await metric(house, IN_FLIGHT), 0));
}

async function counted(house: TestGateway, account: string): Promise<Record<string, number>> {
  const usage = (await (await house.admin(`/api/usage/${account}`)).json()) as {
    readonly windows: readonly { readonly window: string; readonly used: number }[];
  };
  return Object.fromEntries(usage.windows.map(({ window, used }) => [window, used]));
}

async function remembered(house: TestGateway, account: string): Promise<number> {
  const response = await house.admin(`/api/history?days=2&account=${account}`);
  const days = (await response.json()) as { readonly units: number }[];
  return days.reduce((sum, { units }) => sum + units, 0);
}

/** The windows of an operation count its own charges, and those of the account the sum of all. */
async function lawByOperation(house: TestGateway, accounts: readonly string[]): Promise<void> {
  for (const account of accounts) {
    await eventually(async () => {
      const lines = house.lines.filter((entry) => entry.account === account);
      const sum = (some: typeof lines) => some.reduce((all, { charged }) => all + charged, 0);
      const dear = sum(lines.filter(({ route }) => route === "/v1/dear"));
      const windows = await counted(house, account);
      const days = await remembered(house, account);
      assertCounted(house, account, windows.month, sum(lines), "was charged by its month");
      assertCounted(house, account, windows["dear.month"] ?? 0, dear, "was charged for dear ones");
      assertCounted(house, account, days, sum(lines), "was charged by its days");
    });
  }
}

async function playOut(house: TestGateway, away: (between: () => Promise<void>) => Promise<void>) {
  const issued = [await house.issue(), await house.issue(), await house.issue()];
  const keys = issued.map(({ key }) => key);
  for (let i = 0; i < 4; i++) await load(house, keys);
  await away(() => load(house, keys));
  for (let i = 0; i < 4; i++) await load(house, keys);
  await lawByOperation(
    house,
    issued.map(({ account }) => account),
  );
  await house.law({ connectionsFailed: true });
  const seen = new Set(house.lines.map(({ code, charged }) => code ?? charged));
  for (const each of [0, 1, 4, 7, "rate_limited", "upstream_unreachable"]) {
    assert.ok(seen.has(each), `${each} among ${[...seen]}`);
  }
}

describe("the law, with mixed costs, broken backends and clients that leave", () => {
  it("holds in memory", async () => {
    await using house = await openCosts("memory");
    await playOut(house, (between) => between());
  });

  it("holds with Redis, away in the middle: what was admitted without it is charged late, by cost", async () => {
    await using house = await openCosts(`redis://127.0.0.1:${proxy.port}`);
    await playOut(house, async (between) => {
      await proxy.refuse();
      for (let i = 0; i < 3; i++) await between();
      await proxy.listen();
      await readyWithin(house, 10_000);
    });
    assert.ok(house.lines.some(({ charged, decision }) => charged > 1 && decision === "admitted"));
  });
});
