import assert from "node:assert/strict";
import { afterAll, describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, type RawResponse, valuesOf } from "../../support/wire/response.ts";

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /reports:
    post: { operationId: report, x-cost: 5, requestBody: {}, responses: {} }
    get: { operationId: list, responses: {} }
  /free:
    get: { operationId: free, x-cost: 0, responses: {} }
  /huge:
    get: { operationId: huge, x-cost: 11, responses: {} }
  /narrow:
    get: { operationId: narrow, x-limits: { minute: 2 }, responses: {} }
`;
/** A noon that does not move: no window ends in the middle of a test. */
const NOON = Date.UTC(2026, 5, 1, 12);

describe("the cost of an operation", async () => {
  const house = await startTestGateway({
    now: () => NOON,
    files: { "api.yaml": API },
    api: "./api.yaml",
    config: { plans: { ten: { minute: 10, day: 1_000, observe: { minute: 6, hour: 8 } } } },
  });
  afterAll(() => house[Symbol.asyncDispose]());
  const issue = async () => (await house.issue({ plan: "ten" })).key;
  const report = (key: string) =>
    sendRequest(house.port, { key, method: "POST", path: "/v1/reports", body: "{}" });
  const costOf = (answer: RawResponse) => valuesOf(answer, "X-RateLimit-Cost");

  it("is charged to every window, told where it is not 1, and leaves units that a cheaper one may use", async () => {
    const key = await issue();
    const first = await report(key);
    assert.deepEqual(
      [first.status, costOf(first), rateLimitFieldsOf(first).remaining],
      [200, ["5"], 5],
    );
    const plain = await sendRequest(house.port, { key, path: "/v1/reports" });
    assert.deepEqual(
      [plain.status, costOf(plain), rateLimitFieldsOf(plain).remaining],
      [200, [], 4],
    );
    const refused = await report(key);
    assert.deepEqual([refused.status, errorOf(refused).code], [429, "rate_limited"]);
    assert.deepEqual([costOf(refused), rateLimitFieldsOf(refused).remaining], [["5"], 4]);
    assert.equal(onlyValue(refused, "Retry-After"), "60");
    assert.equal((await sendRequest(house.port, { key, path: "/v1/reports" })).status, 200);
    await eventually(() => {
      const charged = house.lines.map((entry) => entry.charged);
      assert.deepEqual(charged.slice(-4), [5, 1, 0, 1]);
    });
    await house.law();
  });

  it("names the window that a refusal is for, also where the answer before it was for another cost", async () => {
    const key = await issue();
    for (let i = 0; i < 9; i++) {
      assert.equal((await sendRequest(house.port, { key, path: "/v1/reports" })).status, 200);
    }
    const told = async (answer: Promise<RawResponse>) => {
      const response = await answer;
      const { remaining, limit } = rateLimitFieldsOf(response);
      return [response.status, limit, remaining, costOf(response), errorOf(response).message];
    };
    const spent = "The minute limit, 10 units, is used up: retry after the time in Retry-After";
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(await told(report(key)), [429, 10, 1, ["5"], spent]);
    }
    assert.equal((await sendRequest(house.port, { key, path: "/v1/reports" })).status, 200);
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(await told(report(key)), [429, 10, 0, ["5"], spent]);
      const cheap = sendRequest(house.port, { key, path: "/v1/reports" });
      assert.deepEqual(await told(cheap), [429, 10, 0, [], spent]);
    }
    await house.law();
  });

  it("is not told by a refusal ahead of the decision, and by those of the decision", async () => {
    const key = await issue();
    const asked = { method: "POST", path: "/v1/reports", body: "{}" };
    const told = async (request: Parameters<typeof sendRequest>[1]) => {
      const answer = await sendRequest(house.port, request);
      return [answer.status, ...costOf(answer)];
    };
    assert.deepEqual(await told(asked), [401]);
    assert.deepEqual(await told({ ...asked, key: "nonsense0123456789" }), [401]);
    const coded = [["Transfer-Encoding", "gzip, chunked"]] as const;
    assert.deepEqual(
      await told({ method: "POST", path: "/v1/reports", key, fields: coded }),
      [501],
    );
    assert.deepEqual(await told({ key, path: "/v1/free", body: "{}" }), [400]);
    assert.deepEqual(await told({ key, path: "/v1/huge" }), [403, "11"]);
    for (const answer of [
      [200, "5"],
      [200, "5"],
      [429, "5"],
    ] as const) {
      assert.deepEqual(await told({ ...asked, key }), answer);
    }
  });

  it("of nothing is admitted with every window used up", async () => {
    const key = await issue();
    for (let i = 0; i < 2; i++) assert.equal((await report(key)).status, 200);
    assert.equal((await sendRequest(house.port, { key, path: "/v1/reports" })).status, 429);
    const free = await sendRequest(house.port, { key, path: "/v1/free" });
    assert.deepEqual(
      [free.status, costOf(free), rateLimitFieldsOf(free).remaining],
      [200, ["0"], 0],
    );
    await house.law();
  });

  it("above the smallest limit is 403 cost_over_limit, uncharged", async () => {
    const key = await issue();
    const huge = await sendRequest(house.port, { key, path: "/v1/huge" });
    assert.deepEqual(
      [huge.status, errorOf(huge).code, costOf(huge)],
      [403, "cost_over_limit", ["11"]],
    );
    assert.equal(rateLimitFieldsOf(huge).remaining, 10);
    await house.law();
  });

  it("adds windows of an operation, which the fields and the message name", async () => {
    const key = await issue();
    const narrow = () => sendRequest(house.port, { key, path: "/v1/narrow" });
    const first = await narrow();
    assert.equal(onlyValue(first, "X-RateLimit-Window"), "narrow.minute");
    assert.deepEqual([rateLimitFieldsOf(first).limit, rateLimitFieldsOf(first).remaining], [2, 1]);
    await narrow();
    const refused = await narrow();
    assert.equal(refused.status, 429);
    assert.equal(onlyValue(refused, "X-RateLimit-Window"), "narrow.minute");
    assert.equal(
      JSON.parse(refused.body.toString()).message,
      "The minute limit of narrow, 2 units, is used up: retry after the time in Retry-After",
    );
    const other = await sendRequest(house.port, { key, path: "/v1/reports" });
    assert.equal(onlyValue(other, "X-RateLimit-Window"), "minute");
    assert.equal(rateLimitFieldsOf(other).remaining, 7);
    await house.law();
  });

  it("crosses observed limits without a refusal, and the line and a metric tell", async () => {
    const key = await issue();
    await report(key);
    const quiet = await sendRequest(house.port, { key, path: "/v1/reports" });
    assert.equal(quiet.status, 200);
    const crossing = await sendRequest(house.port, { key, path: "/v1/reports" });
    assert.equal(crossing.status, 200);
    assert.equal(onlyValue(crossing, "X-RateLimit-Window"), "minute");
    await eventually(() => assert.deepEqual(house.lines.at(-1)?.observed, ["minute"]));
    assert.equal(house.lines.at(-2)?.observed, undefined);
    for (let i = 0; i < 2; i++) await sendRequest(house.port, { key, path: "/v1/reports" });
    await eventually(() => assert.deepEqual(house.lines.at(-1)?.observed, ["minute", "hour"]));
    assert.equal((await sendRequest(house.port, { key, path: "/v1/free" })).status, 200);
    await eventually(() => assert.equal(house.lines.at(-1)?.charged, 0));
    assert.equal(house.lines.at(-1)?.observed, undefined, "a limit would not have refused it");
    const metrics = await (await house.admin("/metrics")).text();
    assert.match(metrics, /^tollgate_observed_refusals_total\{.*window="hour".*\} [1-9]$/m);
    await house.law();
  });
});
