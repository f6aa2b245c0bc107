import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../support/wire/client.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
security: [{ token: [] }]
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
  /status:
    get: { operationId: status, security: [], responses: {} }
    post: { operationId: report, responses: {} }
  /both:
    get: { operationId: both, security: [{ token: [admin] }, {}], responses: {} }
  /closed:
    get: { operationId: closed, responses: {} }
`;
const OPEN = {
  now: () => NOON,
  api: "./api.yaml",
  files: { "api.yaml": API },
  environment: { public: "open" },
  config: {
    plans: { free: { minute: 60 }, open: { minute: 3, hour: 100 } },
    trustedProxies: ["127.0.0.1"],
  },
};

describe("public operations", () => {
  it("are charged to the client address, with its own fields, and refused at its limit", async () => {
    await using house = await startTestGateway(OPEN);
    const visit = (path: string, client: string, method = "GET") =>
      sendRequest(house.port, { method, path, fields: [["X-Forwarded-For", client]] });
    for (const remaining of [2, 1]) {
      const answer = await visit("/v1/status", "192.0.2.1");
      assert.equal(answer.status, 200);
      assert.deepEqual(
        [rateLimitFieldsOf(answer).limit, rateLimitFieldsOf(answer).remaining],
        [3, remaining],
      );
    }
    assert.equal((await visit("/v1/both", "192.0.2.1", "HEAD")).status, 200);
    const over = await visit("/v1/status", "192.0.2.1");
    assert.deepEqual([over.status, errorOf(over).code], [429, "rate_limited"]);
    assert.equal((await visit("/v1/status", "192.0.2.2")).status, 200, "another address");

    assert.equal((await visit("/v1/status", "2001:db8::7")).status, 200);
    await house.law();
    const account = encodeURIComponent("addr:2001:db8:0:0::/64");
    const usage = (await (await house.admin(`/api/usage/${account}`)).json()) as {
      readonly windows: readonly { readonly used: number }[];
    };
    assert.deepEqual(
      usage.windows.map(({ used }) => used),
      [1, 1],
    );
    const path = "/api/accounts/addr%3A192.0.2.1/reset";
    assert.equal((await house.admin(path, { method: "POST", body: "{}" })).status, 200);
    assert.equal((await visit("/v1/status", "192.0.2.1")).status, 200, "reset by an operator");

    const sent = house.backend.seen[0];
    assert.doesNotMatch(JSON.stringify(sent), /x-consumer/i);
    const [entry] = house.lines;
    assert.deepEqual(
      [entry?.account, entry?.plan, entry?.key],
      ["addr:192.0.2.1", "open", undefined],
    );
  });

  it("bring no strikes and no bans, however often an address asks on", async () => {
    let nowMs = NOON;
    const bans = { strikes: 1, within: "1m", grace: "0s" };
    const config = { ...OPEN.config, bans };
    await using house = await startTestGateway({ ...OPEN, now: () => nowMs, config });
    const codes: unknown[] = [];
    for (let i = 0; i < 8; i++) {
      nowMs += 1_000;
      const answer = await sendRequest(house.port, { path: "/v1/status" });
      codes.push(answer.status === 200 ? 200 : errorOf(answer).code);
    }
    assert.deepEqual(codes, [...Array(3).fill(200), ...Array(5).fill("rate_limited")]);
  });

  it("are found by path and method: all else without credentials is 401", async () => {
    await using house = await startTestGateway(OPEN);
    for (const [method, path] of [
      ["POST", "/v1/status"],
      ["GET", "/v1/closed"],
      ["GET", "/v1/nothing"],
      ["DELETE", "/v1/status"],
    ] as const) {
      const answer = await sendRequest(house.port, { method, path });
      assert.deepEqual([answer.status, errorOf(answer).code], [401, "key_missing"], path);
    }
    assert.equal(house.backend.seen.length, 0);
  });

  it("judge credentials that are there: a valid key charges its account, an invalid one is 401", async () => {
    await using house = await startTestGateway(OPEN);
    const { key, account } = await house.issue();
    const answer = await sendRequest(house.port, { key, path: "/v1/status" });
    assert.deepEqual([answer.status, rateLimitFieldsOf(answer).limit], [200, 60]);
    assert.equal((await sendRequest(house.port, { key, path: "/v1/both" })).status, 200);
    const wrong = await sendRequest(house.port, {
      key: `${key.slice(0, -1)}!`,
      path: "/v1/status",
    });
    assert.deepEqual([wrong.status, errorOf(wrong).code], [401, "key_invalid"]);
    assert.deepEqual(
      house.lines.map((entry) => entry.account),
      [account, account, undefined],
    );
    await house.law();
  });

  it("need a key with public: off", async () => {
    await using house = await startTestGateway({ ...OPEN, environment: {} });
    const answer = await sendRequest(house.port, { path: "/v1/status" });
    assert.deepEqual([answer.status, errorOf(answer).code], [401, "key_missing"]);
  });

  it("are publicRoutes where there is no description", async () => {
    await using house = await startTestGateway({
      ...OPEN,
      environment: { public: "open", api: null, publicRoutes: ["GET /v1/jobs/{id}"] },
    });
    const statusOf = async (path: string, method = "GET") =>
      (await sendRequest(house.port, { path, method })).status;
    assert.equal(await statusOf("/v1/jobs/7"), 200);
    assert.equal(await statusOf("/v1/jobs/7", "HEAD"), 200);
    assert.equal(await statusOf("/v1/jobs/7", "POST"), 401);
    assert.equal(await statusOf("/v1/jobs"), 401);
    assert.equal(await statusOf("/v1/jobs/7/8"), 401);
  });

  it("however many addresses are slow, leave connections to a backend for those with a key", async () => {
    const held: (() => void)[] = [];
    const backend = await startTestUpstream((_seen, response, request) => {
      if (request.url?.includes("slow")) held.push(() => response.end("slow"));
      else response.end("quick");
    });
    const environment = { ...OPEN.environment, limits: { upstreamConnections: 16 } };
    await using house = await startTestGateway({ ...OPEN, backend, environment });
    const slow = Array.from({ length: 100 }, (_, i) => {
      const fields = [["X-Forwarded-For", `192.0.2.${i}`]] as const;
      return sendRequest(house.port, { path: "/v1/status?slow", fields });
    });
    await eventually(() => assert.equal(held.length, 14));
    const { key } = await house.issue();
    for (let i = 0; i < 20; i++) {
      assert.equal((await sendRequest(house.port, { key, path: "/v1/closed" })).status, 200);
    }
    assert.equal(held.length, 14, "an eighth is left");
    let ended = 0;
    const all = Promise.all(slow.map((one) => one.then(() => (ended += 1))));
    await eventually(() => {
      for (const end of held.splice(0)) end();
      assert.equal(ended, 100);
    });
    await all;
    await house.law();
  });
});
