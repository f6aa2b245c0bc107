import assert from "node:assert/strict";
import { afterEach, it } from "vitest";
import type { AccessLogEntry } from "../../src/telemetry/log/access-log-entry.ts";
import { DURATION_BUCKETS } from "../../src/telemetry/metrics/metric-vec.ts";
import { type OtlpExporter, openOtlpExporter } from "../../src/telemetry/tracing/otlp.ts";
import type { AttemptFailure, RequestFacts } from "../../src/telemetry/tracing/tracing.ts";
import { type Collector, openCollector, type ReceivedSpan } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const LINE: AccessLogEntry = {
  ...{ id: "r1", env: "production", account: "acme", key: "k_1", plan: "free", method: "GET" },
  ...{ route: "/v1/pets", path: "/v1/pets", status: 200, code: undefined, source: "backend" },
  ...{ decision: "admitted", charged: 1, forwards: 1, durationMs: 5, client: "192.0.2.1" },
  why: undefined,
};
const FACTS: RequestFacts = { scheme: "http", host: "api.example", version: "1.1" };
const FORWARDED = { method: "GET", origin: "http://10.0.0.1:81", target: "/v1/pets" } as const;

let opened: { readonly collector: Collector; readonly exporter: OtlpExporter } | undefined;
afterEach(async () => {
  await opened?.collector[Symbol.asyncDispose]();
  opened = undefined;
});

async function open(sample = 1, more: { readonly path?: string; readonly worker?: number } = {}) {
  const collector = await openCollector();
  const settings = { otlp: collector.origin + (more.path ?? ""), sample, serviceName: "" };
  const source = { version: "1", instance: "one", worker: more.worker };
  const exporter = openOtlpExporter(settings, source, () => {});
  opened = { collector, exporter };
  return { collector, exporter, begin: exporter.tracing.begin };
}

/** All spans and points that were told. */
async function told() {
  const { collector, exporter } = opened ?? assert.fail();
  await exporter.close(60_000);
  const ofKind = (kind: ReceivedSpan["kind"]) => collector.spans.filter((one) => one.kind === kind);
  return { servers: ofKind("SERVER"), clients: ofKind("CLIENT"), points: collector.points };
}

const traceparent = (flags: string) => `00-${TRACE}-${PARENT}-${flags}`;

it("a request joins its client's trace, the backend joins the span of its attempt, and the tracestate goes on", async () => {
  const { begin } = await open();
  const span = begin(["TraceParent", traceparent("01"), "tracestate", "a=1,b=2"]);
  assert.equal(span.traceId, TRACE);
  const forward = span.forward({ ...FORWARDED, foreignKeys: [] });
  forward.setStatus(200);
  forward.end();
  span.end(LINE, FACTS);
  const { servers, clients } = await told();
  assert.deepEqual([servers[0]?.traceId, servers[0]?.parentSpanId], [TRACE, PARENT]);
  assert.equal(clients[0]?.parentSpanId, servers[0]?.spanId);
  assert.ok(servers[0]?.hasRemoteParent && !clients[0]?.hasRemoteParent);
  assert.deepEqual(forward.fields, {
    traceparent: `00-${TRACE}-${clients[0]?.spanId}-01`,
    tracestate: "a=1,b=2",
  });
});

it("a request whose client records no trace leaves none, tells its backend so, and is timed", async () => {
  const { begin } = await open();
  const span = begin(["traceparent", traceparent("00")]);
  const forward = span.forward({ ...FORWARDED, foreignKeys: [] });
  assert.match(forward.fields.traceparent, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
  assert.equal(forward.fields.tracestate, undefined);
  forward.end();
  span.end(LINE, FACTS);
  const { servers, clients, points } = await told();
  assert.deepEqual([servers, clients], [[], []]);
  const durations = points.filter(({ metric }) => metric.endsWith("request.duration"));
  assert.deepEqual(durations.map(({ metric, unit, value }) => [metric, unit, value]).toSorted(), [
    ["http.client.request.duration", "s", 1],
    ["http.server.request.duration", "s", 1],
  ]);
});

it("where no request is sampled one with its own trace is timed, and leaves no span", async () => {
  const { begin } = await open(0);
  const span = begin([]);
  assert.match(span.forward({ ...FORWARDED, foreignKeys: [] }).fields.traceparent, /-00$/);
  span.end(LINE, FACTS);
  const { servers, points } = await told();
  assert.deepEqual(servers, []);
  assert.deepEqual(points.find(({ metric }) => metric.startsWith("http.server"))?.attributes, {
    ...{ "http.request.method": "GET", "url.scheme": "http", "http.route": "/v1/pets" },
    ...{ "http.response.status_code": 200, "network.protocol.version": "1.1" },
    "tollgate.environment": "production",
  });
});

it("each attempt after the first has its number, and the address of an attempt has neither query nor key", async () => {
  const { begin } = await open();
  const span = begin([]);
  const foreignKeys = [
    { prefix: "sk-", min: 4 },
    { prefix: "17|", min: 4 },
  ];
  const targets = ["/v1/pets?token=a", "/v1/sk-0123456789/pets", "/v1/17%7C0123456789/pets"];
  for (const target of targets) {
    span.forward({ ...FORWARDED, target, foreignKeys }).end();
  }
  const origin = "http://user:secret@10.0.0.2";
  span.forward({ ...FORWARDED, origin, foreignKeys }).end();
  span.end(LINE, FACTS);
  const { clients } = await told();
  assert.deepEqual(
    clients.map(({ attributes }) => [
      attributes["url.full"],
      attributes["http.request.resend_count"],
      attributes["server.address"],
    ]),
    [
      ["http://10.0.0.1:81/v1/pets", undefined, "10.0.0.1"],
      ["http://10.0.0.1:81/v1/sk-…/pets", 1, "10.0.0.1"],
      ["http://10.0.0.1:81/v1/17|…/pets", 2, "10.0.0.1"],
      ["http://10.0.0.2/v1/pets", 3, "10.0.0.2"],
    ],
  );
});

it("requests and attempts are timed in seconds, in the buckets of /metrics", async () => {
  const { begin } = await open();
  const span = begin([]);
  const beforeMs = performance.now();
  const forward = span.forward({ ...FORWARDED, foreignKeys: [] });
  const startMs = performance.now();
  await eventually(() => assert.ok(performance.now() - startMs > 100));
  forward.end();
  const secondsMax = (performance.now() - beforeMs) / 1_000;
  span.end({ ...LINE, durationMs: 250 }, FACTS);
  const { points } = await told();
  const find = (side: string) => points.find(({ metric }) => metric.startsWith(`http.${side}`));
  const [server, client] = [find("server"), find("client")];
  assert.equal(server?.sum, 0.25);
  assert.ok(Number(client?.sum) > 0.1 && Number(client?.sum) <= secondsMax, `${client?.sum}`);
  const attempted = { "server.address": "10.0.0.1", "server.port": 81 };
  assert.deepEqual(client?.attributes, { "http.request.method": "GET", ...attempted });
  for (const one of [server, client]) assert.deepEqual(one?.bounds, DURATION_BUCKETS);
  assert.equal(server?.description, "Duration of HTTP server requests.");
  assert.equal(client?.description, "Duration of HTTP client requests.");
});

it.for([
  ["http", "[2001:db8::1]:8080", "2001:db8::1", 8_080],
  ["http", "api.example", "api.example", 80],
  ["https", "api.example", "api.example", 443],
  ["https", "a b", undefined, undefined],
  ["http", undefined, undefined, undefined],
] as const)(
  "the server of a request over %s to %s is told as %s and %s",
  async ([scheme, host, address, port]) => {
    const { begin } = await open();
    begin([]).end(LINE, { ...FACTS, scheme, host });
    const { attributes } = (await told()).servers[0] ?? assert.fail();
    assert.deepEqual(
      [attributes["server.address"], attributes["server.port"], attributes["url.scheme"]],
      [address, port, scheme],
    );
  },
);

it.for([
  ["GET", "/v1/pets", "GET /v1/pets", "GET", undefined],
  ["GET", undefined, "GET", "GET", undefined],
  ["BREW", "/v1/pets", "HTTP /v1/pets", "_OTHER", "BREW"],
  ["brew-0", undefined, "HTTP", "_OTHER", undefined],
  ["B".repeat(21), undefined, "HTTP", "_OTHER", undefined],
] as const)(
  "%s of %s is called %s, with a method that is known or a word alone",
  async ([method, route, name, known, original]) => {
    const { begin } = await open();
    begin([]).end({ ...LINE, method, route }, FACTS);
    const [server = assert.fail()] = (await told()).servers;
    const { attributes } = server;
    assert.equal(server.name, name);
    assert.equal(attributes["http.request.method"], known);
    assert.equal(attributes["http.request.method_original"], original);
    assert.equal(attributes["http.route"], route);
  },
);

const FAILED = { source: "gateway", code: "upstream_unreachable" } as const;

/** Line, failure of its attempt; the error of the request, and whether the span says failed. */
const ERRORS: readonly [string, Partial<AccessLogEntry>, AttemptFailure | undefined, unknown][] = [
  ["an answer", {}, undefined, [undefined, false, 200]],
  ["a 404 of a backend", { status: 404 }, undefined, [undefined, false, 404]],
  ["a 500 of a backend", { status: 500 }, undefined, ["500", true, 500]],
  [
    "a 502 of the gateway",
    { ...FAILED, status: 502 },
    "upstream_unreachable",
    ["upstream_unreachable", true, 502],
  ],
  ["a refusal", { status: 429, code: "rate_limited" }, undefined, [undefined, false, 429]],
  ["a client that left", { status: 499 }, "client_gone", ["client_gone", false, undefined]],
  [
    "an answer that broke off",
    { status: 200 },
    "upstream_unreachable",
    ["upstream_unreachable", true, 200],
  ],
  ["an answer whose client left", { status: 200 }, "client_gone", ["client_gone", false, 200]],
  [
    "an answer whose upload was too long",
    { status: 200 },
    "body_too_large",
    ["client_gone", false, 200],
  ],
  ["an attempt that failed before a 400", { status: 400 }, "client_gone", [undefined, false, 400]],
];

it.for(ERRORS)(
  "%s is an error of the request only where the gateway or a backend is at fault",
  async ([, entry, failure, expected]) => {
    const { begin } = await open();
    const span = begin([]);
    if (failure !== undefined) span.forward({ ...FORWARDED, foreignKeys: [] }).end(failure);
    span.end({ ...LINE, ...entry }, FACTS);
    const [{ attributes, failed } = assert.fail()] = (await told()).servers;
    assert.deepEqual(
      [attributes["error.type"], failed, attributes["http.response.status_code"]],
      expected,
    );
  },
);

it.for([
  [200, undefined, [undefined, false]],
  [399, undefined, [undefined, false]],
  [400, undefined, ["400", true]],
  [503, undefined, ["503", true]],
  [200, "upstream_unreachable", ["upstream_unreachable", true]],
  [200, "client_gone", ["client_gone", false]],
] as const)(
  "an attempt answered %s that ended with %s is told once",
  async ([status, failure, expected]) => {
    const { begin } = await open();
    const span = begin([]);
    const forward = span.forward({ ...FORWARDED, foreignKeys: [] });
    forward.setStatus(status);
    forward.end(failure);
    forward.end("upstream_timeout" as AttemptFailure);
    span.end(LINE, FACTS);
    const { clients, points } = await told();
    const [{ attributes, failed } = assert.fail()] = clients;
    assert.deepEqual([attributes["error.type"], failed], expected);
    assert.equal(attributes["http.response.status_code"], status);
    const [point, ...more] = points.filter(({ metric }) => metric.startsWith("http.client"));
    assert.deepEqual([point?.value, more], [1, []]);
    assert.deepEqual(
      [point?.attributes["error.type"], point?.attributes["http.response.status_code"]],
      [expected[0], status],
    );
  },
);

it("what is not known of a request is not told of it, and its refusal is", async () => {
  const { begin } = await open();
  const unknown = { env: undefined, account: undefined, plan: undefined, route: undefined };
  begin([]).end(
    { ...LINE, ...unknown, status: 401, code: "key_missing" },
    { ...FACTS, version: undefined },
  );
  const [{ attributes } = assert.fail()] = (await told()).servers;
  assert.deepEqual(attributes, {
    ...{ "http.request.method": "GET", "url.scheme": "http", "http.response.status_code": 401 },
    ...{ "url.path": "/v1/pets", "client.address": "192.0.2.1", "server.address": "api.example" },
    ...{ "server.port": 80, "tollgate.request_id": "r1", "tollgate.decision": "admitted" },
    ...{ "tollgate.charged": 1, "tollgate.code": "key_missing" },
  });
});

it("a collector below a path is sent to below it, and knows process, version and worker", async () => {
  const { collector, begin } = await open(1, { path: "//", worker: 3 });
  begin([]).end(LINE, FACTS);
  await told();
  assert.deepEqual(collector.spans[0]?.resource, {
    ...{ "service.name": "tollgate", "service.version": "1" },
    ...{ "service.instance.id": "one", "tollgate.worker": 3 },
  });
  assert.equal(collector.spans[0]?.scope, "tollgate 1");
});
