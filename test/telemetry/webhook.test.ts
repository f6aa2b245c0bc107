import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
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
    for (const { id, mediaType, type, timestamp } of receiver.received) {
      assert.equal(mediaType, "application/json");
      assert.match(id, /^msg_[0-9a-f-]{36}$/);
      assert.equal(type, "tollgate.events");
      const ageMs = Date.now() - Date.parse(timestamp);
      assert.ok(ageMs >= 0 && ageMs < 60_000, timestamp);
    }
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
    webhook.take(event("late"));
    assert.equal(webhook.dropped, 4, "those of a message on its way are held too");
    nowMs += 24 * 3_600_000 + 1;
    await eventually(() => assert.equal(webhook.dropped, 104), { withinMs: 60_000 });
    webhook.close();
  });

  it("counts events that wait as dropped when a reload turns events off, and one on its way unless it is taken", async () => {
    for (const [status, dropped] of [
      [204, 3],
      [500, 103],
    ] as const) {
      const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const server = createServer(async (_request, response) => {
        asked.resolve();
        await answer.promise;
        response.writeHead(status).end();
      }).listen(0, "127.0.0.1");
      await new Promise((resolve) => server.once("listening", resolve));
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const webhook = new Webhook({ ...all, url }, Date.now);
      for (let i = 0; i < 103; i++) webhook.take(event(`a_${i}`));
      await asked.promise;
      webhook.reconfigure(undefined);
      assert.equal(webhook.dropped, 3);
      webhook.reconfigure({ ...all, url });
      webhook.take(event("next"));
      answer.resolve();
      await eventually(() => assert.equal(webhook.dropped, dropped));
      webhook.close();
      server.close();
      server.closeAllConnections();
    }
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

describe("the pauses of a webhook", () => {
  /** The pauses that the webhook asked for, in milliseconds. None of them is waited for. */
  const pausesMs: number[] = [];
  /** Pauses from this length on never end. */
  let endlessMs = Number.POSITIVE_INFINITY;
  beforeEach(() => {
    const wait = globalThis.setTimeout;
    vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms: number) => {
      if (!new Error().stack?.includes("/webhook.ts")) return wait(work, ms);
      pausesMs.push(ms);
      return wait(ms < endlessMs ? work : () => {}, 0);
    }) as typeof setTimeout);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    pausesMs.length = 0;
    endlessMs = Number.POSITIVE_INFINITY;
  });

  it("double from 1 s to 5 min while nothing is taken, and begin with 1 s for the next message", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 503;
    const told: (string | undefined)[] = [];
    const settings = { ...all, url: receiver.url };
    const webhook = new Webhook(settings, Date.now, (why) => told.push(why));
    webhook.take(event("first"));
    const seconds = [0.1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
    await eventually(() => assert.ok(pausesMs.length >= seconds.length));
    assert.deepEqual(
      pausesMs.slice(0, seconds.length),
      seconds.map((each) => each * 1_000),
    );
    receiver.status = 204;
    // The receiver has it before the sender has the answer: until then an event joins the queue.
    await eventually(() => assert.equal(told.length, 2));
    assert.equal(receiver.received.length, 1);
    receiver.status = 503;
    const before = pausesMs.length;
    webhook.take(event("second"));
    await eventually(() => assert.ok(pausesMs.length >= before + 3));
    assert.deepEqual(pausesMs.slice(before, before + 3), [100, 1_000, 2_000]);
    webhook.close();
  });

  it("end for what was not taken once it is, before what came later", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 503;
    const webhook = new Webhook({ ...all, url: receiver.url }, Date.now);
    webhook.take(event("first"));
    await eventually(() => assert.ok(receiver.tries >= 2));
    webhook.take(event("second"));
    receiver.status = 200;
    await eventually(() => assert.equal(receiver.received.length, 2));
    const accounts = receiver.received.flatMap(({ events }) => events.map((one) => one.account));
    assert.deepEqual(accounts, ["first", "second"]);
    assert.equal(receiver.ids.size, 2, "one for all tries of a message");
    assert.equal(webhook.dropped, 0);
    webhook.close();
  });

  it("are told once with the reason, and once that they are over", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 500;
    const told: (string | undefined)[] = [];
    const settings = { ...all, url: receiver.url };
    const webhook = new Webhook(settings, Date.now, (why) => told.push(why));
    webhook.take(event("first"));
    await eventually(() => assert.ok(receiver.tries >= 2));
    assert.deepEqual(told, ["the receiver answered 500"]);
    receiver.status = 204;
    await eventually(() => assert.equal(told.length, 2));
    webhook.take(event("second"));
    await eventually(() => assert.equal(receiver.received.length, 2));
    assert.deepEqual(told, ["the receiver answered 500", undefined]);
    webhook.close();
  });

  it("begin with 1 s again for a receiver that is configured after there was none", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 503;
    const settings = { ...all, url: receiver.url };
    const told: (string | undefined)[] = [];
    const webhook = new Webhook(settings, Date.now, (why) => told.push(why));
    webhook.take(event("first"));
    await eventually(() => assert.ok(pausesMs.includes(8_000)));
    webhook.reconfigure(undefined);
    const before = pausesMs.length;
    webhook.reconfigure(settings);
    webhook.take(event("second"));
    const retries = () => pausesMs.slice(before).filter((ms) => ms !== 100);
    await eventually(() => assert.ok(retries().length >= 2));
    assert.deepEqual(retries().slice(0, 2), [1_000, 2_000]);
    const why = "the receiver answered 503";
    assert.deepEqual(told, [why, why], "what is said of it begins again as well");
    webhook.close();
  });

  it("end with a reload that puts the receiver right, and the event that waits goes there at once", async () => {
    await using wrong = await startWebhookReceiver();
    await using right = await startWebhookReceiver();
    wrong.status = 404;
    endlessMs = 4_000;
    const webhook = new Webhook({ ...all, url: wrong.url }, Date.now);
    webhook.take(event("first"));
    await eventually(() => assert.ok(pausesMs.includes(4_000)));
    webhook.reconfigure({ ...all, url: wrong.url });
    assert.equal(pausesMs.at(-1), 4_000, "a reload that changes nothing of it ends no pause");
    webhook.reconfigure({ ...all, url: right.url });
    await eventually(() => assert.equal(right.received.length, 1));
    assert.deepEqual([wrong.tries, webhook.dropped], [3, 0]);
    webhook.close();
  });

  it("and a call under way end with a reload that names another receiver, which gets the same message, and with no other", async () => {
    await using hung = await startWebhookReceiver();
    await using right = await startWebhookReceiver();
    hung.status = 0;
    const told: (string | undefined)[] = [];
    const webhook = new Webhook({ ...all, url: hung.url }, Date.now, (why) => told.push(why));
    webhook.take(event("first"));
    await eventually(() => assert.equal(hung.tries, 1));
    webhook.reconfigure({ secret: SECRET, kinds: ["ban_lifted"], url: hung.url });
    webhook.take(event("second"));
    webhook.reconfigure({ ...all, url: right.url });
    await eventually(() => assert.equal(right.received.length, 2), { withinMs: 5_000 });
    assert.deepEqual(
      right.received.flatMap(({ events }) => events.map(({ account }) => account)),
      ["first", "second"],
    );
    assert.deepEqual([right.received[0]?.id], [...hung.ids]);
    assert.deepEqual([hung.tries, webhook.dropped, told], [1, 0, []]);
    webhook.close();
  });

  it("go on for a whole day, and the message is dropped after it", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 503;
    let nowMs = 0;
    const webhook = new Webhook({ ...all, url: receiver.url }, () => nowMs);
    webhook.take(event("first"));
    await eventually(() => assert.ok(receiver.tries >= 1));
    nowMs = 24 * 3_600_000;
    const tries = receiver.tries;
    await eventually(() => assert.ok(receiver.tries >= tries + 2));
    assert.equal(webhook.dropped, 0);
    nowMs += 1;
    await eventually(() => assert.equal(webhook.dropped, 1));
    webhook.close();
  });

  it("are none between messages while more events wait, and a reload with nothing to send sends nothing", async () => {
    await using receiver = await startWebhookReceiver();
    const webhook = new Webhook({ ...all, url: receiver.url }, Date.now);
    for (let i = 0; i < 250; i++) webhook.take(event(`a_${i}`));
    await eventually(() => assert.equal(receiver.received.length, 3));
    assert.deepEqual(pausesMs, [100, 0, 0]);
    // The receiver has the third message before the webhook has its answer, and is not woken until then.
    await eventually(() => {
      webhook.reconfigure({ ...all, url: receiver.url });
      assert.equal(pausesMs.length, 4);
    });
    await new Promise((resolve) => setTimeout(resolve, 2));
    webhook.take(event("late"));
    await eventually(() => assert.equal(receiver.received.length, 4));
    assert.deepEqual([receiver.tries, pausesMs], [4, [100, 0, 0, 100, 100]]);
    webhook.close();
  });

  it("end with the webhook, and nothing is sent after", async () => {
    await using receiver = await startWebhookReceiver();
    let asked = 0;
    const webhook = new Webhook({ ...all, url: receiver.url }, () => asked++);
    webhook.take(event("first"));
    webhook.close();
    await new Promise((resolve) => setTimeout(resolve, 2));
    assert.deepEqual([pausesMs, asked], [[100], 0], "no message was made");
  });

  it("do not follow a message that was on its way at the end, and its failure is not told", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 0;
    let asked = 0;
    const told: (string | undefined)[] = [];
    const settings = { ...all, url: receiver.url };
    const webhook = new Webhook(
      settings,
      () => asked++,
      (why) => told.push(why),
    );
    webhook.take(event("first"));
    await eventually(() => assert.equal(receiver.tries, 1));
    webhook.close();
    const before = asked;
    receiver.drop();
    await eventually(() => assert.ok(asked > before, "it has seen the end of the message"));
    assert.deepEqual([told, pausesMs], [[], [100]]);
  });

  it("end with a reload that puts the secret right", async () => {
    await using receiver = await startWebhookReceiver();
    receiver.status = 401;
    endlessMs = 2_000;
    const secret = `whsec_${Buffer.from("another key").toString("base64")}`;
    const webhook = new Webhook({ ...all, secret, url: receiver.url }, Date.now);
    webhook.take(event("first"));
    await eventually(() => assert.ok(pausesMs.includes(2_000)));
    receiver.status = 204;
    webhook.reconfigure({ ...all, url: receiver.url });
    await eventually(() => assert.equal(receiver.received.length, 1));
    webhook.close();
  });

  it("of a receiver that was replaced do not keep the next one waiting", async () => {
    await using gone = await startWebhookReceiver();
    await using next = await startWebhookReceiver();
    gone.status = 0;
    const webhook = new Webhook({ ...all, url: gone.url }, Date.now);
    webhook.take(event("first"));
    await eventually(() => assert.equal(gone.tries, 1));
    webhook.take(event("waits"));
    webhook.reconfigure(undefined);
    webhook.reconfigure({ ...all, url: next.url });
    webhook.take(event("second"));
    gone.drop();
    await eventually(() => assert.equal(next.received.length, 1));
    assert.deepEqual(pausesMs, [100, 100]);
    assert.deepEqual(
      next.received.flatMap(({ events }) => events.map(({ account }) => account)),
      ["second"],
    );
    webhook.close();
  });

  it("follow a redirect, whose target is sent nothing, since it was not configured", async () => {
    await using target = await startWebhookReceiver();
    let asked = 0;
    const server = createServer((request, response) => {
      asked += 1;
      const answer = () => response.writeHead(307, { Location: target.url }).end();
      request.resume().on("end", answer);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
    const { port } = server.address() as AddressInfo;
    const webhook = new Webhook({ ...all, url: `http://127.0.0.1:${port}/` }, Date.now);
    webhook.take(event("first"));
    await eventually(() => assert.ok(asked >= 3));
    webhook.close();
    assert.deepEqual([target.tries, webhook.dropped], [0, 0]);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
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
