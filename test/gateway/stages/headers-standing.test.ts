import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import {
  openClient,
  type RequestOptions,
  rateLimitFieldsOf,
  sendRequest,
} from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";
import { NOON, NOON_SECONDS, openNoonHouse, type Told, told } from "../noon-house.ts";

const house = await openNoonHouse();
afterAll(() => house[Symbol.asyncDispose]());

type Case = RequestOptions & Told & { readonly name: string };

/** From step 4 on, and for a key that was accepted: the account's own standing, and it is charged. */
const CHARGED: readonly Case[] = [
  { name: "200 of the backend", status: 200 },
  { name: "HEAD", method: "HEAD", status: 200 },
  { name: "404", path: "/v1/none", status: 404, code: "not_found" },
  { name: "405", method: "DELETE", status: 405, code: "method_not_allowed" },
  { name: "403", path: "/v1/beta", status: 403, code: "scope_required" },
  { name: "410", path: "/v1/gone", status: 410, code: "gone" },
];

for (const { name, status, code, ...wanted } of CHARGED) {
  test(`5 ${name}: the three fields once, of the account, charged`, async () => {
    const { key } = await house.issue();
    for (const used of [1, 2]) {
      const answer = await sendRequest(house.port, { ...wanted, key });
      told({ status, ...(code && { code }) }, answer);
      const wantedRate = { limit: 60, remaining: 60 - used, reset: NOON_SECONDS + 60 };
      assert.deepEqual(rateLimitFieldsOf(answer), wantedRate);
      assert.deepEqual(valuesOf(answer, "Retry-After"), []);
    }
    await house.law();
  });
}

/** Refusals of steps 1 and 2 tell the failure allowance of the client's address. */
const UNCHARGED: readonly Case[] = [
  { name: "400 from the handler", path: "/v1/pets/../x", status: 400, code: "bad_request" },
  { name: "413", method: "POST", body: "x".repeat(1025), status: 413, code: "body_too_large" },
  { name: "414", path: `/v1/pets?${"a".repeat(8192)}`, status: 414, code: "uri_too_long" },
  { name: "417", fields: [["Expect", "a"]], status: 417, code: "expectation_failed" },
  { name: "421", host: "other.test", status: 421, code: "misdirected" },
  { name: "OPTIONS *", method: "OPTIONS", path: "*", status: 204 },
  { name: "TRACE", method: "TRACE", status: 405, code: "method_not_allowed" },
];

for (const { name, status, code, ...wanted } of UNCHARGED) {
  test(`5 ${name}: the three fields once, of the address's allowance, uncharged`, async () => {
    const { key, account } = await house.issue();
    const failures = house.lines.filter((entry) => entry.status === 401).length;
    const answer = await sendRequest(house.port, { ...wanted, key });
    told({ status, ...(code && { code }) }, answer);
    const { limit, remaining, reset } = rateLimitFieldsOf(answer);
    assert.deepEqual([limit, remaining], [1_000, 1_000 - failures]);
    assert.ok(reset > NOON_SECONDS && reset <= NOON_SECONDS + 60, `${reset}`);
    const usage = await house.admin(`/api/usage/${account}`).then((it) => it.json());
    assert.equal((usage as { windows: { used: number }[] }).windows[0]?.used, 0);
    await house.law();
  });
}

test("5 401, missing and invalid: the allowance is charged by each", async () => {
  const first = rateLimitFieldsOf(await sendRequest(house.port)).remaining;
  const missing = await sendRequest(house.port);
  told({ status: 401, code: "key_missing" }, missing);
  assert.equal(rateLimitFieldsOf(missing).remaining, first - 1);
  const invalid = await sendRequest(house.port, { key: "pets_live_no" });
  told({ status: 401, code: "key_invalid" }, invalid);
  assert.equal(rateLimitFieldsOf(invalid).remaining, first - 2);
  assert.deepEqual(valuesOf(invalid, "Retry-After"), []);
});

test("4.2 past the address's allowance it is still 401, with Retry-After and Connection: close", async () => {
  await using other = await startTestGateway({ config: { unauthenticated: { day: 2 } } });
  const { key } = await other.issue();
  await using client = await openClient(other.port);
  for (const remaining of [1, 0]) {
    const answer = await client.ask();
    assert.deepEqual([answer.status, rateLimitFieldsOf(answer).remaining], [401, remaining]);
    assert.deepEqual(valuesOf(answer, "Retry-After"), []);
    assert.deepEqual(valuesOf(answer, "Connection"), []);
  }
  const over = await client.ask();
  told({ status: 401, code: "key_missing" }, over);
  assert.equal(rateLimitFieldsOf(over).remaining, 0);
  const seconds = Number(onlyValue(over, "Retry-After"));
  assert.ok(seconds >= 1 && seconds <= 86_400);
  assert.ok(Math.abs(rateLimitFieldsOf(over).reset - Date.now() / 1_000 - seconds) <= 2);
  assert.equal(onlyValue(over, "Connection"), "close");
  assert.equal(await client.ended, "closed");
  const good = await sendRequest(other.port, { key });
  assert.equal(good.status, 200, "a valid key is never refused for its neighbours");
  await other.law();
});

test("5 405 names the methods in Allow, HEAD wherever GET is", async () => {
  const { key } = await house.issue();
  const two = await sendRequest(house.port, { key, method: "DELETE" });
  assert.equal(onlyValue(two, "Allow"), "GET, HEAD, POST");
  const one = await sendRequest(house.port, { key, method: "POST", path: "/v1/old" });
  assert.equal(onlyValue(one, "Allow"), "GET, HEAD");
});

test("5 429 of the minute and of the day: what ends last, with Retry-After for it", async () => {
  const minute = await house.issue({ limits: { minute: 1 } });
  const day = await house.issue({ limits: { day: 1 } });
  const both = await house.issue({ limits: { minute: 1, day: 1 } });
  const midnight = Date.UTC(2026, 5, 2) / 1_000;
  for (const [{ key }, reset] of [
    [minute, NOON_SECONDS + 60],
    [day, midnight],
    [both, midnight],
  ] as const) {
    await sendRequest(house.port, { key });
    const answer = await sendRequest(house.port, { key });
    told({ status: 429, code: "rate_limited" }, answer);
    assert.deepEqual(rateLimitFieldsOf(answer), { limit: 1, remaining: 0, reset });
    assert.equal(Number(onlyValue(answer, "Retry-After")), reset - NOON_SECONDS);
  }
  await house.law();
});

test("5 a ban: Limit is that of the window that struck, Reset and Retry-After its end", async () => {
  let nowMs = NOON;
  const bans = { strikes: 2, grace: "1s", duration: "10m" };
  await using other = await startTestGateway({ now: () => nowMs, config: { bans } });
  const { key } = await other.issue({ limits: { minute: 1, day: 50 } });
  for (const ms of [0, 0, 1_001]) {
    nowMs = NOON + ms;
    await sendRequest(other.port, { key });
  }
  nowMs = NOON + 2_001;
  const banned = await sendRequest(other.port, { key });
  told({ status: 429, code: "key_banned" }, banned);
  const reset = Math.ceil((nowMs + 600_000) / 1_000);
  assert.deepEqual(rateLimitFieldsOf(banned), { limit: 1, remaining: 0, reset });
  assert.equal(onlyValue(banned, "Retry-After"), "600");
  nowMs += 1_000;
  const again = await sendRequest(other.port, { key });
  assert.deepEqual(rateLimitFieldsOf(again), { limit: 1, remaining: 0, reset });
  assert.equal(onlyValue(again, "Retry-After"), "599");
  await other.law();
});

test("5 a ban: a request that is refused for something else, undecided, has its fields too", async () => {
  let nowMs = NOON;
  const bans = { strikes: 1, grace: "0s", duration: "10m" };
  const environment = { api: undefined, costs: [{ match: "GET /v1/huge", cost: 2 }] };
  await using other = await startTestGateway({ now: () => nowMs, config: { bans }, environment });
  const { key } = await other.issue({ limits: { minute: 1, day: 50 } });
  for (let i = 0; i < 3; i++) {
    nowMs += 1_000;
    await sendRequest(other.port, { key });
  }
  const reset = nowMs / 1_000 + 600;
  nowMs += 120_000;
  const huge = await sendRequest(other.port, { key, path: "/v1/huge" });
  told({ status: 403, code: "cost_over_limit" }, huge);
  assert.deepEqual(rateLimitFieldsOf(huge), { limit: 1, remaining: 0, reset });
  assert.equal(onlyValue(huge, "X-RateLimit-Window"), "ban");
  await other.law();
});

test("5 admitted: the window that refuses soonest; on a tie the one that resets later", async () => {
  const fewer = await house.issue({ limits: { minute: 10, day: 5 } });
  const tied = await house.issue({ limits: { minute: 5, day: 5 } });
  const midnight = Date.UTC(2026, 5, 2) / 1_000;
  for (const { key } of [fewer, tied]) {
    const rate = rateLimitFieldsOf(await sendRequest(house.port, { key }));
    assert.deepEqual(rate, { limit: 5, remaining: 4, reset: midnight });
  }
});
