import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** A span as a collector reads it, with its attributes and those of its resource as plain values. */
export type ReceivedSpan = {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: "SERVER" | "CLIENT" | "INTERNAL";
  readonly failed: boolean;
  /** Unix nanoseconds. */
  readonly startNs: bigint;
  readonly endNs: bigint;
  /** From its start to its end. */
  readonly durationMs: number;
  /** Whether its parent is a span of another process, as the sender says. */
  readonly hasRemoteParent: boolean;
  readonly attributes: Plain;
  readonly resource: Plain;
  /** The name and the version of its maker, as "tollgate 1.0.0". */
  readonly scope: string;
};

/** The last value of a metric with these attributes; of a histogram, its count. */
export type ReceivedPoint = {
  readonly metric: string;
  readonly unit: string;
  readonly description: string;
  readonly value: number;
  /** The sum of a histogram; undefined for any other metric. */
  readonly sum: number | undefined;
  readonly bounds: readonly number[] | undefined;
  /** Whether it only grows, as a counter does. */
  readonly isCounter: boolean;
  readonly attributes: Plain;
  readonly resource: Plain;
  readonly scope: string;
};

type Plain = Readonly<Record<string, unknown>>;
// biome-ignore lint/suspicious/noExplicitAny: a collector reads what comes.
type Wire = { readonly [name: string]: any };

/** "hang": takes the request and never answers. */
type Mood = "well" | "hang" | "refuse";

export type Collector = AsyncDisposable & {
  /** "http://127.0.0.1:PORT" */
  readonly origin: string;
  readonly spans: readonly ReceivedSpan[];
  readonly points: readonly ReceivedPoint[];
  /** Every body as it came. */
  readonly bodies: readonly string[];
  /** Requests under way at this moment. */
  readonly underWay: () => number;
  /** Requests that were ever made to it. */
  readonly requests: () => number;
  /** Connections that were ever made to it. */
  readonly connections: () => number;
  mood: Mood;
  /** Takes so long for each request. */
  slowMs: number;
};

/** A collector that speaks OTLP over HTTP with JSON bodies, on any free port of loopback. */
export async function openCollector(port = 0): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const points: ReceivedPoint[] = [];
  const bodies: string[] = [];
  let [underWay, requests, connections] = [0, 0, 0];
  const answer = (request: IncomingMessage, response: ServerResponse, body: string) => {
    if (collector.mood === "hang") return;
    if (collector.mood === "refuse") return response.writeHead(400).end();
    bodies.push(body);
    if (request.url === "/v1/traces") spans.push(...spansIn(JSON.parse(body)));
    else if (request.url === "/v1/metrics") points.push(...pointsIn(JSON.parse(body)));
    else return response.writeHead(404).end();
    return response.writeHead(200, { "content-type": "application/json" }).end("{}");
  };
  const server = createServer((request, response) => {
    let body = "";
    underWay += 1;
    requests += 1;
    response.on("close", () => {
      underWay -= 1;
    });
    request.setEncoding("utf8").on("data", (piece) => {
      body += piece;
    });
    request.on("end", async () => {
      if (collector.slowMs > 0) await delay(collector.slowMs);
      // A sender that did not wait has nothing to rely on.
      if (!request.socket.destroyed) answer(request, response, body);
    });
  });
  server.on("connection", () => {
    connections += 1;
  });
  // The sender decides how long a connection is kept.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", () => resolve()));
  const collector: Collector = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    points,
    bodies,
    underWay: () => underWay,
    requests: () => requests,
    connections: () => connections,
    mood: "well",
    slowMs: 0,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
  return collector;
}

/** In the flags of a span, by the protocol of OpenTelemetry. */
const REMOTE_PARENT = 0x200;
const KINDS = { 2: "SERVER", 3: "CLIENT" } as const;

function spansIn({ resourceSpans }: Wire): ReceivedSpan[] {
  return each(resourceSpans).flatMap((one) =>
    each(one.scopeSpans).flatMap(({ spans, scope }) =>
      each(spans).map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId === "" ? undefined : span.parentSpanId,
        name: span.name,
        kind: KINDS[span.kind as 2 | 3] ?? "INTERNAL",
        hasRemoteParent: (Number(span.flags) & REMOTE_PARENT) !== 0,
        failed: (span.status as { code?: number } | undefined)?.code === 2,
        startNs: BigInt(span.startTimeUnixNano),
        endNs: BigInt(span.endTimeUnixNano),
        durationMs: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
        attributes: plain(span.attributes),
        resource: plain((one.resource as Wire).attributes),
        scope: `${scope?.name} ${scope?.version}`,
      })),
    ),
  );
}

function pointsIn({ resourceMetrics }: Wire): ReceivedPoint[] {
  return each(resourceMetrics).flatMap((one) =>
    each(one.scopeMetrics).flatMap(({ metrics, scope }) =>
      each(metrics).flatMap(({ name, unit, description, ...metric }) => {
        const { dataPoints, isMonotonic } = Object.values(metric).find(
          (value) => typeof value === "object" && "dataPoints" in value,
        ) as unknown as Wire;
        return each(dataPoints).map((point) => ({
          metric: name,
          unit: unit ?? "",
          description: description ?? "",
          value: Number(point.asDouble ?? point.asInt ?? point.count),
          sum: point.sum,
          bounds: point.explicitBounds,
          isCounter: isMonotonic === true,
          attributes: plain(point.attributes),
          resource: plain((one.resource as Wire).attributes),
          scope: `${scope?.name} ${scope?.version}`,
        }));
      }),
    ),
  );
}

function each(list: unknown): readonly Wire[] {
  return (list ?? []) as readonly Wire[];
}

function plain(attributes: unknown): Plain {
  return Object.fromEntries(
    each(attributes).map(({ key, value }) => {
      const { intValue, ...other } = value as Record<string, unknown>;
      return [key, intValue === undefined ? Object.values(other)[0] : Number(intValue)];
    }),
  );
}
