import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, requestBytes } from "../../support/wire/client.ts";

const REQUESTS = 2_000;
const STOPPED = "the client stopped reading";
const LONG = Buffer.alloc(16_000_000, "x");
const BODY = Buffer.alloc(16_000, "x");

it("a client that takes nothing of answers that are all written is cut after idleTimeout", async () => {
  const environment = { limits: { idleTimeout: "700ms" } };
  await using house = await startTestGateway({
    environment,
    config: { plans: { free: { month: 1_000_000 } } },
  });
  house.backend.answer((_seen, response) => void response.end(BODY));
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  client.socket.pause();
  const one = `GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  client.write(one.repeat(REQUESTS));
  await eventually(
    () => {
      const cut = house.lines.find(({ why }) => why === STOPPED);
      assert.deepEqual([cut?.source, cut?.status, cut?.code], ["backend", 499, undefined]);
    },
    { withinMs: 60_000 },
  );
  assert.ok(house.lines.length < REQUESTS, "what came behind it is nobody's request any more");
  await house.law({ connectionsFailed: true });
});

it("an answer of which an HTTP/1.0 client read a part never looks complete when the client is cut", async () => {
  await using house = await startTestGateway({ environment: { limits: { idleTimeout: "700ms" } } });
  house.backend.answer((_seen, response) => {
    response.write(LONG);
    response.end();
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const failed = once(client.socket, "error");
  client.socket.pause();
  client.write(`GET /v1/pets HTTP/1.0\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await eventually(() => assert.equal(house.lines[0]?.why, STOPPED), { withinMs: 60_000 });
  const ended = once(client.socket, "end").then(() => ["a plain end is the end of the body"]);
  client.socket.resume();
  assert.match(String(await Promise.race([failed, ended])), /ECONNRESET/);
});

it("forty clients that stop reading eject no backend, leave /readyz at 200 and are cut with 499", async () => {
  const answer = (_seen: unknown, response: ServerResponse) => void response.end(LONG);
  const backends = [await startTestUpstream(answer), await startTestUpstream(answer)] as const;
  const upstreams = backends.map(({ origin }) => origin);
  await using house = await startTestGateway({
    backend: backends[0],
    environment: { upstreams, limits: { idleTimeout: "700ms" } },
  });
  await using _ = backends[1];
  const { key } = await house.issue({ plan: "business" });
  const clients = await Promise.all(Array.from({ length: 40 }, () => openClient(house.port)));
  for (const client of clients) {
    client.socket.pause();
    client.write(`GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  }
  await eventually(() => assert.equal(house.lines.length, 40), { withinMs: 60_000 });
  for (const { status, why, code } of house.lines) {
    assert.deepEqual([status, why, code], [499, STOPPED, undefined]);
  }
  assert.equal((await house.admin("/readyz")).status, 200);
  const metrics = await (await house.admin("/metrics")).text();
  const up = [...metrics.matchAll(/^tollgate_upstream_up\{.*\} (\d)$/gm)].map(([, value]) => value);
  assert.deepEqual(up, ["1", "1"]);
  for (const client of clients) client.socket.destroy();
  const seen = backends.reduce((sum, backend) => sum + backend.seen.length, 0);
  assert.equal(seen, 40);
});

it("bytes that wait for a slow reader are its own when others are answered meanwhile", async () => {
  await using house = await startTestGateway();
  const bytes = 8 * 1024 ** 2;
  house.backend.answer(({ target }, response) => {
    response.end(Buffer.alloc(bytes, target.endsWith("slow") ? "s" : "o"));
  });
  const { key } = await house.issue({ plan: "business" });
  await using slow = await openClient(house.port);
  slow.socket.pause();
  slow.write(requestBytes({ key, path: "/v1/pets?slow" }));
  await eventually(() => house.backend.seen.length === 1);
  for (let i = 0; i < 3; i++) {
    const other = await (await house.ask(key, "/v1/pets?other")).text();
    assert.ok(other === "o".repeat(bytes), "another one's bytes");
  }
  slow.socket.resume();
  const [answer] = await slow.responses(["GET"], 60_000);
  assert.equal(answer?.body.length, bytes);
  assert.equal(
    answer?.body.findIndex((byte) => byte !== 0x73),
    -1,
    "a byte of another answer",
  );
  await house.law();
});
