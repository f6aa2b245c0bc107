import assert from "node:assert/strict";
import { test } from "vitest";
import { readPage } from "../docs/markdown.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import {
  errorOf,
  openClient,
  requestBytes,
  sendRequest,
  untilRefused,
} from "../support/wire/client.ts";
import { onlyValue, valuesOf } from "../support/wire/response.ts";

test("2.4 SIGTERM in flight: drain, announced: /readyz is 503 at once, the listener stays open, answers carry Connection: close", async () => {
  await using house = await startTestGateway({
    config: { limits: { drainDelay: "2s", drain: "5s" } },
  });
  const { key } = await house.issue();
  await using kept = await openClient(house.port);
  assert.equal((await kept.ask({ key })).status, 200);
  const stopped = house.gateway.stop();
  const ready = await fetch(`${house.adminUrl}/readyz`);
  assert.equal(ready.status, 503, "/readyz says so at once");
  const checks = (await ready.json()) as { checks: { draining: { ok: boolean } } };
  assert.equal(checks.checks.draining.ok, false);
  for (const answer of [await sendRequest(house.port, { key }), await kept.ask({ key })]) {
    assert.equal(answer.status, 200);
    assert.equal(onlyValue(answer, "Connection"), "close");
  }
  assert.equal(await kept.ended, "closed");
  await stopped;
  await assert.rejects(sendRequest(house.port, { key }), "no more connections");
});

test("2.4 SIGTERM in flight: drain, closed: what runs is served, what comes later on a connection is 503 draining", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "60s" } } });
  const { key } = await house.issue();
  let answerNow = () => {};
  await using kept = await openClient(house.port);
  assert.equal((await kept.ask({ key })).status, 200);
  house.backend.answer((_seen, response) => {
    answerNow = () => void response.end("late");
  });
  await using busy = await openClient(house.port);
  const slow = busy.ask({ key });
  await eventually(() => house.backend.seen.length === 2);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  const refused = await kept.ask({ key });
  assert.deepEqual([refused.status, errorOf(refused).code], [503, "draining"]);
  assert.equal(onlyValue(refused, "Retry-After"), "1");
  assert.equal(await kept.ended, "closed");
  answerNow();
  const served = await slow;
  assert.deepEqual([served.status, served.body.toString()], [200, "late"]);
  await stopped;
  const charged = house.lines.map(({ status, charged }) => `${status}: ${charged}`);
  assert.deepEqual(new Set(charged), new Set(["200: 1", "503: 0"]));
});

test("2.4 SIGTERM in flight: drain, closed: connections without a request end at once if none is under way", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "1h" } } });
  const { key } = await house.issue();
  await using fresh = await openClient(house.port);
  await using kept = await openClient(house.port);
  assert.equal((await kept.ask({ key })).status, 200);
  await house.gateway.stop();
  assert.deepEqual(await Promise.all([fresh.ended, kept.ended]), ["closed", "closed"]);
});

test("2.4 SIGTERM in flight: drain, closed: connections without a request end when the last one under way has ended", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "1h" } } });
  const { key } = await house.issue();
  let answerNow = () => {};
  house.backend.answer((_seen, response) => {
    answerNow = () => void response.end("late");
  });
  await using busy = await openClient(house.port);
  await using idle = await openClient(house.port);
  await using asking = await openClient(house.port);
  let isIdleEnded = false;
  const ended = idle.ended.then((how) => {
    isIdleEnded = true;
    return how;
  });
  const slow = busy.ask({ key });
  await eventually(() => house.backend.seen.length === 1);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  assert.equal((await asking.ask({ key })).status, 503);
  assert.ok(!isIdleEnded);
  answerNow();
  assert.equal((await slow).status, 200);
  assert.equal(await ended, "closed");
  await stopped;
});

test("a balancer sees a drain in /readyz, by the text of docs/operations.md, and never in /livez, though the port is closed", async () => {
  const [, text = ""] = /look for `("draining":[^`]+)`/.exec(readPage("docs/operations.md")) ?? [];
  assert.ok(text, "the page names a text");
  await using house = await startTestGateway({ config: { limits: { drain: "60s" } } });
  const { key } = await house.issue();
  let answerNow = () => {};
  house.backend.answer((_seen, response) => {
    answerNow = () => void response.end("late");
  });
  const look = async () => {
    const [live, ready] = await Promise.all(
      ["/livez", "/readyz"].map((path) => fetch(`${house.adminUrl}${path}`)),
    );
    return [live?.status, ready?.status, (await ready?.text())?.includes(text)];
  };
  assert.deepEqual(await look(), [200, 200, false]);
  const slow = sendRequest(house.port, { key });
  await eventually(() => house.backend.seen.length === 1);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  assert.deepEqual(await look(), [200, 503, true]);
  answerNow();
  assert.equal((await slow).status, 200);
  await stopped;
});

test("2.4 SIGTERM in flight: drain, closed: requests sent ahead are served in their order, one that is sent later is 503 draining", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "60s" } } });
  const { key } = await house.issue();
  const waiting: (() => void)[] = [];
  house.backend.answer((_seen, response) => {
    waiting.push(() => void response.end("late"));
  });
  await using client = await openClient(house.port);
  client.write(Buffer.concat([requestBytes({ key }), requestBytes({ key })]));
  await eventually(() => waiting.length === 1);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  client.write(requestBytes({ key }));
  waiting[0]?.();
  await eventually(() => waiting.length === 2);
  waiting[1]?.();
  const answers = await client.responses(["GET", "GET", "GET"]);
  const told = answers.map((answer) => [answer.status, valuesOf(answer, "Connection")]);
  assert.deepEqual(told, [
    [200, []],
    [200, []],
    [503, ["close"]],
  ]);
  assert.equal(await client.ended, "closed");
  await stopped;
  const charged = house.lines.map(({ status, charged }) => `${status}: ${charged}`);
  assert.deepEqual(charged, ["200: 1", "200: 1", "503: 0"]);
  assert.equal(house.backend.seen.length, 2);
});

test("2.4 SIGTERM in flight: the last of the requests sent ahead closes the connection, and no refusal before it", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "60s" } } });
  const { key } = await house.issue();
  let answerNow = () => {};
  house.backend.answer((seen, response) => {
    if (seen.target === "/v1/pets") answerNow = () => void response.end("late");
    else response.end("soon");
  });
  await using client = await openClient(house.port);
  const requests = [{ key }, {}, { key, path: "/v1/pets/1" }];
  client.write(Buffer.concat(requests.map(requestBytes)));
  await eventually(() => house.backend.seen.length === 1);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  answerNow();
  const answers = await client.responses(["GET", "GET", "GET"]);
  const told = answers.map((answer) => [answer.status, valuesOf(answer, "Connection")]);
  assert.deepEqual(told, [
    [200, []],
    [401, []],
    [200, ["close"]],
  ]);
  await stopped;
  assert.equal(house.lines.length, 3);
});

/** The bytes of a request, and apart from them the line that ends its head. */
function cutHead(key: string): [Buffer, Buffer] {
  const bytes = requestBytes({ key });
  return [bytes.subarray(0, -2), bytes.subarray(-2)];
}

test("2.4 SIGTERM in flight: a request whose head has begun is served, and one that begins later is 503 draining", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "60s" } } });
  const { key } = await house.issue();
  await using used = await openClient(house.port);
  await using fresh = await openClient(house.port);
  await using idle = await openClient(house.port);
  const [begun, rest] = cutHead(key);
  assert.equal((await used.ask({ key })).status, 200);
  for (const client of [used, fresh]) client.write(begun);
  // The request of this client arrives behind those heads.
  assert.equal((await idle.ask({ key })).status, 200);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  const late = await idle.ask({ key });
  assert.deepEqual([late.status, errorOf(late).code], [503, "draining"]);
  for (const client of [used, fresh]) {
    client.write(rest);
    const [answer] = await client.responses(["GET"]);
    assert.deepEqual([answer?.status, answer && onlyValue(answer, "Connection")], [200, "close"]);
    assert.equal(await client.ended, "closed");
  }
  await stopped;
  assert.deepEqual(
    house.lines.map(({ status, charged, forwards }) => [status, charged, forwards]),
    [
      [200, 1, 1],
      [200, 1, 1],
      [503, 0, 0],
      [200, 1, 1],
      [200, 1, 1],
    ],
  );
});

test("2.4 SIGTERM in flight: a head that was sent ahead in part is served behind the answer that it waits for", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "60s" } } });
  const { key } = await house.issue();
  let answerNow = () => {};
  house.backend.answer((_seen, response) => {
    answerNow = () => void response.end("late");
  });
  await using client = await openClient(house.port);
  const [begun, rest] = cutHead(key);
  client.write(Buffer.concat([requestBytes({ key }), begun]));
  await eventually(() => house.backend.seen.length === 1);
  house.backend.answer((_seen, response) => void response.end("soon"));
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  answerNow();
  const [first] = await client.responses(["GET"]);
  assert.deepEqual([first?.status, first && valuesOf(first, "Connection")], [200, []]);
  client.write(rest);
  const [second] = await client.responses(["GET"]);
  assert.deepEqual([second?.status, second && onlyValue(second, "Connection")], [200, "close"]);
  await stopped;
});

test("2.4 SIGTERM in flight: a head that has begun and does not end holds the end up by no more than headersTimeout", async () => {
  const limits = { drain: "60s", headersTimeout: "500ms" };
  await using house = await startTestGateway({ config: { limits } });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  client.write(cutHead(key)[0]);
  assert.equal((await sendRequest(house.port, { key })).status, 200);
  await house.gateway.stop();
  const [answer] = await client.responses(["GET"]);
  assert.equal(answer?.status, 408);
});

test("2.4 Second SIGTERM / SIGINT: a head that has begun and does not end holds up nothing", async () => {
  const limits = { drain: "60s", headersTimeout: "60s" };
  await using house = await startTestGateway({ config: { limits } });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  client.write(cutHead(key)[0]);
  assert.equal((await sendRequest(house.port, { key })).status, 200);
  const stopped = house.gateway.stop();
  await untilRefused(house.port);
  const startMs = performance.now();
  const { stalledMs } = await watchStalls(async () => {
    await Promise.all([house.gateway.stop({ atOnce: true }), stopped]);
  });
  assert.ok(performance.now() - startMs < 5_000 + stalledMs);
  assert.equal(await client.ended, "closed");
});

test("2.4 SIGTERM in flight: at the deadline what still runs is cut", async () => {
  await using house = await startTestGateway({ config: { limits: { drain: "200ms" } } });
  const { key } = await house.issue();
  house.backend.answer(() => {});
  await using client = await openClient(house.port);
  const slow = client.ask({ key });
  await eventually(() => house.backend.seen.length === 1);
  const startMs = performance.now();
  const { stalledMs } = await watchStalls(async () => {
    await Promise.all([house.gateway.stop(), assert.rejects(slow)]);
  });
  const tookMs = performance.now() - startMs;
  assert.ok(tookMs >= 190 && tookMs < 3_000 + stalledMs, `${tookMs}, ${stalledMs} stalled`);
  assert.deepEqual([house.lines[0]?.charged, house.lines[0]?.forwards], [1, 1]);
});
