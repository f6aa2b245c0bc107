import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Explanation } from "../../src/core/quota/explain.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";

const API = `
openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /one:
    get: { operationId: one, responses: { "200": { description: ok } } }
  /dear:
    get:
      operationId: dear
      x-cost: 4
      x-limits: { second: 9, hour: 60 }
      responses: { "200": { description: ok } }
`;
const BANS = { strikes: 6, grace: "5ms", within: "1m", duration: "300ms", factor: 1 };
const REFUSALS = 200;

function openShared(store: string): Promise<TestGateway> {
  return startTestGateway({
    config: { store, bans: BANS, plans: { free: { second: 12, hour: 150 } } },
    environment: { api: "./api.yaml" },
    files: { "api.yaml": API },
    keys: { [KEY]: { account: ACCOUNT } },
  });
}

/** The parts of a 429 that an explanation has to agree with. */
type Refused = {
  readonly house: TestGateway;
  readonly id: string;
  readonly code: string;
  readonly window: string | null;
  readonly reset: number;
};

async function askOnce(house: TestGateway, path: string): Promise<Refused | undefined> {
  const answer = await house.ask(KEY, path);
  const body = await answer.text();
  if (answer.status !== 429) return undefined;
  const field = (name: string) => answer.headers.get(name);
  const { code } = JSON.parse(body) as { code: string };
  const reset = Number(field("x-ratelimit-reset"));
  return {
    house,
    id: field("x-request-id") ?? "",
    code,
    window: field("x-ratelimit-window"),
    reset,
  };
}

describe("explain, of two gateways on one Redis", () => {
  it("agrees with what was answered: costs, limits of an operation, and bans", async () => {
    const redis = await startRedis();
    await using one = await openShared(redis.url);
    await using other = await openShared(redis.url);
    const refused: Refused[] = [];
    for (let i = 0; refused.length < REFUSALS; i++) {
      const round = Array.from({ length: 10 }, (_, j) => {
        return askOnce((i + j) % 2 === 0 ? one : other, j % 3 === 0 ? "/v1/dear" : "/v1/one");
      });
      for (const answer of await Promise.all(round)) if (answer !== undefined) refused.push(answer);
    }
    for (const { house, id, code, window, reset } of refused) {
      const explanation = await eventually(async () => {
        const answer = await house.admin(`/api/explain/${id}`);
        assert.equal(answer.status, 200);
        return (await answer.json()) as Explanation;
      });
      const line = JSON.stringify(house.lines.find((each) => each.id === id));
      assert.deepEqual([explanation.code, explanation.passesAt], [code, reset], line);
      if (window === "ban") assert.equal(explanation.ban?.until, reset, line);
      else
        assert.deepEqual(
          [explanation.window?.window, explanation.window?.reset],
          [window, reset],
          line,
        );
    }
    const windows = new Set(refused.map(({ window }) => window));
    assert.ok(windows.has("dear.second") || windows.has("dear.hour"), [...windows].join());
    assert.ok(windows.has("second") || windows.has("hour"), [...windows].join());
    await redis.close();
  });

  it("never tells the cause of a later ban as that of the one which refused the request", async () => {
    const redis = await startRedis();
    try {
      const shared = { store: redis.url, plans: { free: { hour: 3 } } };
      const open = (bans: object) =>
        startTestGateway({ config: { ...shared, bans }, keys: { [KEY]: { account: ACCOUNT } } });
      const bans = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };
      // The ban is earned at one gateway; the other refuses by it, and has no event of it.
      await using one = await open(bans);
      await using other = await open(bans);
      await eventually(async () => {
        const answer = await one.ask(KEY);
        assert.match(await answer.text(), /key_banned/);
      });
      const answer = await other.ask(KEY);
      assert.match(await answer.text(), /key_banned/);
      const id = answer.headers.get("x-request-id");
      const explained = async () => {
        const told = await other.admin(`/api/explain/${id}`);
        assert.equal(told.status, 200);
        return ((await told.json()) as Explanation).rule;
      };
      await eventually(async () => assert.match(await explained(), /the account had earned it/));
      assert.equal((await one.admin(`/api/bans/${ACCOUNT}`, { method: "DELETE" })).status, 200);
      const body = JSON.stringify({ id: ACCOUNT, for: "2h", reason: "scrapes" });
      assert.equal((await one.admin("/api/bans", { method: "POST", body })).status, 201);
      assert.match(await explained(), /^A ban of the account ran: tollgate bans why /);
    } finally {
      await redis.close();
    }
  });
});
