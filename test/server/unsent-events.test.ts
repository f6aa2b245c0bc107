import assert from "node:assert/strict";
import { it } from "vitest";
import type { WorkerHandle } from "../../src/server/process/gateway-process.ts";
import { Webhook } from "../../src/telemetry/log/webhook.ts";
import { freshMetrics } from "../admin/scrape.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { type Received, SECRET, startWebhookReceiver } from "../support/webhook-receiver.ts";

const isOf = (wanted: string) => {
  return ({ events }: Received) => events.some(({ kind }) => kind === wanted);
};

it("events and spans that nobody takes are counted as dropped, spans by each process that serves too", async () => {
  await using receiver = await startWebhookReceiver();
  receiver.status = 500;
  let nowMs = Date.now();
  const events = { url: receiver.url, secret: SECRET, kinds: ["config_reloaded"] };
  const telemetry = { otlp: "http://127.0.0.1:1", sample: 1 };
  await using house = await startTestGateway({ config: { events, telemetry }, now: () => nowMs });
  await house.ask("no key");
  assert.ok((await house.gateway.reload()).ok);
  await eventually(() => assert.equal(receiver.tries, 1));
  assert.equal((await freshMetrics(house.adminUrl)).get("tollgate_events_dropped_total"), 0);
  nowMs += 24 * 3_600_000 + 1;
  await eventually(async () => {
    assert.equal((await freshMetrics(house.adminUrl)).get("tollgate_events_dropped_total"), 1);
  });
  const gauges = () => (house.gateway as WorkerHandle).status().gauges;
  await eventually(() => assert.equal(gauges().telemetryDropped, 1));
});

it("a gateway that has stopped sends no event again that its receiver did not take", async () => {
  await using receiver = await startWebhookReceiver();
  receiver.status = 500;
  const events = { url: receiver.url, secret: SECRET, kinds: ["all"] };
  await using house = await startTestGateway({ config: { events } });
  assert.ok((await house.gateway.reload()).ok);
  await eventually(() => assert.equal(receiver.tries, 1));
  await house.gateway.stop();
  // Another sender fails later, and so would try again later too.
  const other = new Webhook(events, Date.now);
  const tries = receiver.tries;
  other.take({ kind: "ban_lifted", time: 1 });
  await eventually(() => assert.ok(receiver.tries > tries));
  receiver.status = 204;
  await eventually(() => assert.ok(receiver.received.some(isOf("ban_lifted"))));
  assert.deepEqual(receiver.received.filter(isOf("config_reloaded")), []);
  other.close();
});
