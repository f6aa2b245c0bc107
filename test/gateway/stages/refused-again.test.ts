import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import { errorOf, sendRequest, standardItems } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";

const { server } = await useRedis();

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /plain: { get: { operationId: plain, responses: {} } }
  /old:
    get: { operationId: old, deprecated: true, x-deprecated-since: "2026-01-01", responses: {} }
  /own: { get: { operationId: own, x-limits: { day: 3 }, responses: {} } }
  /long: { get: { operationId: long, x-limits: { month: 3 }, responses: {} } }
  /dear: { get: { operationId: dear, x-cost: 2, responses: {} } }
`;

function open(environment: Readonly<Record<string, unknown>> = {}): Promise<TestGateway> {
  return startTestGateway({
    api: "./api.yaml",
    files: { "api.yaml": API },
    config: { store: server.url, bans: "off", rateLimitFields: "off", plans: { free: { day: 2 } } },
    environment,
  });
}

/** Asks until this gateway refuses the account from memory. */
async function useUp({ port, lines }: TestGateway, key: string, path = "/v1/plain") {
  const before = lines.length;
  await eventually(async () => {
    await sendRequest(port, { key, path });
    assert.ok(lines.slice(before).some(({ by }) => by === "memory"));
  });
}

describe("a refusal from memory that is told again", () => {
  it("has an id of its own and the fields of its own operation, whichever was asked before", async () => {
    await using house = await open();
    const { key } = await house.issue();
    await useUp(house, key);
    const ids = new Set<string>();
    for (const path of ["/v1/plain", "/v1/old", "/v1/dear", "/v1/plain", "/v1/dear", "/v1/old"]) {
      const answer = await sendRequest(house.port, { key, path });
      assert.deepEqual([answer.status, errorOf(answer).code], [429, "rate_limited"], path);
      ids.add(onlyValue(answer, "X-Request-Id"));
      assert.deepEqual(valuesOf(answer, "X-RateLimit-Cost"), path === "/v1/dear" ? ["2"] : []);
      const since = `@${Date.UTC(2026, 0, 1) / 1_000}`;
      assert.deepEqual(valuesOf(answer, "Deprecation"), path === "/v1/old" ? [since] : []);
    }
    assert.equal(ids.size, 6);
    await house.law();
  });

  it("has the form of errors and the standard fields that are configured by then", async () => {
    await using house = await open();
    const { key } = await house.issue();
    await useUp(house, key);
    const first = await sendRequest(house.port, { key, path: "/v1/plain" });
    assert.equal(onlyValue(first, "Content-Type"), "application/json");
    for (const [config, type, state] of [
      [{ errors: "problem" }, "application/problem+json", 0],
      [{ rateLimitFields: "ietf" }, "application/json", 1],
      [{}, "application/json", 0],
    ] as const) {
      await house.rewrite(config);
      assert.equal((await house.admin("/api/reload", { method: "POST" })).status, 200);
      await useUp(house, key);
      const answer = await sendRequest(house.port, { key, path: "/v1/plain" });
      assert.equal(onlyValue(answer, "Content-Type"), type);
      assert.equal(valuesOf(answer, "RateLimit").length, state);
      assert.equal(Number(onlyValue(answer, "Content-Length")), answer.body.length);
    }
    await house.law();
  });

  it("names pages of other origins that may read it, each its own", async () => {
    const origins = ["https://a.test", "https://b.test"];
    await using house = await open({ cors: { origins } });
    const { key } = await house.issue();
    await useUp(house, key);
    for (const origin of [...origins, ...origins]) {
      const answer = await sendRequest(house.port, {
        key,
        path: "/v1/plain",
        fields: [["Origin", origin]],
      });
      assert.equal(answer.status, 429);
      assert.equal(onlyValue(answer, "Access-Control-Allow-Origin"), origin);
    }
    await house.law();
  });

  it("tells a limit of its operation as used up, of which only another gateway knew", async () => {
    const openShared = () => {
      return startTestGateway({
        api: "./api.yaml",
        files: { "api.yaml": API },
        config: { store: server.url, rateLimitFields: "ietf", plans: { free: { month: 4 } } },
        keys: { [KEY]: { account: ACCOUNT } },
      });
    };
    await using first = await openShared();
    await using second = await openShared();
    const ask = (house: TestGateway, path: string) => sendRequest(house.port, { key: KEY, path });
    for (const path of ["/v1/own", "/v1/own", "/v1/own", "/v1/plain"])
      assert.equal((await ask(first, path)).status, 200);
    assert.equal((await ask(second, "/v1/plain")).status, 429);
    for (const by of ["store", "memory"] as const) {
      const answer = await ask(second, "/v1/own");
      assert.equal(onlyValue(answer, "X-RateLimit-Window"), "month");
      const states = standardItems(answer, "RateLimit");
      assert.deepEqual([states.get("own.day")?.r, states.get("month")?.r], [0, 0]);
      const id = onlyValue(answer, "X-Request-Id");
      const line = await eventually(
        () => second.lines.find((one) => one.id === id) ?? assert.fail(),
      );
      assert.equal(line.by, by);
      const told = line.windows?.map(([name, used]) => [name, used]).toSorted();
      assert.deepEqual(told, [
        ["month", 4],
        ["own.day", 3],
      ]);
    }
  });

  it("tells a longer limit of its operation that another gateway has used up since, for one call", async () => {
    const openShared = () => {
      return startTestGateway({
        api: "./api.yaml",
        files: { "api.yaml": API },
        config: { store: server.url, bans: "off", plans: { free: { hour: 6 } } },
        keys: { [KEY]: { account: ACCOUNT } },
      });
    };
    await using first = await openShared();
    await using second = await openShared();
    const ask = (house: TestGateway, path: string) => sendRequest(house.port, { key: KEY, path });
    for (const house of [first, second, second])
      assert.equal((await ask(house, "/v1/long")).status, 200);
    for (let i = 0; i < 3; i++) assert.equal((await ask(first, "/v1/plain")).status, 200);
    await useUp(first, KEY);
    const reset = onlyValue(await ask(second, "/v1/long"), "X-RateLimit-Reset");
    for (const by of ["store", "memory", "memory"] as const) {
      const answer = await ask(first, "/v1/long");
      assert.equal(onlyValue(answer, "X-RateLimit-Window"), "long.month");
      assert.equal(onlyValue(answer, "X-RateLimit-Reset"), reset);
      const id = onlyValue(answer, "X-Request-Id");
      const line = await eventually(
        () => first.lines.find((one) => one.id === id) ?? assert.fail(),
      );
      assert.equal(line.by, by);
    }
  });

  it.each([
    ["room for a smaller cost", "/v1/dear", { hour: 3, day: 4 }, ["/v1/dear"], "day"],
    ["a limit of its operation", "/v1/own", { month: 4 }, Array(3).fill("/v1/own"), "month"],
  ] as const)(
    "tells a longer window of the plan that another gateway has used up since, beside %s",
    async (_, path, free, before, window) => {
      const openShared = () => {
        return startTestGateway({
          api: "./api.yaml",
          files: { "api.yaml": API },
          config: { store: server.url, bans: "off", plans: { free } },
          keys: { [KEY]: { account: ACCOUNT } },
        });
      };
      await using first = await openShared();
      await using second = await openShared();
      const ask = (house: TestGateway, asked: string) => {
        return sendRequest(house.port, { key: KEY, path: asked });
      };
      for (const asked of before) assert.equal((await ask(first, asked)).status, 200);
      await useUp(first, KEY, path);
      assert.notEqual(onlyValue(await ask(first, path), "X-RateLimit-Window"), window);
      assert.equal((await ask(second, "/v1/plain")).status, 200);
      await eventually(async () => {
        const answer = await ask(first, path);
        assert.equal(answer.status, 429);
        assert.equal(onlyValue(answer, "X-RateLimit-Window"), window);
      });
    },
  );
});
