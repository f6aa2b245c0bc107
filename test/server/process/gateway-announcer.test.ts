import assert from "node:assert/strict";
import { it } from "vitest";
import { GatewayAnnouncer } from "../../../src/server/process/gateway-announcer.ts";
import type { GatewayStatus } from "../../../src/telemetry/gateway-status.ts";
import { createMetricsRecorder } from "../../../src/telemetry/metrics/metrics-recorder.ts";
import { ALL_WELL } from "../../admin/admin-house.ts";
import { eventually } from "../../support/poll.ts";

/** An announcer of a gateway in which nothing happens, with the store's replies as given. */
function openAnnouncer(announce: () => Promise<void>): GatewayAnnouncer {
  const gateways = { announce, withdraw: async () => undefined };
  const metrics = createMetricsRecorder();
  return new GatewayAnnouncer({
    name: "one",
    gateways,
    metrics,
    checks: () => ALL_WELL,
    now: Date.now,
  });
}

it("a gateway whose message has no reply yet sends no other one", async () => {
  const [asked, answered] = [{ messages: 0 }, { messages: 0 }];
  const reply = Promise.withResolvers<void>();
  const waiting = openAnnouncer(() => {
    asked.messages += 1;
    return reply.promise;
  });
  const other = openAnnouncer(async () => {
    answered.messages += 1;
  });
  waiting.start();
  other.start();
  await eventually(() => assert.ok(answered.messages > 2));
  assert.equal(asked.messages, 1);
  reply.resolve();
  await eventually(() => assert.ok(asked.messages > 1));
  await Promise.all([waiting.close(), other.close()]);
});

it("a gateway announces as refusals what it answers itself with 400 and above, of all that it answers", async () => {
  const metrics = createMetricsRecorder();
  const told: GatewayStatus[] = [];
  const withdrawn: string[] = [];
  const announcer = new GatewayAnnouncer({
    name: "one",
    gateways: {
      announce: async (_name, text) => void told.push(JSON.parse(text)),
      withdraw: async (name) => void withdrawn.push(name),
    },
    metrics,
    checks: () => ALL_WELL,
    now: () => 1_500,
  });
  announcer.start();
  const count = (status: number, source: "gateway" | "backend", times: number) => {
    metrics.tables.requests.cell("production", "/v1/pets", "GET", status, source).value += times;
  };
  count(200, "backend", 1_000);
  count(502, "backend", 500);
  count(204, "gateway", 500);
  count(400, "gateway", 600);
  count(503, "gateway", 400);
  const { requestsPerSecond, refusalsPerSecond, started } = await eventually(() => {
    return told.find((one) => one.requestsPerSecond > 0) ?? assert.fail();
  });
  assert.equal(told[0]?.requestsPerSecond, 0);
  assert.equal(Math.round((requestsPerSecond / refusalsPerSecond) * 10) / 10, 3);
  assert.equal(started, 1);
  await announcer.close();
  assert.deepEqual(withdrawn, ["one"]);
});
