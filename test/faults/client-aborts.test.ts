import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";

/** 10,000 on demand: TOLLGATE_ABORTS=10000. */
const ABORTS = Number(process.env.TOLLGATE_ABORTS ?? 1_000);
const limits = [{ window: "day", limit: 10 ** 6 }] as const;
let open = 0;
const backend = await startTestUpstream((_seen, _response, request) => {
  open += 1;
  request.socket.once("close", () => {
    open -= 1;
  });
});
const keys = { [KEY]: { plan: "enterprise", id: ACCOUNT, limits } };
const house = await startTestGateway({ backend, keys });
afterAll(() => house[Symbol.asyncDispose]());

test("2.3 Aborts before the response: a client that goes away before the answer: its request at the backend ends at once, 499", async (t) => {
  const took: number[] = [];
  // Other work of the machine is not in each of twenty.
  while (took.length < 5 || (Math.min(...took) >= 50 && took.length < 20)) {
    const client = await openClient(house.port);
    client.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    await eventually(() => assert.equal(open, 1), { everyMs: 1 });
    const startMs = performance.now();
    client.socket.destroy();
    await eventually(() => assert.equal(open, 0), { everyMs: 1 });
    took.push(performance.now() - startMs);
  }
  t.annotate(
    `${Math.min(...took).toFixed(1)} ms at best, ${Math.max(...took).toFixed(1)} at worst`,
  );
  assert.ok(Math.min(...took) < 50, `${took}`);
  await eventually(() => assert.equal(house.lines.at(-1)?.status, 499));
  assert.equal(house.lines.at(-1)?.charged, 1, "the charge is kept");
});

test(`2.3 Aborts before the response: ${ABORTS} of them leave no connection to the backend behind, and the next request is served`, async () => {
  for (let round = 0; round < ABORTS / 100; round++) {
    const clients = await Promise.all(Array.from({ length: 100 }, () => openClient(house.port)));
    for (const [i, client] of clients.entries()) {
      const body = i % 2 === 0 ? "" : "Content-Length: 99\r\n";
      const method = i % 2 === 0 ? "GET" : "POST";
      const head = `${method} /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n`;
      client.write(`${head}${body}\r\n`);
    }
    // Some before the gateway has read them, some at the backend.
    if (round % 2 === 0) await eventually(() => open >= 50, { everyMs: 2 });
    for (const [i, client] of clients.entries()) {
      if (i % 3 === 0) client.socket.resetAndDestroy();
      else client.socket.destroy();
    }
    await eventually(() => assert.equal(open, 0));
  }
  backend.answer((_seen, response) => {
    response.end("{}");
  });
  assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
  await house.law({ connectionsFailed: true });
  assert.deepEqual(
    house.said.filter(({ level }) => level === "error"),
    [],
  );
});
