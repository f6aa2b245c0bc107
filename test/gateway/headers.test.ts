import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ask, errorOf, openClient, rateOf, untilRefused, type Wanted } from "../support/client.ts";
import { openHouse } from "../support/house.ts";
import { eventually } from "../support/poll.ts";
import { freePort, startRedis } from "../support/redis.ts";
import { onlyValue, type RawResponse, valuesOf } from "../support/response.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const NOON_SECONDS = NOON / 1_000;
const GHOST = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: list, responses: {} }
    post: { operationId: create, requestBody: {}, responses: {} }
  /old:
    get:
      operationId: old
      deprecated: true
      x-deprecated-since: "2026-01-01"
      x-sunset: "2026-12-01"
      x-successor: /v1/pets
      responses: {}
  /gone:
    get: { operationId: gone, deprecated: true, x-deprecated-since: "2025-01-01", x-sunset: "2026-01-01", responses: {} }
  /beta:
    get: { operationId: beta, x-stability-level: beta, x-requires-scope: true, responses: {} }
`;

const house = await openHouse({
  now: () => NOON,
  files: { "api.yaml": API },
  api: "./api.yaml",
  keys: { [GHOST]: { plan: "ghost" } },
  environment: { hosts: ["gw.test"], limits: { bodyBytes: "1KiB", responseTimeout: "200ms" } },
  config: { unauthenticated: { minute: 1000 } },
});
after(() => house[Symbol.asyncDispose]());

type Case = Wanted & { readonly name: string; readonly status: number; readonly code?: string };

function told({ status, code }: Pick<Case, "status" | "code">, answer: RawResponse): void {
  assert.equal(answer.status, status, answer.body.toString());
  if (code !== undefined) {
    assert.equal(errorOf(answer).code, code);
    assert.equal(onlyValue(answer, "Content-Type"), "application/json");
    assert.equal(onlyValue(answer, "Cache-Control"), "no-store");
  }
  assert.match(onlyValue(answer, "X-Request-Id"), /^[0-9a-f-]{36}$/);
}

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
      const answer = await ask(house.port, { ...wanted, key });
      told({ status, ...(code && { code }) }, answer);
      const wantedRate = { limit: 60, remaining: 60 - used, reset: NOON_SECONDS + 60 };
      assert.deepEqual(rateOf(answer), wantedRate);
      assert.deepEqual(valuesOf(answer, "Retry-After"), []);
    }
    await house.law();
  });
}

/** What steps 1 and 2 refuse: the failure allowance of the client's address. */
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
    const failures = house.lines.filter((line) => line.status === 401).length;
    const answer = await ask(house.port, { ...wanted, key });
    told({ status, ...(code && { code }) }, answer);
    const { limit, remaining, reset } = rateOf(answer);
    assert.deepEqual([limit, remaining], [1_000, 1_000 - failures]);
    assert.ok(reset > NOON_SECONDS && reset <= NOON_SECONDS + 60, `${reset}`);
    const usage = await house.admin(`/api/usage/${account}`).then((it) => it.json());
    assert.equal((usage as { windows: { used: number }[] }).windows[0]?.used, 0);
    await house.law();
  });
}

test("5 401, missing and invalid: the allowance is charged by each", async () => {
  const first = rateOf(await ask(house.port)).remaining;
  const missing = await ask(house.port);
  told({ status: 401, code: "key_missing" }, missing);
  assert.equal(rateOf(missing).remaining, first - 1);
  const invalid = await ask(house.port, { key: "pets_live_no" });
  told({ status: 401, code: "key_invalid" }, invalid);
  assert.equal(rateOf(invalid).remaining, first - 2);
  assert.deepEqual(valuesOf(invalid, "Retry-After"), []);
});

test("4.2 past the address's allowance it is still 401, with Retry-After and Connection: close", async () => {
  await using other = await openHouse({ config: { unauthenticated: { minute: 2 } } });
  const { key } = await other.issue();
  await using client = await openClient(other.port);
  for (const remaining of [1, 0]) {
    const answer = await client.ask();
    assert.deepEqual([answer.status, rateOf(answer).remaining], [401, remaining]);
    assert.deepEqual(valuesOf(answer, "Retry-After"), []);
    assert.deepEqual(valuesOf(answer, "Connection"), ["keep-alive"]);
  }
  const over = await client.ask();
  told({ status: 401, code: "key_missing" }, over);
  assert.equal(rateOf(over).remaining, 0);
  const seconds = Number(onlyValue(over, "Retry-After"));
  assert.ok(seconds >= 1 && seconds <= 60);
  assert.ok(Math.abs(rateOf(over).reset - Date.now() / 1_000 - seconds) <= 2);
  assert.equal(onlyValue(over, "Connection"), "close");
  assert.equal(await client.ended, "closed");
  const good = await ask(other.port, { key });
  assert.equal(good.status, 200, "a valid key is never refused for its neighbours");
  await other.law();
});

test("5 405 names the methods in Allow, HEAD wherever GET is", async () => {
  const { key } = await house.issue();
  const two = await ask(house.port, { key, method: "DELETE" });
  assert.equal(onlyValue(two, "Allow"), "GET, HEAD, POST");
  const one = await ask(house.port, { key, method: "POST", path: "/v1/old" });
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
    await ask(house.port, { key });
    const answer = await ask(house.port, { key });
    told({ status: 429, code: "rate_limited" }, answer);
    assert.deepEqual(rateOf(answer), { limit: 1, remaining: 0, reset });
    assert.equal(Number(onlyValue(answer, "Retry-After")), reset - NOON_SECONDS);
  }
  await house.law();
});

test("5 a ban: Limit is that of the window that struck, Reset and Retry-After its end", async () => {
  let nowMs = NOON;
  const bans = { strikes: 2, grace: "1s", duration: "10m" };
  await using other = await openHouse({ now: () => nowMs, config: { bans } });
  const { key } = await other.issue({ limits: { minute: 1, day: 50 } });
  for (const ms of [0, 0, 1_001]) {
    nowMs = NOON + ms;
    await ask(other.port, { key });
  }
  nowMs = NOON + 2_001;
  const banned = await ask(other.port, { key });
  told({ status: 429, code: "key_banned" }, banned);
  const reset = Math.ceil((nowMs + 600_000) / 1_000);
  assert.deepEqual(rateOf(banned), { limit: 1, remaining: 0, reset });
  assert.equal(onlyValue(banned, "Retry-After"), "600");
  nowMs += 1_000;
  const again = await ask(other.port, { key });
  assert.deepEqual(rateOf(again), { limit: 1, remaining: 0, reset });
  assert.equal(onlyValue(again, "Retry-After"), "599");
  await other.law();
});

test("5 503 plan_missing: never unlimited, and never charged", async () => {
  const answer = await ask(house.port, { key: GHOST });
  told({ status: 503, code: "plan_missing" }, answer);
  assert.equal(rateOf(answer).limit, 1_000);
  await house.law();
});

test("5 502, both codes, and 504: the account's standing, charged", async () => {
  const { key } = await house.issue();
  const rate = (remaining: number) => ({ limit: 60, remaining, reset: NOON_SECONDS + 60 });
  house.backend.answer((_seen, response) => {
    response.socket?.end("HTTP/1.1 999 No\r\n\r\n");
  });
  const invalid = await ask(house.port, { key });
  told({ status: 502, code: "upstream_invalid" }, invalid);
  assert.deepEqual(rateOf(invalid), rate(59));
  house.backend.answer(() => {});
  const late = await ask(house.port, { key });
  told({ status: 504, code: "upstream_timeout" }, late);
  assert.deepEqual(rateOf(late), rate(58));
  house.backend.answer((_seen, response) => void response.end("ok"));
  await house.law();

  const origin = `http://127.0.0.1:${await freePort()}`;
  await using other = await openHouse({ environment: { upstreams: [origin] } });
  const theirs = await other.issue();
  const answer = await ask(other.port, { key: theirs.key });
  told({ status: 502, code: "upstream_unreachable" }, answer);
  assert.equal(rateOf(answer).remaining, 59);
  const [line] = other.lines;
  assert.deepEqual([line?.charged, line?.forwards, line?.decision], [1, 0, "admitted"]);
});

test("5 503 store_unavailable: the account's last known state, else limit and limit", async () => {
  const redis = await startRedis();
  await using other = await openHouse({
    config: { store: redis.url, onStoreFailure: "deny", plans: { free: { day: 60 } } },
  });
  const known = await other.issue();
  const unknown = await other.issue();
  assert.equal(rateOf(await ask(other.port, { key: known.key })).remaining, 59);
  await redis.kill();
  const answer = await ask(other.port, { key: known.key });
  told({ status: 503, code: "store_unavailable" }, answer);
  assert.equal(onlyValue(answer, "Retry-After"), "1");
  assert.deepEqual([rateOf(answer).limit, rateOf(answer).remaining], [60, 59]);
  const other2 = await ask(other.port, { key: unknown.key });
  told({ status: 503, code: "store_unavailable" }, other2);
  assert.deepEqual([rateOf(other2).limit, rateOf(other2).remaining], [60, 60]);
  await redis.close();
});

test("5 503 draining: the three fields, Retry-After: 1 and Connection: close", async () => {
  await using other = await openHouse({ config: { limits: { drain: "10s" } } });
  const { key } = await other.issue();
  await using fresh = await openClient(other.port);
  await using busy = await openClient(other.port);
  let answerNow = () => {};
  other.backend.answer((_seen, response) => {
    answerNow = () => void response.end("ok");
  });
  const slow = busy.ask({ key });
  await eventually(() => other.backend.seen.length === 1);
  const stopped = other.started.stop();
  await untilRefused(other.port);
  const refused = await fresh.ask({ key });
  told({ status: 503, code: "draining" }, refused);
  assert.equal(rateOf(refused).limit, 60);
  assert.equal(onlyValue(refused, "Retry-After"), "1");
  assert.equal(onlyValue(refused, "Connection"), "close");
  answerNow();
  const served = await slow;
  assert.equal(served.status, 200, "what was under way is served");
  assert.equal(onlyValue(served, "Connection"), "close");
  await stopped;
});

test("5 what the parser answers has none of them, no X-Request-Id and no request line", async () => {
  const lines = house.lines.length;
  for (const [bytes, status] of [
    ["GET /v1/pets HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n", 400],
    ["XYZ /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n", 501],
    ["GET /v1/pets HTTP/1.2\r\nHost: a\r\n\r\n", 505],
    [`GET /v1/pets HTTP/1.1\r\nHost: a\r\nA: ${"a".repeat(40_000)}\r\n\r\n`, 431],
  ] as const) {
    await using client = await openClient(house.port);
    client.write(bytes);
    const [answer] = (await client.responses(["GET"])) as [RawResponse];
    assert.equal(answer.status, status);
    assert.equal(errorOf(answer).status, status);
    const names = answer.fields.map(([name]) => name.toLowerCase());
    assert.ok(!names.some((name) => name.startsWith("x-")), names.join());
    assert.equal(await client.ended, "closed");
  }
  assert.equal(house.lines.length, lines);
});

test("5 ours replace the backend's X-RateLimit fields; its Link stays beside ours", async () => {
  const { key } = await house.issue();
  house.backend.answer((_seen, response) => {
    response.writeHead(200, [
      ...["x-ratelimit-limit", "7", "X-RateLimit-Remaining", "7", "X-Ratelimit-Reset", "7"],
      ...["Link", '</a>; rel="next"', "X-RateLimit-Limit", "8", "X-Request-Id", "theirs"],
      ...["Sunset", "Sat, 01 Jan 2028 00:00:00 GMT"],
    ]);
    response.end("ok");
  });
  const answer = await ask(house.port, { key, path: "/v1/old" });
  told({ status: 200 }, answer);
  assert.deepEqual(rateOf(answer), { limit: 60, remaining: 59, reset: NOON_SECONDS + 60 });
  assert.deepEqual(valuesOf(answer, "Link"), [
    '</a>; rel="next"',
    '</v1/pets>; rel="successor-version"',
  ]);
  assert.equal(onlyValue(answer, "Sunset"), "Tue, 01 Dec 2026 00:00:00 GMT");
  const plain = await ask(house.port, { key });
  assert.equal(onlyValue(plain, "Sunset"), "Sat, 01 Jan 2028 00:00:00 GMT", "not ours to judge");
  house.backend.answer((_seen, response) => void response.end("ok"));
});

test("5 the deprecation fields are on every refusal of the operation too", async () => {
  const { key } = await house.issue({ limits: { minute: 1 } });
  const path = "/v1/old";
  for (const [wanted, status] of [
    [{ path, key }, 200],
    [{ path, key }, 429],
    [{ path }, 401],
    [{ path, key: GHOST }, 503],
    [{ path, method: "HEAD" }, 401],
  ] as const) {
    const answer = await ask(house.port, wanted);
    assert.equal(answer.status, status);
    assert.equal(onlyValue(answer, "Deprecation"), `@${Date.UTC(2026, 0, 1) / 1_000}`);
    assert.equal(onlyValue(answer, "Sunset"), "Tue, 01 Dec 2026 00:00:00 GMT");
    assert.equal(onlyValue(answer, "Link"), '</v1/pets>; rel="successor-version"');
  }
  await house.law();
});

test("9.3 getPet answers 200 at 2030-12-04T23:59:59.999Z and 410 one millisecond later", async () => {
  let nowMs = Date.UTC(2030, 11, 5) - 1;
  await using other = await openHouse({ now: () => nowMs });
  const { key } = await other.issue();
  const before = await ask(other.port, { key, path: "/v1/pets/1" });
  assert.equal(before.status, 200);
  assert.equal(rateOf(before).remaining, 59);
  nowMs += 1;
  const after = await ask(other.port, { key, path: "/v1/pets/1" });
  told({ status: 410, code: "gone" }, after);
  assert.deepEqual([rateOf(after).limit, rateOf(after).remaining], [60, 59], "a new minute");
  for (const name of ["Deprecation", "Sunset", "Link"]) {
    assert.equal(onlyValue(after, name), onlyValue(before, name));
  }
  assert.equal(other.backend.seen.length, 1);
});

test("5 admitted: the window that refuses soonest; on a tie the one that resets later", async () => {
  const fewer = await house.issue({ limits: { minute: 10, day: 5 } });
  const tied = await house.issue({ limits: { minute: 5, day: 5 } });
  const midnight = Date.UTC(2026, 5, 2) / 1_000;
  for (const { key } of [fewer, tied]) {
    const rate = rateOf(await ask(house.port, { key }));
    assert.deepEqual(rate, { limit: 5, remaining: 4, reset: midnight });
  }
});
