import assert from "node:assert/strict";
import { it } from "vitest";
import { GatewayAnnouncer } from "../../../src/server/process/gateway-announcer.ts";
import type { GatewayStatus } from "../../../src/telemetry/gateway-status.ts";
import { createMetricsRecorder } from "../../../src/telemetry/metrics/metrics-recorder.ts";
import { ALL_WELL } from "../../admin/admin-house.ts";
import { eventually } from "../../support/poll.ts";

it("a gateway announces as refusals what it answers itself with 400 and above, of all that it answers", async () => {
  const counting = createMetricsRecorder();
  const told: GatewayStatus[] = [];
  const withdrawn: string[] = [];
  const announcer = new GatewayAnnouncer({
    gateways: {
      announce: async (_name, text) => void told.push(JSON.parse(text)),
      withdraw: async (name) => void withdrawn.push(name),
    },
    counting,
    checks: () => ALL_WELL,
    now: () => 1_500,
  });
  announcer.start();
  const count = (status: number, source: "gateway" | "backend", times: number) => {
    counting.tallies.requests.cell("production", "/v1/pets", "GET", status, source).value += times;
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
  assert.deepEqual(withdrawn, [announcer.name]);
});
