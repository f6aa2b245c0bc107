import assert from "node:assert/strict";
import type { OutgoingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import type { RequestListener } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const LIMIT = 1_000;
const HOLD = 100;
const MAX = 400;

type Plan = {
  readonly limit?: number;
  readonly hold?: number;
  readonly untold?: "hold" | "max";
};

function openMetered({ limit = LIMIT, hold = HOLD, untold = "hold" }: Plan = {}) {
  const used = ["header x-used", "json /used", "sse /used"];
  return startTestGateway({
    environment: {
      api: null,
      costs: [{ match: "GET /v1/any", meters: { tokens: { hold, max: MAX, untold, used } } }],
    },
    config: {
      plans: { free: { year: 1_000_000, meters: { tokens: { year: limit } } } },
      bans: { strikes: 3, within: "1m", grace: "1ms", duration: "1h" },
      limits: { drain: "1s" },
    },
  });
}

/** The units of the meter that are left for the account, as the next head tells them. */
async function leftOf(house: TestGateway, key: string, hold = HOLD): Promise<number> {
  house.backend.answer((_seen, response) => void response.writeHead(400).end());
  await using client = await openClient(house.port);
  const response = await client.ask({ key, path: "/v1/any" });
  assert.equal(onlyValue(response, "x-ratelimit-window"), "tokens.year");
  return (
    Number(onlyValue(response, "x-ratelimit-remaining")) + (response.status === 429 ? 0 : hold)
  );
}

const stream = (...events: readonly string[]): RequestListener => {
  return (_seen, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of events) response.write(event);
  };
};

describe("meters and hostile clients", () => {
  it("charge untold to a client that leaves before the last event of each stream", async () => {
    await using house = await openMetered({ untold: "max" });
    const { key } = await house.issue();
    house.backend.answer(stream('data: {"text":"all of it"}\n\n'));
    for (let i = 1; i <= 2; i++) {
      const leaving = new AbortController();
      const { body } = await house.ask(key, "/v1/any", { signal: leaving.signal });
      await body?.getReader().read();
      leaving.abort();
      await eventually(() => assert.equal(house.lines.length, i));
    }
    assert.equal(await leftOf(house, key), LIMIT - 2 * MAX);
  });

  it("give the whole budget back after a storm of answers of 500", async () => {
    await using house = await openMetered();
    const { key } = await house.issue();
    house.backend.answer((_seen, response) => void response.writeHead(500).end("oops"));
    for (let round = 0; round < 20; round++) {
      const asked = Array.from({ length: 10 }, () => house.ask(key, "/v1/any"));
      for (const answer of each(await Promise.all(asked))) {
        assert.equal(answer.status, 500);
        await answer.text();
      }
      await eventually(() => assert.equal(house.lines.length, 10 * (round + 1)));
    }
    assert.equal(await leftOf(house, key), LIMIT);
  });

  it("charge no answer more than max, nor less than nothing", async () => {
    await using house = await openMetered();
    const { key } = await house.issue();
    const rows: readonly (readonly [fields: OutgoingHttpHeaders, left: number])[] = [
      [{ "X-Used": "1000000000000" }, LIMIT - MAX],
      [{ "X-Used": "-1000" }, LIMIT - MAX - HOLD],
      [{ "X-Used": ["0", "0"] }, LIMIT - MAX - 2 * HOLD],
      [{ "X-Used": "0" }, LIMIT - MAX - 2 * HOLD],
    ];
    for (const [fields, left] of rows) {
      house.backend.answer((_seen, response) => void response.writeHead(200, fields).end());
      const before = house.lines.length;
      await (await house.ask(key, "/v1/any")).text();
      await eventually(() => assert.equal(house.lines.length, before + 1));
      assert.equal(await leftOf(house, key), left, JSON.stringify(fields));
    }
  });

  it("ban no account that polls what its own requests hold, and let it pass afterwards", async () => {
    await using house = await openMetered({ limit: HOLD });
    const { key } = await house.issue();
    let end: () => void = () => {};
    house.backend.answer((_seen, response) => {
      response.writeHead(200, { "X-Used": "0" });
      response.flushHeaders();
      end = () => void response.end();
    });
    const first = await house.ask(key, "/v1/any");
    for (let i = 0; i < 50; i++) {
      const answer = await house.ask(key, "/v1/any");
      const { code } = (await answer.json()) as { code: string };
      assert.deepEqual(
        [answer.status, code, answer.headers.get("retry-after")],
        [429, "meter_held", "1"],
      );
      await sleep(5);
    }
    end();
    await first.text();
    await eventually(() => assert.equal(house.lines.length, 51));
    assert.equal((await house.ask(key, "/v1/any")).status, 200);
    end();
    const bans = await (await house.admin("/api/bans")).json();
    assert.deepEqual(bans, []);
    assert.ok(house.lines.every(({ strikes = 0 }) => strikes === 0));
  });

  it("keep the hold of a stream that is held open, and settle it when the gateway stops", async () => {
    await using house = await openMetered();
    const { key } = await house.issue();
    let timer: NodeJS.Timeout | undefined;
    house.backend.answer((_seen, response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write('data: {"used":7}\n\n');
      timer = setInterval(() => response.write(": still here\n\n"), 20);
      response.on("close", () => clearInterval(timer));
    });
    const answer = await house.ask(key, "/v1/any");
    const reader = answer.body?.getReader();
    for (let i = 0; i < 5; i++) await reader?.read();
    assert.equal(house.lines.length, 0);
    assert.equal(await leftOf(house, key), LIMIT - HOLD);
    await Promise.all([house.gateway.stop(), reader?.closed.catch(() => undefined)]);
    const entry = house.lines.find(({ status }) => status === 200);
    assert.deepEqual(entry?.meters, { tokens: { hold: HOLD, used: 7 } });
  });
});
