import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { test } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { startLoad } from "../../support/gateway/load.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { errorOf, openClient, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";

const NOON = Date.UTC(2026, 5, 1, 12);

test("environments share a listener and differ by hosts; another host is 421", async () => {
  const listen = `127.0.0.1:${await freePort()}`;
  const shared = { listen, basePath: "/v1", upstreams: ["http://127.0.0.1:9"] };
  await using house = await startTestGateway({
    config: {
      environments: {
        production: { ...shared, keyTag: "live", hosts: ["api.test", "api2.test"] },
        staging: { ...shared, keyTag: "test", hosts: ["staging.test"] },
      },
    },
  });
  const live = await house.issue();
  const staging = await house.issue({ environment: "staging" });
  const codeFor = async (key: string, host: string, path = "/v1/pets") =>
    errorOf(await sendRequest(house.port, { key, host, path })).code;
  const unreachable = "upstream_unreachable";
  for (const host of ["api.test", "API2.Test", "api.test:8080"]) {
    assert.equal(await codeFor(live.key, host), unreachable, host);
    assert.equal(await codeFor(staging.key, host), "key_invalid", host);
  }
  assert.equal(await codeFor(staging.key, "staging.test"), unreachable);
  assert.equal(await codeFor(live.key, "staging.test"), "key_invalid");
  for (const host of ["other.test", "api.test.evil", "127.0.0.1"]) {
    assert.equal(await codeFor(live.key, host), "misdirected", host);
  }
  const absolute = await sendRequest(house.port, {
    key: live.key,
    host: "api.test",
    path: "http://staging.test/v1/pets",
  });
  assert.equal(absolute.status, 400, "one authority decides");
});

test("an address of IPv6 in hosts is the same host however it is written", async () => {
  const shared = { listen: `127.0.0.1:${await freePort()}`, upstreams: ["http://127.0.0.1:9"] };
  await using house = await startTestGateway({
    config: {
      environments: {
        production: { ...shared, keyTag: "live", hosts: ["[0:0:0:0:0:0:0:1]"] },
        staging: { ...shared, keyTag: "test", hosts: ["[2001:db8::1]"] },
      },
    },
  });
  const { key } = await house.issue();
  const codeFor = async (host: string) =>
    errorOf(await sendRequest(house.port, { key, host, path: "/v1/pets" })).code;
  for (const host of ["[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]", "[0::0:1]"]) {
    assert.equal(await codeFor(host), "upstream_unreachable", host);
  }
  for (const host of ["[2001:db8::1]", "[2001:DB8:0::1]:80"]) {
    assert.equal(await codeFor(host), "key_invalid", host);
  }
  assert.equal(await codeFor("[::2]"), "misdirected");
});

test("a host that one environment names is that one's, though another before it takes any", async () => {
  const listen = `127.0.0.1:${await freePort()}`;
  const shared = { listen, basePath: "/v1", upstreams: ["http://127.0.0.1:9"] };
  await using house = await startTestGateway({
    config: {
      environments: {
        production: { ...shared, keyTag: "live" },
        staging: { ...shared, keyTag: "test", hosts: ["staging.test"] },
      },
    },
  });
  const live = await house.issue();
  const staging = await house.issue({ environment: "staging" });
  const codeFor = async (key: string, host: string) =>
    errorOf(await sendRequest(house.port, { key, host })).code;
  assert.equal(await codeFor(staging.key, "staging.test"), "upstream_unreachable");
  assert.equal(await codeFor(live.key, "staging.test"), "key_invalid");
  assert.equal(await codeFor(live.key, "other.test"), "upstream_unreachable");
  assert.equal(await codeFor(staging.key, "other.test"), "key_invalid");
});

test("without an api file seven methods pass under basePath, and nothing outside of it", async () => {
  await using house = await startTestGateway({ environment: { api: null, basePath: "/v1" } });
  const { key } = await house.issue({ plan: "pro" });
  for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
    for (const path of ["/v1/any/thing", "/v1", "/v1/"]) {
      assert.equal(
        (await sendRequest(house.port, { key, method, path })).status,
        200,
        method + path,
      );
    }
  }
  assert.equal(house.backend.seen.length, 21);
  const body = await sendRequest(house.port, { key, method: "DELETE", path: "/v1/a", body: "{}" });
  assert.equal(body.status, 200, "a body on DELETE passes where there is no api file");
  const { remaining } = rateLimitFieldsOf(body);
  for (const path of ["/", "/v2/x", "/v1x", "/V1/x"]) {
    const answer = await sendRequest(house.port, { key, path });
    assert.deepEqual([path, answer.status], [path, 404]);
  }
  assert.equal(
    rateLimitFieldsOf(await sendRequest(house.port, { key, path: "/v1/a" })).remaining,
    remaining - 5,
  );
  const trace = await sendRequest(house.port, { key, method: "TRACE", path: "/v1/a" });
  assert.deepEqual([trace.status, errorOf(trace).code], [405, "method_not_allowed"]);
  onlyValue(trace, "Allow");
  await house.law();
});

test("with an api file OPTIONS is 405 unless it is described; the Allow has every method", async () => {
  await using house = await startTestGateway();
  const { key } = await house.issue();
  const answer = await sendRequest(house.port, { key, method: "OPTIONS", path: "/v1/pets" });
  assert.deepEqual([answer.status, onlyValue(answer, "Allow")], [405, "GET, HEAD, POST"]);
  await house.law();
});

test("rateLimitFields: ietf adds RateLimit and RateLimit-Policy to every answer of an account, and off none", async () => {
  await using house = await startTestGateway({
    now: () => NOON,
    config: { rateLimitFields: "ietf" },
  });
  const { key } = await house.issue({ limits: { minute: 2 } });
  const wanted = '"minute";q=2;w=60, "day";q=1000;w=86400';
  for (const status of [200, 200, 429]) {
    const answer = await sendRequest(house.port, { key });
    assert.deepEqual([answer.status, onlyValue(answer, "RateLimit-Policy")], [status, wanted]);
    rateLimitFieldsOf(answer);
  }
  await using off = await startTestGateway({ config: { rateLimitFields: "off" } });
  const other = await off.issue();
  assert.deepEqual(
    valuesOf(await sendRequest(off.port, { key: other.key }), "RateLimit-Policy"),
    [],
  );
});

test("scopes: an operation that requires one is 403 without it, charged, and 200 with it", async () => {
  const api = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: a, x-stability-level: beta, x-requires-scope: true, responses: {} }
`;
  await using house = await startTestGateway({ files: { "api.yaml": api }, api: "./api.yaml" });
  const without = await house.issue();
  const other = await house.issue({ scopes: ["experimental"] });
  const scoped = await house.issue({ scopes: ["beta"] });
  for (const { key } of [without, other]) {
    const answer = await sendRequest(house.port, { key });
    assert.deepEqual([answer.status, errorOf(answer).code], [403, "scope_required"]);
    assert.equal(rateLimitFieldsOf(answer).remaining, 59);
  }
  assert.equal((await sendRequest(house.port, { key: scoped.key })).status, 200);
  await house.law();
});

test("two keys of one account share its quota; a rotated key works on, with the same count", async () => {
  await using house = await startTestGateway({ now: () => NOON });
  const first = await house.issue();
  const second = await house.issue({ account: first.account });
  assert.equal(rateLimitFieldsOf(await sendRequest(house.port, { key: first.key })).remaining, 59);
  assert.equal(rateLimitFieldsOf(await sendRequest(house.port, { key: second.key })).remaining, 58);
  const response = await house.admin(`/api/keys/${first.id}/rotate`, {
    method: "POST",
    body: "{}",
  });
  const rotated = (await response.json()) as { key: string; account: string };
  assert.equal(rotated.account, first.account);
  assert.equal(
    rateLimitFieldsOf(await sendRequest(house.port, { key: rotated.key })).remaining,
    57,
  );
  assert.equal(
    rateLimitFieldsOf(await sendRequest(house.port, { key: first.key })).remaining,
    56,
    "the grace",
  );
  await house.law();
});

test("a reload keeps connections and counts, and takes the new limits and plans", async () => {
  await using house = await startTestGateway({ now: () => NOON });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  assert.equal(rateLimitFieldsOf(await client.ask({ key })).remaining, 59);
  await house.rewrite({
    plans: { free: { minute: 10 }, enterprise: "custom" },
    limits: { urlBytes: "64B", drain: "1s" },
  });
  assert.equal((await house.gateway.reload()).ok, true);
  const after = await client.ask({ key });
  assert.deepEqual([rateLimitFieldsOf(after).limit, rateLimitFieldsOf(after).remaining], [10, 8]);
  assert.equal((await client.ask({ key, path: `/v1/pets?${"a".repeat(64)}` })).status, 414);
});

test("a reload with a mistake keeps the old configuration, and says the line", async () => {
  await using house = await startTestGateway({ now: () => NOON });
  const { key } = await house.issue();
  await house.rewrite({ plans: { free: { minute: 0 } } });
  const reloaded = await house.gateway.reload();
  assert.equal(reloaded.ok, false);
  assert.equal(rateLimitFieldsOf(await sendRequest(house.port, { key })).limit, 60);
  const [said] = house.said.filter(({ level }) => level === "error");
  assert.match(String(said?.why), /tollgate\.yaml:\d+:\d+: /);
});

test("connections to a backend that a reload took away are closed, the busy ones when they are done", async () => {
  let answer = () => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await using old = await startTestUpstream(async ({ target }, response) => {
    if (target.endsWith("/2")) await held;
    response.end("{}");
  });
  const connected = () => old.connections() - old.closed();
  await using house = await startTestGateway({ environment: { upstreams: [old.origin] } });
  const { key } = await house.issue({ plan: "business" });
  const busy = house.ask(key, "/v1/pets/2");
  await eventually(() => assert.equal(old.seen.length, 1));
  const load = startLoad(`${house.url}/v1/pets/1`, key, 100);
  await eventually(() => assert.ok(old.seen.length > 20));

  await using fresh = await startTestUpstream();
  const text = await readFile(house.file, "utf8");
  await writeFile(house.file, text.replace(old.origin, fresh.origin));
  assert.equal((await house.gateway.reload()).ok, true);
  await eventually(() => assert.ok(fresh.seen.length > 20));
  await eventually(() => assert.equal(connected(), 1));
  const went = await load.stop();
  assert.deepEqual(
    went.filter((one) => !("status" in one) || one.status !== 200),
    [],
  );
  answer();
  assert.equal((await busy).status, 200);
  await eventually(() => assert.equal(connected(), 0));
});
