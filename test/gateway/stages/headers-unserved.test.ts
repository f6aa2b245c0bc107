import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import {
  errorOf,
  openClient,
  rateLimitFieldsOf,
  sendRequest,
  untilRefused,
} from "../../support/wire/client.ts";
import { onlyValue, type RawResponse } from "../../support/wire/response.ts";
import { GHOST, NOON, NOON_SECONDS, openNoonHouse, told } from "../noon-house.ts";

const house = await openNoonHouse();
afterAll(() => house[Symbol.asyncDispose]());

test("5 503 plan_missing: never unlimited, and never charged", async () => {
  const answer = await sendRequest(house.port, { key: GHOST });
  told({ status: 503, code: "plan_missing" }, answer);
  assert.equal(rateLimitFieldsOf(answer).limit, 1_000);
  await eventually(() => {
    const { account, key, plan } = house.lines[0] ?? {};
    assert.deepEqual(
      [account, key, plan],
      ["fixed-0", "fixed-0", "ghost"],
      "the log knows whose it is",
    );
  });
  await house.law();
});

test("5 502, both codes: the account's standing, charged", async () => {
  const { key } = await house.issue();
  house.backend.answer((_seen, response) => {
    response.socket?.end("HTTP/1.1 999 No\r\n\r\n");
  });
  const invalid = await sendRequest(house.port, { key });
  told({ status: 502, code: "upstream_invalid" }, invalid);
  assert.deepEqual(rateLimitFieldsOf(invalid), {
    limit: 60,
    remaining: 59,
    reset: NOON_SECONDS + 60,
  });
  house.backend.answer((_seen, response) => void response.end("ok"));
  await house.law();

  const origin = `http://127.0.0.1:${await freePort()}`;
  await using other = await startTestGateway({ environment: { upstreams: [origin] } });
  const theirs = await other.issue();
  const answer = await sendRequest(other.port, { key: theirs.key });
  told({ status: 502, code: "upstream_unreachable" }, answer);
  assert.equal(rateLimitFieldsOf(answer).remaining, 59);
  const [entry] = other.lines;
  assert.deepEqual([entry?.charged, entry?.forwards, entry?.decision], [1, 0, "admitted"]);
});

test("5 504: the account's standing, charged", async () => {
  const environment = { limits: { responseTimeout: "200ms" } };
  await using other = await startTestGateway({ now: () => NOON, environment });
  other.backend.answer(() => {});
  const { key } = await other.issue();
  const late = await sendRequest(other.port, { key });
  told({ status: 504, code: "upstream_timeout" }, late);
  assert.deepEqual(rateLimitFieldsOf(late), { limit: 60, remaining: 59, reset: NOON_SECONDS + 60 });
  await other.law();
});

test("5 503 store_unavailable: the account's last known state, else limit and limit", async () => {
  const redis = await startRedis();
  await using other = await startTestGateway({
    config: { store: redis.url, onStoreFailure: "deny", plans: { free: { day: 60 } } },
    environment: { standing: "/v1/_limits" },
  });
  const known = await other.issue();
  const unknown = await other.issue();
  assert.equal(rateLimitFieldsOf(await sendRequest(other.port, { key: known.key })).remaining, 59);
  await redis.kill();
  for (const path of ["/v1/pets", "/v1/_limits"]) {
    for (const [{ key }, left] of [
      [known, 59],
      [unknown, 60],
    ] as const) {
      const answer = await sendRequest(other.port, { key, path });
      told({ status: 503, code: "store_unavailable" }, answer);
      assert.equal(onlyValue(answer, "Retry-After"), "1");
      const { limit, remaining } = rateLimitFieldsOf(answer);
      assert.deepEqual([limit, remaining], [60, left], path);
    }
  }
  await redis.close();
});

test("5 503 draining: the three fields, Retry-After: 1 and Connection: close", async () => {
  await using other = await startTestGateway({ config: { limits: { drain: "10s" } } });
  const { key } = await other.issue();
  await using fresh = await openClient(other.port);
  await using busy = await openClient(other.port);
  let answerNow = () => {};
  other.backend.answer((_seen, response) => {
    answerNow = () => void response.end("ok");
  });
  const slow = busy.ask({ key });
  await eventually(() => other.backend.seen.length === 1);
  const stopped = other.gateway.stop();
  await untilRefused(other.port);
  const refused = await fresh.ask({ key });
  told({ status: 503, code: "draining" }, refused);
  assert.equal(rateLimitFieldsOf(refused).limit, 60);
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
    ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 501],
    ["DESCRIBE rtsp://a/ RTSP/1.0\r\n\r\n", 501],
    ["GET /v1/pets HTTP/1.2\r\nHost: a\r\n\r\n", 505],
    [`GET /v1/pets HTTP/1.1\r\nHost: a\r\nA: ${"a".repeat(60_000)}\r\n\r\n`, 431],
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
