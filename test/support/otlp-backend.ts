import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { defaultTextMapGetter, ROOT_CONTEXT, SpanKind } from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

/**
 * A backend as many are: OpenTelemetry's SDK with its default sampler, which follows the flag of a
 * parent and records everything else. Its argument is the collector's address; it prints its own.
 */
const url = `${process.argv[2]}/v1/traces`;
const provider = new TracerProvider({
  resource: resourceFromAttributes({ "service.name": "backend" }),
  spanProcessors: [new SimpleSpanProcessor({ exporter: new OTLPTraceExporter({ url }) })],
});
const tracer = provider.getTracer("backend");
const propagator = new W3CTraceContextPropagator();

const server = createServer((request, response) => {
  const parent = propagator.extract(ROOT_CONTEXT, request.headers, defaultTextMapGetter);
  const span = tracer.startSpan("work", { kind: SpanKind.SERVER }, parent);
  span.end();
  response.end("{}");
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ origin: `http://127.0.0.1:${port}` })}\n`);
});
