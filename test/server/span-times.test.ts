import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { openCollector } from "../support/otlp-collector.ts";

it("the spans of a request's attempts begin and end within the span of the request", async () => {
  await using collector = await openCollector();
  const config = { telemetry: { otlp: collector.origin, sample: 1 } };
  await using house = await startTestGateway({ config });
  const { key } = await house.issue();
  for (let i = 0; i < 50; i++) await (await house.ask(key)).text();
  await house.gateway.stop();
  const clients = collector.spans.filter(({ kind }) => kind === "CLIENT");
  assert.equal(clients.length, 50);
  const outside = clients.filter(({ parentSpanId, startNs, endNs }) => {
    const server = collector.spans.find(({ spanId }) => spanId === parentSpanId);
    return server === undefined || startNs < server.startNs || endNs > server.endNs;
  });
  assert.equal(outside.length, 0);
});
