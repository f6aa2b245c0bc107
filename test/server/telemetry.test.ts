import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { startNode } from "../support/gateway/processes.ts";
import { ACCOUNT, KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { type Collector, openCollector, type ReceivedSpan } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { sendRequest } from "../support/wire/client.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const BACKEND = new URL("../support/otlp-backend.ts", import.meta.url).pathname;

/** Asks for pets; gives the status, and takes the body. */
async function ask(
  served: SpawnedGateway,
  path = "/v1/pets",
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${served.url}${path}`, {
    headers: { authorization: `Bearer ${KEY}`, ...headers },
  });
  await response.arrayBuffer();
  return response.status;
}

const telemetryTo = ({ origin }: Pick<Collector, "origin">, sample = 1) => ({
  telemetry: { otlp: origin, sample },
});

/** A value of a field that the backend saw. */
function fieldOf(rawHeaders: readonly string[] | undefined, name: string): string | undefined {
  const place = rawHeaders?.findIndex((one, i) => i % 2 === 0 && one.toLowerCase() === name) ?? -1;
  return place === -1 ? undefined : rawHeaders?.[place + 1];
}

const WAIT = { withinMs: 60_000 };

/** The next request line; its request was the only one under way. */
async function nextLine(served: SpawnedGateway, send: () => Promise<unknown>) {
  const before = served.lines.length;
  await send();
  return eventually(() => served.lines[before] ?? assert.fail("no line yet"), WAIT);
}

/** The spans of one trace, when there are so many of them. */
function spansOf(collector: Collector, trace: string | undefined, count: number) {
  return eventually(() => {
    const spans = collector.spans.filter(({ traceId }) => traceId === trace);
    assert.equal(spans.length, count);
    const of = (wanted: ReceivedSpan["kind"]) => spans.filter(({ kind }) => kind === wanted);
    return { server: of("SERVER")[0] as ReceivedSpan, clients: of("CLIENT") };
  }, WAIT);
}

describe("A request is told to a collector", () => {
  let collector: Collector;
  let backend: TestUpstream;
  let served: SpawnedGateway;
  beforeAll(async () => {
    collector = await openCollector();
    backend = await startTestUpstream();
    const config = { ...telemetryTo(collector), foreignKeys: [{ prefix: "sk_", min: 22 }] };
    served = await spawnGateway({ upstreams: [backend.origin], config });
  });
  afterAll(async () => {
    await served[Symbol.asyncDispose]();
    await backend.close();
    await collector[Symbol.asyncDispose]();
  });

  it("as a SERVER span and a CLIENT span below it, in the trace of the log line and of the backend", async () => {
    backend.forget();
    const entry = await nextLine(served, () => ask(served, "/v1/pets?limit=3"));
    const { server, clients } = await spansOf(collector, entry.traceId, 2);
    const [client] = clients;
    assert.equal(server.parentSpanId, undefined);
    assert.equal(client?.parentSpanId, server.spanId);
    const seen = backend.seen[0]?.rawHeaders;
    assert.equal(fieldOf(seen, "traceparent"), `00-${server.traceId}-${client?.spanId}-01`);
    assert.equal(server.name, "GET /v1/pets");
    assert.deepEqual(server.attributes, {
      "http.request.method": "GET",
      "url.scheme": "http",
      "http.route": "/v1/pets",
      "http.response.status_code": 200,
      "network.protocol.version": "1.1",
      "tollgate.environment": "production",
      "url.path": "/v1/pets",
      "client.address": "127.0.0.1",
      "server.address": "127.0.0.1",
      "server.port": served.port,
      "tollgate.request_id": entry.id,
      "tollgate.decision": "admitted",
      "tollgate.charged": 1,
      "tollgate.account": ACCOUNT,
      "tollgate.plan": "vectors",
    });
    assert.equal(client?.name, "GET");
    assert.deepEqual(client?.attributes, {
      "http.request.method": "GET",
      "server.address": "127.0.0.1",
      "server.port": backend.port,
      "url.full": `${backend.origin}/v1/pets`,
      "http.response.status_code": 200,
    });
    assert.equal(server.resource["service.name"], "tollgate");
    assert.equal(server.failed || client?.failed, false);
  });

  it("with the code of a refusal, which is no error", async () => {
    const wrong = { authorization: "Bearer no" };
    const entry = await nextLine(served, () => ask(served, "/v1/pets", wrong));
    const { server } = await spansOf(collector, entry.traceId, 1);
    const { attributes } = server;
    assert.equal(attributes["http.response.status_code"], 401);
    assert.equal(attributes["tollgate.code"], "key_invalid");
    assert.equal(attributes["tollgate.decision"], "none");
    assert.equal(attributes["error.type"], undefined);
    assert.equal(server.failed, false);
  });

  it("as an error of the CLIENT alone where a backend says 404, and of both where it says 500", async () => {
    for (const status of [404, 500]) {
      backend.answer((_seen, response) => void response.writeHead(status).end());
      const entry = await nextLine(served, () => ask(served));
      const { server, clients } = await spansOf(collector, entry.traceId, 2);
      assert.deepEqual([clients[0]?.failed, server.failed], [true, status === 500]);
      assert.equal(clients[0]?.attributes["error.type"], String(status));
    }
    backend.answer((_seen, response) => void response.end("{}"));
  });

  it("with each try at a backend as a span of its own", async () => {
    await nextLine(served, () => ask(served));
    backend.forget();
    backend.answer((_seen, _response, request) => {
      backend.answer((_again, response) => void response.end("{}"));
      request.socket.destroy();
    });
    const entry = await nextLine(served, () => ask(served));
    assert.deepEqual([entry.status, entry.forwards], [200, 2]);
    const { clients } = await spansOf(collector, entry.traceId, 3);
    const [again, first] = clients.toSorted((a, b) => Number(a.failed) - Number(b.failed));
    assert.equal(first?.attributes["error.type"], "upstream_unreachable");
    assert.equal(again?.attributes["http.request.resend_count"], 1);
    const parents = backend.seen.map(({ rawHeaders }) => fieldOf(rawHeaders, "traceparent"));
    assert.deepEqual(
      parents,
      [first, again].map((span) => `00-${entry.traceId}-${span?.spanId}-01`),
    );
  });

  it("with the code where the answer breaks off after its head", async () => {
    backend.answer((_seen, response) => {
      response.writeHead(200, { "content-length": "100000" });
      response.write("half", () => setTimeout(() => response.destroy(), 50));
    });
    const entry = await nextLine(served, () => ask(served).catch(() => undefined));
    backend.answer((_seen, response) => void response.end("{}"));
    const { server, clients } = await spansOf(collector, entry.traceId, 2);
    assert.equal(clients[0]?.failed, true);
    assert.equal(clients[0]?.attributes["http.response.status_code"], 200);
    assert.equal(server.failed, true);
    assert.equal(server.attributes["error.type"], "upstream_invalid");
  });

  it("without a status where the client did not wait, and without an error", async () => {
    const asked = new Promise<void>((resolve) => {
      backend.answer(() => resolve());
    });
    const entry = await nextLine(served, async () => {
      const leave = new AbortController();
      const headers = { authorization: `Bearer ${KEY}` };
      const answer = fetch(`${served.url}/v1/pets`, { headers, signal: leave.signal });
      await asked;
      leave.abort();
      await answer.catch(() => undefined);
    });
    backend.answer((_seen, response) => void response.end("{}"));
    assert.equal(entry.status, 499);
    const { server, clients } = await spansOf(collector, entry.traceId, 2);
    for (const span of [server, clients[0]]) {
      assert.equal(span?.attributes["error.type"], "client_gone");
      assert.equal(span?.attributes["http.response.status_code"], undefined);
      assert.equal(span?.failed, false);
    }
  });

  it("that becomes a tunnel as one that its backend joins, and that ends with the tunnel", async () => {
    let parent: string | undefined;
    const wanted = new WebSocketServer({ port: 0, host: "127.0.0.1" });
    await new Promise((resolve) => wanted.once("listening", resolve));
    wanted.on("connection", (socket, request) => {
      parent = request.headers.traceparent as string | undefined;
      socket.on("message", (data) => socket.send(data));
    });
    const { port } = wanted.address() as AddressInfo;
    const config = { ...telemetryTo(collector) };
    await using tunnels = await spawnGateway({
      upstreams: [`http://127.0.0.1:${port}`],
      api: null,
      config,
    });
    const headers = { authorization: `Bearer ${KEY}` };
    const client = new WebSocket(`${tunnels.url.replace("http", "ws")}/v1/ws`, { headers });
    await new Promise((resolve, reject) => {
      client.once("message", resolve).once("error", reject);
      client.once("open", () => client.send("there"));
    });
    const entry = await nextLine(tunnels, async () => client.close());
    wanted.close();
    const { server, clients } = await spansOf(collector, entry.traceId, 2);
    assert.equal(server.attributes["http.response.status_code"], 101);
    assert.equal(clients[0]?.attributes["http.response.status_code"], 101);
    assert.equal(parent, `00-${entry.traceId}-${clients[0]?.spanId}-01`);
    assert.equal(server.failed || clients[0]?.failed, false);
  });

  it("in a trace of its own where the client's is invalid", async () => {
    backend.forget();
    const traceparent = `00-${TRACE}-${"0".repeat(16)}-01`;
    const entry = await nextLine(served, () =>
      ask(served, "/v1/pets", { traceparent, tracestate: "a=1" }),
    );
    assert.notEqual(entry.traceId, TRACE);
    const { server } = await spansOf(collector, entry.traceId, 2);
    assert.equal(server.parentSpanId, undefined);
    assert.equal(fieldOf(backend.seen[0]?.rawHeaders, "tracestate"), undefined);
  });

  it("without a key and without a query, wherever the client puts them", async () => {
    const path = `/v1/pets/${KEY}?secret=hunter2&key=${KEY}`;
    const traceparent = `00-${"4".repeat(32)}-${PARENT}-01`;
    const tracestate = `a=${KEY},b=2,c=sk_${"q".repeat(22)},d=sk%5F${"q".repeat(22)}`;
    const hidden = { "user-agent": KEY, "x-api-key": KEY, referer: KEY, traceparent, tracestate };
    const entry = await nextLine(served, () => ask(served, path, hidden));
    assert.equal(fieldOf(backend.seen.at(-1)?.rawHeaders, "tracestate"), tracestate);
    const wrong = { authorization: `Bearer ${KEY}x` };
    const other = await nextLine(served, () => ask(served, "/v1/pets?token=hunter2", wrong));
    const asHost = await nextLine(served, () => sendRequest(served.port, { host: KEY, key: KEY }));
    await spansOf(collector, entry.traceId, 2);
    await spansOf(collector, other.traceId, 1);
    await spansOf(collector, asHost.traceId, 2);
    const told = collector.bodies.join("\n");
    assert.match(told, /pets_live_…/);
    assert.match(told, /"traceState":"b=2"/);
    assert.doesNotMatch(told, /Smuggle0Test|hunter2|q{22}/i);
  });

  it("only where its client's trace is sampled, if it has one, and the flag goes on", async () => {
    backend.forget();
    const traceparent = `00-${TRACE}-${PARENT}-00`;
    const entry = await nextLine(served, () => ask(served, "/v1/pets", { traceparent }));
    assert.equal(entry.traceId, TRACE);
    const later = await nextLine(served, () => ask(served));
    await spansOf(collector, later.traceId, 2);
    await spansOf(collector, TRACE, 0);
    const [version, trace, parent, flags] =
      fieldOf(backend.seen[0]?.rawHeaders, "traceparent")?.split("-") ?? [];
    assert.deepEqual([version, trace, flags], ["00", TRACE, "00"]);
    assert.match(parent ?? "", /^[0-9a-f]{16}$/);
    assert.notEqual(parent, PARENT);
  });
});

it("a sampled trace of a client is continued, and durations are told, where nothing else is sampled", async () => {
  await using collector = await openCollector();
  await using backend = await startTestUpstream();
  const config = telemetryTo(collector, 0);
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  const fields = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: "a=1,b=2" };
  assert.equal(await ask(served, "/v1/pets", fields), 200);
  assert.equal(await ask(served, "/v1/nothing"), 404);
  const seen = backend.seen[0]?.rawHeaders;
  // The process waits until the collector has the rest.
  collector.slowMs = 500;
  const finished = await served.running.stop();
  assert.equal(finished.code, 0);

  assert.equal(collector.spans.length, 2);
  const server = collector.spans.find(({ kind }) => kind === "SERVER");
  const client = collector.spans.find(({ kind }) => kind === "CLIENT");
  assert.deepEqual([server?.traceId, server?.parentSpanId], [TRACE, PARENT]);
  assert.equal(fieldOf(seen, "traceparent"), `00-${TRACE}-${client?.spanId}-01`);
  assert.equal(fieldOf(seen, "tracestate"), "a=1,b=2");

  const last = (metric: string, attributes: Readonly<Record<string, unknown>>) =>
    collector.points.findLast(
      (point) =>
        point.metric === metric &&
        Object.entries(attributes).every(([name, value]) => point.attributes[name] === value),
    );
  const durations = last("http.server.request.duration", {
    "http.route": "/v1/pets",
    "http.request.method": "GET",
    "url.scheme": "http",
    "http.response.status_code": 200,
  });
  assert.deepEqual([durations?.value, durations?.unit], [1, "s"]);
  const refused = { "http.response.status_code": 404 };
  assert.equal(last("http.server.request.duration", refused)?.value, 1);
  assert.equal(last("http.client.request.duration", { "server.port": backend.port })?.value, 1);
  assert.equal(last("tollgate.charged", { env: "production" })?.value, 2);
  assert.equal(last("tollgate.forwards", { env: "production" })?.value, 1);
});

it("a backend that uses the SDK with its default sampler records with telemetry and without it", async () => {
  await using collector = await openCollector();
  await using backend = startNode([BACKEND, collector.origin]);
  const { origin } = await backend.line(({ origin }) => origin !== undefined);
  for (const on of [true, false]) {
    const config = on ? telemetryTo(collector) : {};
    await using served = await spawnGateway({ upstreams: [String(origin)], config });
    const before = collector.spans.length;
    assert.equal(await ask(served), 200);
    const spans = await eventually(() => {
      assert.equal(collector.spans.length, before + (on ? 3 : 1));
      return collector.spans.slice(before);
    }, WAIT);
    const theirs = spans.find(({ resource }) => resource["service.name"] === "backend");
    const parent = spans.find(({ spanId }) => spanId === theirs?.parentSpanId);
    assert.ok(theirs !== undefined);
    assert.equal(parent?.kind, on ? "CLIENT" : undefined);
  }
});

it("telemetry is turned on by the standard variables, and named by them", async () => {
  await using collector = await openCollector();
  await using backend = await startTestUpstream();
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin,
    OTEL_SERVICE_NAME: "front",
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=trial,service.instance.id=all",
  };
  await using served = await spawnGateway({ upstreams: [backend.origin], run: { env } });
  const entry = await nextLine(served, () => ask(served));
  const { server } = await spansOf(collector, entry.traceId, 2);
  assert.equal(server.resource["service.name"], "front");
  assert.equal(server.resource["deployment.environment.name"], "trial");
  // A name for all instances would make one of them.
  assert.notEqual(server.resource["service.instance.id"], "all");
});

it("telemetry is turned on and off again by a reload, which sends what is held", async () => {
  await using collector = await openCollector();
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  const reloads = () => served.said.filter(({ kind }) => kind === "config_reloaded").length;
  assert.equal(await ask(served), 200);
  await served.rewrite(telemetryTo(collector));
  await eventually(() => assert.equal(reloads(), 1), WAIT);
  assert.equal(await ask(served), 200);
  await served.rewrite({});
  await eventually(() => assert.equal(reloads(), 2), WAIT);
  assert.equal(await ask(served), 200);
  const parents = backend.seen.map(({ rawHeaders }) => fieldOf(rawHeaders, "traceparent"));
  assert.deepEqual(
    parents.map((parent) => parent !== undefined),
    [false, true, false],
  );
  await eventually(() => assert.equal(collector.spans.length, 2), WAIT);
});

it("a collector that refuses and then never answers costs no answer, and no more than the drain", async () => {
  await using collector = await openCollector();
  await using backend = await startTestUpstream();
  const config = telemetryTo(collector);
  const limits = { drain: "6s" };
  await using served = await spawnGateway({ upstreams: [backend.origin], config, limits });
  collector.mood = "refuse";
  for (let i = 0; i < 5; i++) assert.equal(await ask(served), 200);
  const unsent = () =>
    served.said.filter(({ msg, signal }) => msg === "telemetry_unsent" && signal === "traces");
  await eventually(() => assert.equal(unsent().length, 1), WAIT);
  const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
  assert.match(metrics, /^tollgate_telemetry_dropped_total [1-9]/m);
  collector.mood = "hang";
  for (let i = 0; i < 20; i++) assert.equal(await ask(served), 200);
  await eventually(() => assert.ok(collector.underWay() > 0), WAIT);
  const finished = await served.running.stop();
  assert.deepEqual([finished.code, finished.signal], [0, null]);
  const stopped = served.said.find(({ msg }) => msg === "stopped");
  // Three seconds are for the collector; without an end to that it would be the whole drain and more.
  assert.ok(Number(stopped?.afterMs) < 6_000, `ended after ${stopped?.afterMs} ms`);
});

it("a collector that is away costs no answer, and takes spans when it is back", async () => {
  const port = await freePort();
  await using backend = await startTestUpstream();
  const config = telemetryTo({ origin: `http://127.0.0.1:${port}` });
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  assert.equal(await ask(served), 200);
  await using collector = await openCollector(port);
  const entry = await nextLine(served, () => ask(served));
  await spansOf(collector, entry.traceId, 2);
});
