import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, openClient, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";
import { openWebSocket, startWebSocketUpstream } from "../../support/wire/websocket.ts";

const PLANS = { narrow: { minute: 100, day: 1_000, concurrent: 2 }, free: { minute: 60 } };

/** A gateway whose backend answers when it is told to. */
async function openHeld() {
  const house = await startTestGateway({ config: { plans: PLANS } });
  const held: ServerResponse[] = [];
  house.backend.answer((_seen, response) => void held.push(response));
  const answerAll = () => {
    for (const response of held.splice(0)) response.end("[]");
  };
  return { house, held, answerAll };
}

const limited = async (house: TestGateway, key: string) => {
  const answer = await sendRequest(house.port, { key });
  assert.deepEqual([answer.status, errorOf(answer).code], [429, "too_concurrent"]);
  return answer;
};

describe("concurrent", () => {
  it("refuses the request that is one too many, uncharged, and takes the next when one has ended", async () => {
    const { house, held, answerAll } = await openHeld();
    await using _ = house;
    const { key, account } = await house.issue({ plan: "narrow" });
    const other = await house.issue({ plan: "narrow" });
    const first = [sendRequest(house.port, { key }), sendRequest(house.port, { key })];
    await eventually(() => assert.equal(held.length, 2));
    const refused = await limited(house, key);
    assert.equal(onlyValue(refused, "Retry-After"), "1");
    assert.deepEqual(
      [rateLimitFieldsOf(refused).limit, rateLimitFieldsOf(refused).remaining],
      [100, 98],
    );
    const theirs = sendRequest(house.port, { key: other.key });
    await eventually(() => assert.equal(held.length, 3, "the next account has its own"));
    answerAll();
    for (const { status } of each(await Promise.all([...first, theirs]))) assert.equal(status, 200);
    const again = sendRequest(house.port, { key });
    await eventually(() => assert.equal(held.length, 1));
    answerAll();
    assert.equal((await again).status, 200);
    const told = house.lines.find(({ code }) => code === "too_concurrent");
    assert.deepEqual([told?.account, told?.charged, told?.decision], [account, 0, "refused"]);
    await house.law();
  });

  it("counts all keys of an account, and a client that leaves no more", async () => {
    const { house, held } = await openHeld();
    await using _ = house;
    const { key, account } = await house.issue({ plan: "narrow" });
    const second = await house.issue({ plan: "narrow", account });
    const clients = [await openClient(house.port), await openClient(house.port)];
    for (const [i, client] of clients.entries()) {
      const text = `Authorization: Bearer ${i === 0 ? key : second.key}`;
      client.write(`GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\n${text}\r\n\r\n`);
    }
    await eventually(() => assert.equal(held.length, 2));
    await limited(house, key);
    await limited(house, second.key);
    for (const client of clients) client.socket.destroy();
    await eventually(() =>
      assert.equal(house.lines.filter((entry) => entry.status === 499).length, 2),
    );
    house.backend.answer((_seen, response) => void response.end("[]"));
    for (let i = 0; i < 5; i++) assert.equal((await sendRequest(house.port, { key })).status, 200);
    await house.law();
  });

  it("counts a tunnel until it closes", async () => {
    const upstream = await startWebSocketUpstream();
    await using house = await startTestGateway({
      upstream,
      config: { plans: PLANS },
      environment: { api: null },
    });
    const { key } = await house.issue({ plan: "narrow" });
    const url = `${house.url}/v1/feed`;
    const tunnels = [await openWebSocket(url, { key }), await openWebSocket(url, { key })];
    await limited(house, key);
    for (const tunnel of tunnels) await tunnel[Symbol.asyncDispose]();
    await eventually(() =>
      assert.equal(house.lines.filter((entry) => entry.status === 101).length, 2),
    );
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    await house.law();
  });
});
