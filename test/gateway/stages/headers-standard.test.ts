import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import {
  errorOf,
  rateLimitFieldsOf,
  sendRequest,
  standardItems,
} from "../../support/wire/client.ts";
import { onlyValue, type RawResponse, valuesOf } from "../../support/wire/response.ts";

const NOON = Date.UTC(2026, 6, 15, 12, 0, 10);
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: list, responses: {} }
    post: { operationId: create, x-cost: 2, x-limits: { minute: 3 }, responses: {} }
  /gone:
    get: { operationId: old, deprecated: true, x-sunset: 2026-01-01, responses: {} }
`;

type Windows = {
  readonly windows: readonly { window: string; remaining: number; limit: number }[];
};

/** The fields of an answer against `usage` of its account: every window that the request asked for. */
async function heldAgainstUsage(house: TestGateway, account: string, answer: RawResponse) {
  rateLimitFieldsOf(answer);
  const { windows } = (await (await house.admin(`/api/usage/${account}`)).json()) as Windows;
  const known = new Map(windows.map((one) => [one.window, one]));
  const [states, policies] = [
    standardItems(answer, "RateLimit"),
    standardItems(answer, "RateLimit-Policy"),
  ];
  for (const [name, { r }] of states) {
    if (name === "ban") continue;
    const { remaining, limit } = known.get(name) ?? {};
    assert.deepEqual([name, r, policies.get(name)?.q], [name, remaining, limit]);
  }
  return [...states.keys()];
}

describe("RateLimit and RateLimit-Policy", () => {
  it("say of every window what usage says, admitted, refused, banned and unserved", async () => {
    let nowMs = NOON;
    await using house = await startTestGateway({
      now: () => nowMs,
      api: "./api.yaml",
      files: { "api.yaml": API },
      config: {
        plans: { free: { minute: 6, week: 50, year: 70 } },
        bans: { strikes: 2, grace: "0s" },
      },
    });
    const { key, account, id } = await house.issue({ caps: { hour: 40 } });
    const plain = ["minute", "key.hour", "week", "year"];
    const ask = async (wanted: object, status: number, names: readonly string[]) => {
      const answer = await sendRequest(house.port, { key, ...wanted });
      assert.equal(answer.status, status);
      assert.deepEqual(await heldAgainstUsage(house, id, answer), names);
      return answer;
    };
    const first = await ask({}, 200, plain);
    assert.equal(
      onlyValue(first, "RateLimit-Policy"),
      '"minute";q=6;w=60, "key.hour";q=40;w=3600, "week";q=50;w=604800, "year";q=70;w=31536000',
    );
    assert.equal(standardItems(first, "RateLimit").get("minute")?.t, 50);
    const create = { method: "POST", body: "{}", fields: [["Content-Type", "application/json"]] };
    await ask(create, 200, ["minute", "create.minute", ...plain.slice(1)]);
    await ask(create, 429, ["minute", "create.minute", ...plain.slice(1)]);
    await ask({ path: "/v1/gone" }, 410, plain);
    await ask({ path: "/v1/none" }, 404, plain);
    await ask({}, 200, plain);
    nowMs += 1_000;
    await ask({}, 429, plain);
    nowMs += 1_000;
    await ask({}, 429, plain);
    nowMs += 1_000;
    const banned = await ask({}, 429, [...plain, "ban"]);
    assert.equal(errorOf(banned).code, "key_banned");
    assert.equal(
      Number(standardItems(banned, "RateLimit").get("ban")?.t),
      Number(onlyValue(banned, "Retry-After")),
    );
    assert.ok(account.length > 0);
    await house.law();
  });

  it("tell the failure allowance where no key was accepted, and none is there when it is off", async () => {
    await using house = await startTestGateway({ now: () => NOON });
    const missing = await sendRequest(house.port, {});
    assert.equal(missing.status, 401);
    rateLimitFieldsOf(missing);
    assert.deepEqual(standardItems(missing, "RateLimit").get("unauthenticated"), { r: 59, t: 50 });
    assert.equal(onlyValue(missing, "RateLimit-Policy"), '"unauthenticated";q=60;w=60');
    await house.rewrite({ unauthenticated: { month: 9 } });
    await house.admin("/api/reload", { method: "POST", body: "{}" });
    const monthly = await sendRequest(house.port, {});
    assert.equal(onlyValue(monthly, "RateLimit-Policy"), '"unauthenticated";q=9;w=2678400');
    await using off = await startTestGateway({ config: { rateLimitFields: "off" } });
    const answer = await sendRequest(off.port, {});
    assert.deepEqual(
      [valuesOf(answer, "RateLimit"), valuesOf(answer, "RateLimit-Policy")],
      [[], []],
    );
  });

  it("drop those of the backend, on or off", async () => {
    for (const rateLimitFields of ["off", "ietf"]) {
      await using house = await startTestGateway({ config: { rateLimitFields } });
      house.backend.answer((_seen, response) => {
        response.writeHead(200, { RateLimit: '"x";r=1;t=1', "RateLimit-Policy": '"x";q=1' });
        response.end("[]");
      });
      const { key } = await house.issue();
      const answer = await sendRequest(house.port, { key });
      assert.equal(valuesOf(answer, "RateLimit").join().includes('"x"'), false);
      assert.equal(valuesOf(answer, "RateLimit").length, rateLimitFields === "off" ? 0 : 1);
    }
  });
});

describe("errors: problem", () => {
  const problemOf = (answer: RawResponse) => {
    assert.equal(onlyValue(answer, "Content-Type"), "application/problem+json");
    return JSON.parse(answer.body.toString());
  };

  it("answers with problem details, code and message as before", async () => {
    await using house = await startTestGateway({ config: { errors: "problem" } });
    const { key } = await house.issue({ limits: { day: 1 } });
    assert.deepEqual(problemOf(await sendRequest(house.port, {})), {
      type: "about:blank",
      title: "Unauthorized",
      status: 401,
      detail: "An API key is required: send Authorization: Bearer <API_KEY>",
      code: "key_missing",
      message: "An API key is required: send Authorization: Bearer <API_KEY>",
    });
    await sendRequest(house.port, { key });
    const { detail, message, title, code } = problemOf(await sendRequest(house.port, { key }));
    assert.match(detail, /^The day limit, 1 units, is used up/);
    assert.deepEqual([message, title, code], [detail, "Too Many Requests", "rate_limited"]);
    // The parser answers so too, before there is a request.
    const broken = await sendRequest(house.port, { version: "HTTP/9.9" });
    assert.equal(problemOf(broken).status, broken.status);
    await house.law();
  });

  it("names each type under errorsUrl, and is taken over by a reload", async () => {
    const errorsUrl = "https://docs.example.com/errors/";
    await using house = await startTestGateway({ config: { errors: "problem", errorsUrl } });
    const { type, title, detail } = problemOf(await sendRequest(house.port, {}));
    assert.deepEqual([type, title], ["https://docs.example.com/errors/key_missing", detail]);
    await house.rewrite({ errors: "plain" });
    assert.equal((await house.admin("/api/reload", { method: "POST" })).status, 200);
    assert.equal(errorOf(await sendRequest(house.port, {})).code, "key_missing");
  });
});
