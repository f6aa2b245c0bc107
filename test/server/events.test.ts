import assert from "node:assert/strict";
import { onTestFinished, test, vi } from "vitest";
import { createLog } from "../../src/telemetry/log/log.ts";
import { openBlackHole } from "../support/black-hole.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { SECRET, startWebhookReceiver } from "../support/webhook-receiver.ts";
import { awayFromMinuteEdge, sendRequest } from "../support/wire/client.ts";

const events = ({ said }: Pick<SpawnedGateway, "said">) =>
  said.filter(({ msg }) => msg === "event");

test("80 and 100 % of a limit and a ban are told once each, in the log and to the webhook", async () => {
  await using receiver = await startWebhookReceiver();
  await using backend = await startTestUpstream();
  const config = {
    plans: { vectors: { minute: 10, month: 1000 }, free: { minute: 60 } },
    bans: { strikes: 1, grace: "10ms", within: "1m", duration: "1m" },
    events: { url: receiver.url, secret: SECRET, quota: ["minute"] },
  };
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  await awayFromMinuteEdge();
  await Promise.all(Array.from({ length: 10 }, () => sendRequest(served.port, { key: KEY })));
  await eventually(() => assert.equal(events(served).length, 2));
  await sendRequest(served.port, { key: KEY });
  await eventually(async () => {
    await sendRequest(served.port, { key: KEY });
    assert.ok(events(served).some(({ kind }) => kind === "ban"));
  });
  const told = events(served).map(({ kind, percent, used, limit, window, account }) => {
    return { kind, percent, used, limit, window, account };
  });
  const ban = events(served).find(({ kind }) => kind === "ban");
  assert.deepEqual(ban?.strikes, [Number(ban?.decidedAt) / 1000]);
  const account = "vectors";
  assert.deepEqual(told, [
    { kind: "quota", percent: 80, used: 8, limit: 10, window: "minute", account },
    { kind: "quota", percent: 100, used: 10, limit: 10, window: "minute", account },
    {
      kind: "ban",
      percent: undefined,
      used: undefined,
      limit: undefined,
      window: "minute",
      account,
    },
  ]);
  await eventually(() => {
    const sent = receiver.received.flatMap((message) => message.events.map(({ kind }) => kind));
    assert.deepEqual(sent, ["quota", "quota", "ban"]);
  });
});

test("the use of a day is told unasked, that of a minute is not, and one request that crosses both tells 100", async () => {
  await using backend = await startTestUpstream();
  const config = { plans: { vectors: { second: 1_000, minute: 4, day: 4 } } };
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  await awayFromMinuteEdge();
  for (let i = 0; i < 4; i++) await sendRequest(served.port, { key: KEY });
  await eventually(() => assert.ok(events(served).length > 0));
  await sendRequest(served.port, { key: KEY });
  const told = events(served).map(({ kind, percent, window }) => [kind, percent, window]);
  // Three of four are 75 %, so that the fourth crosses 80 and 100 together.
  assert.deepEqual(told, [["quota", 100, "day"]]);
});

test("a receiver that accepts no events is told of in the log, with its reason, and so is its return", async () => {
  await using receiver = await startWebhookReceiver();
  receiver.status = 401;
  await using backend = await startTestUpstream();
  const config = {
    plans: { vectors: { day: 5 } },
    events: { url: receiver.url, secret: SECRET },
  };
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  for (let i = 0; i < 5; i++) await sendRequest(served.port, { key: KEY });
  const lines = (name: string) => served.said.filter(({ msg }) => msg === name);
  await eventually(() => assert.equal(lines("events_unsent").length, 1));
  assert.equal(lines("events_unsent")[0]?.why, "the receiver answered 401");
  receiver.status = 204;
  await eventually(() => assert.equal(lines("events_sent").length, 1));
});

test("a backend that goes out and comes back, and a reload, are told once each", async () => {
  await using well = await startTestUpstream();
  let ill = false;
  await using sick = await startTestUpstream((_seen, response) => {
    response.writeHead(ill ? 503 : 200).end();
  });
  const production = {
    ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live" },
    upstreams: [well.origin, sick.origin],
    healthCheck: { path: "/up", every: "100ms" },
  };
  await using served = await spawnGateway({
    upstreams: [],
    config: { environments: { production } },
  });
  const kinds = () => events(served).map(({ kind }) => kind);
  ill = true;
  await eventually(() => assert.deepEqual(kinds(), ["upstream_down"]));
  assert.equal(events(served)[0]?.upstream, sick.origin);
  assert.equal(events(served)[0]?.why, "health check: answered 503");
  assert.match(String(events(served)[0]?.gateway), /.-[0-9a-f]{6}$/, "of several, the one it was");
  ill = false;
  await eventually(() => assert.deepEqual(kinds(), ["upstream_down", "upstream_up"]));
  served.running.child.kill("SIGHUP");
  await eventually(() => {
    assert.deepEqual(kinds(), ["upstream_down", "upstream_up", "config_reloaded"]);
  });
});

test("a sink that accepts and never reads costs no answer and one connection, and holds up no end", async () => {
  await using hole = await openBlackHole();
  await using backend = await startTestUpstream();
  const config = {
    plans: { vectors: { minute: 10, month: 1000 }, free: { minute: 60 } },
    // Every refusal is the strike that would ban: an event each.
    bans: { strikes: 1, grace: "1ms", within: "1m", duration: "1m", observe: true },
    events: { url: hole.origin, secret: SECRET },
  };
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  const bans = () => events(served).filter(({ kind }) => kind === "ban");
  await eventually(async () => {
    await sendRequest(served.port, { key: KEY });
    assert.ok(hole.connections > 0 && bans().length > 0);
  });
  const before = bans().length;
  for (let i = 0; i < 40; i++) {
    const { status } = await sendRequest(served.port, { key: KEY });
    assert.ok(status === 200 || status === 429, `${status}`);
  }
  await eventually(() => assert.ok(bans().length >= before + 10, `${bans().length} bans`));
  // One message is under way, and what came meanwhile waits behind it; each try may take ten seconds.
  assert.ok(hole.connections <= 5, `${hole.connections} connections`);
  const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
  assert.match(metrics, /^tollgate_events_dropped_total 0$/m);
  const { code, signal } = await served.running.stop();
  assert.deepEqual([code, signal], [0, null]);
});

test("an event has one time, in its line and in the message", async () => {
  await using receiver = await startWebhookReceiver();
  const config = { events: { url: receiver.url, secret: SECRET, kinds: ["all"] } };
  await using house = await startTestGateway({ config });
  const startMs = Date.now();
  let readings = 0;
  // Two readings of this clock are never the same.
  vi.spyOn(Date, "now").mockImplementation(() => startMs + readings++);
  onTestFinished(() => void vi.restoreAllMocks());
  assert.ok((await house.gateway.reload()).ok);
  const sent = await eventually(() => receiver.received[0]?.events ?? assert.fail("not yet"));
  const logged = house.said.filter(({ msg }) => msg === "event");
  const told = ({ kind, time }: Readonly<Record<string, unknown>>) => ({ kind, time });
  assert.deepEqual(logged.map(told), sent.map(told));
});

test("the line of an event has its time once", () => {
  const lines: string[] = [];
  createLog({ write: (line) => void lines.push(line) }, "info").info("config_reloaded", {});
  assert.match(
    lines.join(""),
    /^\{"level":"info","time":\d{13},"kind":"config_reloaded","msg":"event"\}\n$/,
  );
});
