import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { EVENT_KINDS } from "../../src/config/schema/observability.ts";
import { EVENTS } from "../../src/telemetry/log/events.ts";
import { Webhook } from "../../src/telemetry/log/webhook.ts";
import { eventually } from "../support/poll.ts";
import { SECRET, startWebhookReceiver } from "../support/webhook-receiver.ts";

const event = (account: string) => ({ kind: "ban_lifted", time: 1, account }) as const;
const all = { secret: SECRET, kinds: ["all"] };

describe("a webhook", () => {
  it("sends every event once, signed, up to 100 in a message, in their order", async () => {
    await using receiver = await startWebhookReceiver();
    const webhook = new Webhook({ ...all, url: receiver.url }, Date.now);
    for (let i = 0; i < 250; i++) webhook.take(event(`a_${i}`));
    await eventually(() => assert.equal(receiver.received.length, 3));
    assert.deepEqual(
      receiver.received.map(({ events }) => events.length),
      [100, 100, 50],
    );
    const accounts = receiver.received.flatMap(({ events }) => events.map((one) => one.account));
    assert.deepEqual(
      accounts,
      Array.from({ length: 250 }, (_, i) => `a_${i}`),
    );
    assert.equal(new Set(receiver.received.map(({ id }) => id)).size, 3);
    webhook.close();
  });

  it("sends again what was not taken, under the same id, until it is", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 503;
    const webhook = new Webhook({ ...all, url: receiver.url }, Date.now);
    webhook.take(event("first"));
    await eventually(() => assert.equal(receiver.tries, 2));
    webhook.take(event("second"));
    receiver.status = 200;
    await eventually(() => assert.equal(receiver.received.length, 2), { withinMs: 60_000 });
    const accounts = receiver.received.flatMap(({ events }) => events.map((one) => one.account));
    assert.deepEqual(accounts, ["first", "second"]);
    assert.equal(webhook.dropped, 0);
    webhook.close();
  });

  it("holds 10,000 events, drops and counts what comes on top, and gives up after a day", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 500;
    let nowMs = Date.UTC(2026, 4, 5);
    const webhook = new Webhook({ ...all, url: receiver.url }, () => nowMs);
    for (let i = 0; i < 10_003; i++) webhook.take(event(`a_${i}`));
    assert.equal(webhook.dropped, 3);
    await eventually(() => assert.equal(receiver.tries, 1));
    nowMs += 24 * 3_600_000 + 1;
    await eventually(() => assert.equal(webhook.dropped, 103), { withinMs: 60_000 });
    webhook.close();
  });

  it("sends the kinds that are wanted, and nothing where there is none", async () => {
    await using receiver = await startWebhookReceiver();
    const wanted = { secret: SECRET, kinds: ["quota"], url: receiver.url };
    const webhook = new Webhook(wanted, Date.now);
    webhook.take(event("left out"));
    webhook.take({ kind: "quota", time: 1 });
    await eventually(() => assert.equal(receiver.received.length, 1));
    assert.deepEqual(
      receiver.received[0]?.events.map(({ kind }) => kind),
      ["quota"],
    );
    webhook.reconfigure(undefined);
    webhook.take({ kind: "quota", time: 1 });
    webhook.close();
  });
});

describe("the kinds of events", () => {
  it("that are told are kinds that the configuration may name", () => {
    const known = new Set(EVENT_KINDS);
    assert.deepEqual(
      Object.keys(EVENTS).filter((kind) => !known.has(kind)),
      [],
    );
  });
});
