import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import type { RecordedRequest } from "../../support/gateway/backend.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../support/gateway/house.ts";
import { type RequestOptions, requestBytes, sendRequest } from "../../support/wire/client.ts";
import { sendRaw } from "../../support/wire/raw.ts";
import { onlyValue } from "../../support/wire/response.ts";

type Fields = NonNullable<RequestOptions["fields"]>;
const house = await startTestGateway({ environment: { hosts: [] } });
afterAll(() => house[Symbol.asyncDispose]());
const { key, account } = await house.issue({ plan: "business" });

/** The request as the backend saw it, and what the client got. */
async function seenBy(where: TestGateway, theirs: string, wanted: RequestOptions) {
  const answer = await sendRequest(where.port, { key: theirs, ...wanted });
  assert.equal(answer.status, 200, answer.body.toString());
  return { seen: where.backend.seen.at(-1) as RecordedRequest, answer };
}

const sent = async (fields: Fields, more: RequestOptions = {}) =>
  (await seenBy(house, key, { ...more, fields })).seen;

function values({ rawHeaders }: RecordedRequest, name: string): string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name);
}

test("ordinary fields pass as they are: names, order, repetition, Latin-1", async () => {
  const fields = [
    ["X-Odd-CASE", "a"],
    ["Accept", "text/html;q=0.9, */*"],
    ["X-Odd-CASE", "b, c"],
    ["Cookie", "a=b; c=d"],
    ["X-Latin", "caf\u00e9"],
    ["Range", "bytes=0-9"],
  ] as const;
  const { rawHeaders } = await sent(fields);
  const start = rawHeaders.indexOf("X-Odd-CASE");
  assert.deepEqual(rawHeaders.slice(start, start + 12), fields.flat());
});

test("hop-by-hop fields, and all that Connection names, stay here", async () => {
  const seen = await sent([
    ["Connection", "keep-alive, X-One"],
    ["connection", "x-TWO"],
    ["X-One", "1"],
    ["X-Two", "2"],
    ["Keep-Alive", "timeout=5"],
    ["Proxy-Connection", "keep-alive"],
    ["Proxy-Authorization", "Basic eA=="],
    ["TE", "trailers"],
    ["Trailer", "X-T"],
    ["X-Three", "3"],
  ]);
  for (const name of ["x-one", "x-two", "keep-alive", "proxy-connection", "te", "trailer"]) {
    assert.deepEqual(values(seen, name), [], name);
  }
  assert.deepEqual(values(seen, "proxy-authorization"), []);
  assert.deepEqual(values(seen, "x-three"), ["3"]);
});

test("a nomination can never remove what the gateway adds", async () => {
  const nominated = "X-Consumer-Id, X-Consumer-Plan, X-Request-Id, X-Forwarded-For, Via, Host";
  const seen = await sent([["Connection", nominated]]);
  assert.deepEqual(values(seen, "x-consumer-id"), [account]);
  assert.deepEqual(values(seen, "x-consumer-plan"), ["business"]);
  for (const name of ["x-request-id", "x-forwarded-for", "via", "host"]) {
    assert.equal(values(seen, name).length, 1, name);
  }
});

test("names with _ are dropped: others read them as -", async () => {
  const seen = await sent([
    ["X_Consumer_Id", "root"],
    ["Content_Length", "5"],
    ["X-A", "kept"],
  ]);
  const names = seen.rawHeaders.filter((_, i) => i % 2 === 0);
  assert.ok(!names.some((name) => name.includes("_")), names.join());
  assert.deepEqual(values(seen, "x-a"), ["kept"]);
});

test("a name that PHP or a CGI server reads as one of ours is dropped, and no other odd name is", async () => {
  const dropped = [
    ...["X.Consumer.Id", "X-Consumer-Meta.Tenant", "X-Consumer.Scopes", "x~consumer~plan"],
    ...["X.Forwarded.For", "X-Real.IP", "X.Original.URL", "X-HTTP-Method.Override", "X.Request.Id"],
    ...["Proxy.Authorization", "X-RateLimit.Limit", "X!Consumer'Anything"],
  ];
  const kept = ["X.Trace", "X-Consumer", "X~Consumers-Id", "Real.IP"];
  const seen = await sent([...dropped, ...kept].map((name) => [name, "theirs"] as const));
  const theirs = seen.rawHeaders.filter((_, i) => seen.rawHeaders[i + 1] === "theirs");
  assert.deepEqual(theirs, kept);
});

test("Authorization and the client's copies of our fields are not forwarded", async () => {
  const seen = await sent([
    ["X-Consumer-Id", "root"],
    ["X-CONSUMER-Plan", "enterprise"],
    ["X-Consumer-Anything", "x"],
    ["X-RateLimit-Limit", "1"],
    ["X-Original-URL", "/admin"],
    ["X-Rewrite-URL", "/admin"],
    ["X-HTTP-Method-Override", "DELETE"],
  ]);
  assert.deepEqual(values(seen, "x-consumer-id"), [account]);
  assert.deepEqual(values(seen, "x-consumer-plan"), ["business"]);
  for (const name of [
    ...["authorization", "x-consumer-anything", "x-ratelimit-limit", "x-original-url"],
    ...["x-rewrite-url", "x-http-method-override"],
  ]) {
    assert.deepEqual(values(seen, name), [], name);
  }
});

test("an untrusted peer's forwarding fields are replaced by what we know", async () => {
  const seen = await sent([
    ["X-Forwarded-For", "1.2.3.4"],
    ["X-Forwarded-Proto", "https"],
    ["X-Forwarded-Host", "evil.test"],
    ["X-Forwarded-Port", "1"],
    ["Forwarded", "for=1.2.3.4"],
    ["X-Real-IP", "1.2.3.4"],
  ]);
  assert.deepEqual(values(seen, "x-forwarded-for"), ["127.0.0.1"]);
  assert.deepEqual(values(seen, "x-forwarded-proto"), ["http"]);
  assert.deepEqual(values(seen, "x-forwarded-host"), ["gw.test"]);
  for (const name of ["x-forwarded-port", "forwarded", "x-real-ip"]) {
    assert.deepEqual(values(seen, name), [], name);
  }
});

test("a trusted proxy's are believed: For is appended to, Proto and Host go on", async () => {
  await using other = await startTestGateway({ config: { trustedProxies: ["127.0.0.0/8"] } });
  const theirs = await other.issue();
  const { seen } = await seenBy(other, theirs.key, {
    fields: [
      ["X-Forwarded-For", "1.2.3.4, 5.6.7.8"],
      ["X-Forwarded-Proto", "https"],
      ["X-Forwarded-Host", "shop.test"],
      ["Forwarded", "for=1.2.3.4"],
      // HAProxy passes on what its client nominates.
      ["Connection", "X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Real-IP"],
      ["X-Real-IP", "1.2.3.4"],
    ],
  });
  assert.deepEqual(values(seen, "x-forwarded-for"), ["1.2.3.4, 5.6.7.8, 127.0.0.1"]);
  assert.deepEqual(values(seen, "x-forwarded-proto"), ["https"]);
  assert.deepEqual(values(seen, "x-forwarded-host"), ["shop.test"]);
  assert.deepEqual(values(seen, "forwarded"), ["for=1.2.3.4"]);
  assert.deepEqual(values(seen, "x-real-ip"), []);
});

test("X-Request-Id is ours, on the response too; the client's goes on as X-Client-Request-Id", async () => {
  const fields = [["X-Request-Id", "mine-1"]] as const;
  const { seen, answer } = await seenBy(house, key, { fields });
  assert.deepEqual(values(seen, "x-client-request-id"), ["mine-1"]);
  assert.deepEqual(values(seen, "x-request-id"), [onlyValue(answer, "X-Request-Id")]);
  assert.notEqual(onlyValue(answer, "X-Request-Id"), "mine-1");
  const spoofed = await sent([["X-Client-Request-Id", "spoofed"]]);
  assert.deepEqual(values(spoofed, "x-client-request-id"), []);
});

test("Via is appended to, with the version received", async () => {
  assert.deepEqual(values(await sent([["Via", "1.0 fred"]]), "via"), ["1.0 fred, 1.1 tollgate"]);
  const old = requestBytes({ key, version: "1.0" });
  await sendRaw(house.port, old);
  assert.deepEqual(values(house.backend.seen.at(-1) as RecordedRequest, "via"), ["1.0 tollgate"]);
});

test("a valid trace of the client goes on unchanged, and none is begun", async () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const given = `00-${trace}-b7ad6b7169203331-01`;
  const continued = await sent([
    ["traceparent", given],
    ["tracestate", "a=1"],
  ]);
  assert.deepEqual(values(continued, "traceparent"), [given]);
  assert.deepEqual(values(continued, "tracestate"), ["a=1"]);
  for (const bad of [
    `${given}x`,
    given.toUpperCase(),
    `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  ]) {
    const fresh = await sent([
      ["traceparent", bad],
      ["tracestate", "a=1"],
    ]);
    assert.deepEqual(values(fresh, "traceparent"), [], bad);
    assert.deepEqual(values(fresh, "tracestate"), []);
  }
});

for (const [upstreamHost, wanted] of [
  ["upstream", (house: TestGateway) => new URL(house.backend.origin).host],
  ["client", () => "gw.test:8080"],
] as const) {
  test(`Host is the ${upstreamHost}'s; the original is in X-Forwarded-Host`, async () => {
    const options: TestGatewayOptions = { environment: { upstreamHost } };
    await using other = await startTestGateway(options);
    const theirs = await other.issue();
    const { seen } = await seenBy(other, theirs.key, { host: "gw.test:8080" });
    assert.deepEqual(values(seen, "host"), [wanted(other)]);
    assert.deepEqual(values(seen, "x-forwarded-host"), ["gw.test:8080"]);
  });
}

test("a POST without a body goes on with Content-Length: 0; a GET with none at all", async () => {
  const post = await sent([], { method: "POST" });
  assert.deepEqual(values(post, "content-length"), ["0"]);
  assert.deepEqual(values(post, "transfer-encoding"), []);
  const get = await sent([["Content-Length", "0"]]);
  assert.deepEqual([values(get, "content-length"), values(get, "transfer-encoding")], [[], []]);
});

test("the target is forwarded byte for byte as it was matched", async () => {
  for (const path of [
    "/v1/pets?limit=1&x=%2f..//%zz%00",
    "/v1/pets?",
    "/v1/pets??a#".slice(0, -1),
    "/v1/pets/A%C3%A9",
    "/v1/pets/a%20b;c=d,e'()*!$&+:@~",
  ]) {
    assert.equal((await sent([], { path })).target, path);
  }
  const absolute = await sent([], { path: "http://gw.test/v1/pets?a=b" });
  assert.equal(absolute.target, "/v1/pets?a=b", "absolute-form of this authority");
});

test("the law holds after all of it", () => house.law());
