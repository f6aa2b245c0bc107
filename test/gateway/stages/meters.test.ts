import assert from "node:assert/strict";
import { afterAll, describe, it } from "vitest";
import type { OpenCharge } from "../../../src/telemetry/history/diagnostics.ts";
import type { RequestListener } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";

/** A noon that does not move: no window ends in the middle of a test. */
const NOON = Date.UTC(2026, 5, 1, 12);
const METERS = { tokens: { hold: 40, max: 100, used: ["header x-used"] } };

const using = (units: number): RequestListener => {
  return (_seen, response) => void response.writeHead(200, { "X-Used": units }).end("{}");
};

describe("a meter", async () => {
  const house = await startTestGateway({
    now: () => NOON,
    environment: {
      api: null,
      costs: [
        { match: "POST /v1/chat", meters: METERS },
        { match: "POST /v1/tokens", cost: 0, meters: METERS },
      ],
    },
    config: {
      history: "400d",
      plans: {
        free: { minute: 50 },
        pro: { minute: 50, meters: { tokens: { minute: 100, month: 1_000 } } },
        tiny: { minute: 50, meters: { tokens: { minute: 39 } } },
        open: { minute: 50, meters: { tokens: "unlimited" } },
      },
    },
  });
  afterAll(() => house[Symbol.asyncDispose]());
  const chat = (key: string) => {
    return sendRequest(house.port, { key, method: "POST", path: "/v1/chat", body: "{}" });
  };
  const issue = async (plan: string, more = {}) => (await house.issue({ plan, ...more })).key;

  it("is told with its own window, its hold while a request runs and its use after that", async () => {
    house.backend.answer(using(10));
    const key = await issue("pro");
    const first = await chat(key);
    assert.equal(first.status, 200);
    assert.deepEqual(valuesOf(first, "X-RateLimit-Window"), ["tokens.minute"]);
    assert.deepEqual(
      [rateLimitFieldsOf(first).limit, rateLimitFieldsOf(first).remaining],
      [100, 60],
      "with the hold",
    );
    await eventually(async () => assert.equal(rateLimitFieldsOf(await chat(key)).remaining, 40));
    const plain = await sendRequest(house.port, { key, path: "/v1/pets" });
    assert.deepEqual(valuesOf(plain, "X-RateLimit-Window"), ["minute"], "without a meter");
  });

  it("that is used up is 429, names its limit and window, and takes nothing of the plan", async () => {
    house.backend.answer(using(100));
    const key = await issue("pro");
    assert.equal((await chat(key)).status, 200);
    const before = await sendRequest(house.port, { key, path: "/v1/pets" });
    const refused = await chat(key);
    assert.equal(refused.status, 429);
    assert.deepEqual(errorOf(refused), {
      code: "rate_limited",
      message:
        "The tokens limit of a minute, 100 units, is used up: retry after the time in Retry-After",
      status: 429,
    });
    assert.equal(onlyValue(refused, "Retry-After"), "60");
    assert.deepEqual(valuesOf(refused, "X-RateLimit-Window"), ["tokens.minute"]);
    const after = await sendRequest(house.port, { key, path: "/v1/pets" });
    assert.equal(
      rateLimitFieldsOf(after).remaining,
      Number(rateLimitFieldsOf(before).remaining) - 1,
    );
  });

  it("that requests under way hold is 429 meter_held with Retry-After 1, and passes when one has ended", async () => {
    const waiting: (() => void)[] = [];
    house.backend.answer((_seen, response) => {
      waiting.push(() => response.writeHead(200, { "X-Used": 1 }).end("{}"));
    });
    const key = await issue("pro");
    const running = [chat(key), chat(key)];
    await eventually(() => assert.equal(waiting.length, 2));
    const held = await chat(key);
    assert.deepEqual([held.status, errorOf(held).code], [429, "meter_held"]);
    assert.equal(onlyValue(held, "Retry-After"), "1");
    for (const end of waiting) end();
    for (const one of running) assert.equal((await one).status, 200);
    house.backend.answer(using(100));
    await eventually(async () => assert.equal((await chat(key)).status, 200));
    assert.equal(errorOf(await chat(key)).code, "rate_limited", "nothing is held any more");
  });

  it("that the plan lacks is 403 meter_missing, uncharged; a hold over its limit is cost_over_limit", async () => {
    house.backend.answer(using(1));
    const key = await issue("free");
    const missing = await chat(key);
    assert.deepEqual([missing.status, errorOf(missing).code], [403, "meter_missing"]);
    assert.match(String(errorOf(missing).message), /tokens/);
    const over = await chat(await issue("tiny"));
    assert.deepEqual([over.status, errorOf(over).code], [403, "cost_over_limit"]);
    await eventually(() => {
      const told = house.lines
        .slice(-2)
        .map(({ charged, decision, code }) => [charged, decision, code]);
      assert.deepEqual(told, [
        [0, "refused", "meter_missing"],
        [0, "refused", "cost_over_limit"],
      ]);
    });
  });

  it("is the account's own where it has one, and counted without a limit where the plan says so", async () => {
    house.backend.answer(using(100));
    const own = await issue("free", { limits: { "tokens.minute": 120 } });
    assert.equal(rateLimitFieldsOf(await chat(own)).limit, 120);
    const open = await issue("open");
    for (let i = 0; i < 5; i++) assert.equal((await chat(open)).status, 200);
    const unlimited = await chat(open);
    assert.deepEqual(valuesOf(unlimited, "X-RateLimit-Window"), ["minute"]);
  });

  it("is told with its hold among what requests under way were charged, also where nothing else was", async () => {
    const waiting: (() => void)[] = [];
    house.backend.answer((_seen, response) => {
      waiting.push(() => response.writeHead(200, { "X-Used": 1 }).end("{}"));
    });
    const key = await issue("pro");
    const running = sendRequest(house.port, {
      key,
      method: "POST",
      path: "/v1/tokens",
      body: "{}",
    });
    await eventually(() => assert.equal(waiting.length, 1));
    const open = (await (await house.admin("/api/open")).json()) as OpenCharge[];
    assert.deepEqual(
      open.map(({ units, meters }) => [units, meters]),
      [[0, { tokens: 40 }]],
    );
    waiting[0]?.();
    assert.equal((await running).status, 200);
  });

  it("counts what the lines say, and the law holds", async () => {
    await house.law();
  });
});
