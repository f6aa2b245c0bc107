import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, openClient, requestBytes, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, type RawResponse, valuesOf } from "../../support/wire/response.ts";

test("a pipelined request behind a refusal that closes is neither answered nor charged", async () => {
  await using house = await startTestGateway();
  const { key, account } = await house.issue();
  await using client = await openClient(house.port);
  const bad = requestBytes({ key, path: "/v1/../x" });
  client.write(Buffer.concat([bad, requestBytes({ key })]));
  const [answer] = (await client.responses(["GET"])) as [RawResponse];
  assert.deepEqual([answer.status, onlyValue(answer, "Connection")], [400, "close"]);
  await client.ended;
  client.write(requestBytes({ key }));
  await eventually(() => house.lines.length >= 1);
  assert.equal(client.waiting().length, 0);
  const usage = await house.admin(`/api/usage/${account}`).then((it) => it.json());
  assert.equal((usage as { windows: { used: number }[] }).windows[0]?.used, 0);
  assert.equal(house.backend.seen.length, 0);
  await house.law();
});

for (const method of ["GET", "HEAD"]) {
  test(`a ${method} on a connection that the backend closed is retried once, on a new one`, async () => {
    let dropNext = false;
    const backend = await startTestUpstream((_seen, response, request) => {
      if (!dropNext) return void response.end("ok");
      dropNext = false;
      request.socket.destroy();
    });
    await using house = await startTestGateway({ backend });
    const { key } = await house.issue();
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    dropNext = true;
    const answer = await sendRequest(house.port, { key, method });
    assert.equal(answer.status, 200);
    await eventually(() => house.lines.length === 2);
    assert.deepEqual([house.lines[1]?.forwards, house.lines[1]?.charged], [2, 1]);
    assert.equal(backend.connections(), 2);
    await house.law();
  });
}

test("on a new connection, or a second time, it is not retried: 502", async () => {
  let calls = 0;
  const backend = await startTestUpstream((_seen, response, request) => {
    calls += 1;
    if (calls === 2) response.end("ok");
    else request.socket.destroy();
  });
  await using house = await startTestGateway({ backend });
  const { key } = await house.issue();
  const first = await sendRequest(house.port, { key });
  assert.deepEqual([first.status, errorOf(first).code], [502, "upstream_unreachable"]);
  assert.equal(calls, 1, "a new connection");
  assert.equal((await sendRequest(house.port, { key })).status, 200);
  const last = await sendRequest(house.port, { key });
  assert.deepEqual([last.status, calls], [502, 4]);
  await house.law();
});

test("a connection that had to be opened anew is new: a GET that dies on it is not retried", async () => {
  const backend = await startTestUpstream((_seen, response) => {
    response.setHeader("Connection", "close");
    response.end("ok");
  });
  await using house = await startTestGateway({ backend });
  const { key } = await house.issue();
  assert.equal((await sendRequest(house.port, { key })).status, 200);
  backend.answer((_seen, _response, request) => void request.socket.destroy());
  const answer = await sendRequest(house.port, { key });
  assert.deepEqual([answer.status, backend.seen.length], [502, 2]);
  await house.law();
});

test("a GET whose response had begun is never retried", async () => {
  const backend = await startTestUpstream((_seen, response) => void response.end("ok"));
  await using house = await startTestGateway({ backend });
  const { key } = await house.issue();
  assert.equal((await sendRequest(house.port, { key })).status, 200);
  backend.answer((_seen, response) => {
    response.socket?.write("HTTP/1.1 2", () => response.socket?.destroy());
  });
  const answer = await sendRequest(house.port, { key });
  assert.equal(answer.status, 502);
  assert.equal(backend.seen.length, 2);
  await house.law();
});

for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
  test(`a ${method} is never retried`, async () => {
    const backend = await startTestUpstream((_seen, response) => void response.end("ok"));
    await using house = await startTestGateway({ backend, environment: { api: null } });
    const { key } = await house.issue();
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    backend.answer((_seen, _response, request) => {
      request.socket.destroy();
    });
    const answer = await sendRequest(house.port, { key, method });
    assert.deepEqual([answer.status, errorOf(answer).code], [502, "upstream_unreachable"]);
    assert.equal(backend.seen.length, 2);
    await house.law();
  });
}

test("a backend that closes idle connections under it costs a client nothing", async () => {
  const backend = await startTestUpstream((_seen, response) => void response.end("ok"));
  await using house = await startTestGateway({ backend });
  const { key } = await house.issue({ plan: "business" });
  for (let i = 0; i < 50; i++) {
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    backend.cut();
  }
  await house.law({ connectionsFailed: true });
});

test("connections to the backend are kept and used again", async () => {
  await using house = await startTestGateway();
  const { key } = await house.issue();
  for (let i = 0; i < 10; i++) await sendRequest(house.port, { key });
  assert.equal(house.backend.connections(), 1);
});

test("a client's connection is kept, HTTP/1.0 and Connection: close are not", async () => {
  await using house = await startTestGateway();
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  for (let i = 0; i < 3; i++) {
    assert.ok(!valuesOf(await client.ask({ key }), "Connection").includes("close"));
  }
  const last = await client.ask({ key, fields: [["Connection", "close"]] });
  assert.equal(onlyValue(last, "Connection"), "close");
  assert.equal(await client.ended, "closed");
  await using old = await openClient(house.port);
  old.write(requestBytes({ key, version: "1.0" }));
  assert.equal(await old.ended, "closed");
  await house.law();
});

test("bytes that are no request, behind a good one, are answered after it", async () => {
  await using house = await startTestGateway();
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  client.write(Buffer.concat([requestBytes({ key }), Buffer.from("\x01\x02\r\n\r\n")]));
  const answers = await client.responses(["GET", "GET"]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 400],
  );
  assert.equal(await client.ended, "closed");
  await house.law();
});
