import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { afterAll, beforeAll, describe, it } from "vitest";
import { makeKey } from "../../../src/core/keys/key.ts";
import { each } from "../../support/each.ts";
import type { RequestListener } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";
import { openTcpProxy, type TcpProxy } from "../../support/wire/tcp-proxy.ts";

const HOLD = 200;
/** Commands reach Redis at once and in order, and the gateway waits for what it says. */
const ANSWERS_LATE_MS = 10;
const ROUNDS = 3;
/** Their requests end while settlements of each other are on their way. */
const KEYS = Array.from({ length: 4 }, () => makeKey("pets", "live", randomInt));
/** The key of an account that is refused once: its gateway repeats that from memory. */
const REFUSED = makeKey("pets", "live", randomInt);
/** The key of an account that two requests bring to two of its limits. */
const FILLED = makeKey("pets", "live", randomInt);
/** More than a small body, which is sent in one write with its head. */
const LARGE = "x".repeat(100_000);
const STREAM = `${'data: {"more":1}\n\n'.repeat(2_000)}data: {"used":0}\n\n`;

/** Answers that use nothing, by how the client learns that it has the whole of them. */
const ANSWERS: Readonly<Record<string, RequestListener>> = {
  "a small body": (_seen, response) => void response.writeHead(200, { "X-Used": 0 }).end("{}"),
  "no body": (_seen, response) => {
    response.writeHead(200, { "X-Used": 0, "Content-Length": 0 }).end();
  },
  "a large body": (_seen, response) => {
    response.writeHead(200, { "X-Used": 0, "Content-Length": LARGE.length }).end(LARGE);
  },
  "a stream that tells it at its end and comes at once": (_seen, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).end(STREAM);
  },
  chunks: (_seen, response) => {
    response.writeHead(200, { "X-Used": 0 });
    response.write("{}");
    response.end();
  },
};

describe("a request behind the whole answer of a metered one", () => {
  let redis: TestRedis;
  let proxy: TcpProxy;
  const houses: TestGateway[] = [];
  beforeAll(async () => {
    redis = await startRedis();
    proxy = await openTcpProxy(redis);
    for (const _ of ["one gateway", "another"]) houses.push(await openMetered(proxy));
    proxy.behave({ answerLatencyMs: ANSWERS_LATE_MS });
  });
  afterAll(async () => {
    for (const house of houses) await house[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
    await redis.close();
  });
  const ask = async (house: TestGateway, key: string) => {
    const response = await sendRequest(house.port, { key, method: "POST", path: "/v1/chat" });
    return [response.status, rateLimitFieldsOf(response).remaining];
  };

  // First of all, while this Redis has no script.
  it("finds room for its hold, also behind the first settlement that its Redis gets", async () => {
    const [house] = houses as [TestGateway];
    house.backend.answer(ANSWERS["a small body"] as RequestListener);
    assert.deepEqual(await ask(house, KEYS[0] as string), [200, 0]);
    assert.deepEqual(await ask(house, KEYS[0] as string), [200, 0]);
  });

  it("finds room for its hold, though another one was refused while it was under way", async () => {
    const [house] = houses as [TestGateway];
    const key = REFUSED;
    const [arrived, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    house.backend.answer(async (_seen, response) => {
      arrived.resolve();
      await release.promise;
      response.writeHead(200, { "X-Used": 0 }).end("{}");
    });
    const first = ask(house, key);
    await arrived.promise;
    // From then on the refusal is known, and repeated from memory.
    assert.deepEqual(await ask(house, key), [429, 0]);
    release.resolve();
    assert.deepEqual(await first, [200, 0]);
    assert.deepEqual(await ask(house, key), [200, 0]);
  });

  it("is refused by the meter that the answer filled, though a window of the plan that ends sooner is full as well", async () => {
    const [house] = houses as [TestGateway];
    house.backend.answer((_seen, response) => void response.writeHead(200, { "X-Used": 50 }).end());
    const requests = { key: FILLED, method: "POST", path: "/v1/more" };
    const told: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      const response = await sendRequest(house.port, requests);
      told.push([response.status, onlyValue(response, "X-RateLimit-Window")]);
    }
    const refused = [429, "tokens.year"];
    assert.deepEqual(told, [[200, "month"], [200, "month"], refused, refused]);
  });

  for (const [what, answer] of each(Object.entries(ANSWERS))) {
    it(`finds room for its hold at the same gateway at once, and soon at another one, after ${what}`, async () => {
      const told: unknown[] = [];
      for (const { backend } of houses) backend.answer(answer);
      await Promise.all(
        KEYS.map(async (key) => {
          for (let i = 0; i < ROUNDS; i++) {
            for (const house of houses) {
              // Two gateways have no order among their commands.
              const first = await eventually(async () => {
                const answer = await ask(house, key);
                assert.equal(answer[0], 200);
                return answer;
              });
              told.push(first, await ask(house, key));
            }
          }
        }),
      );
      assert.deepEqual(
        told,
        Array.from({ length: KEYS.length * 2 * houses.length * ROUNDS }, () => [200, 0]),
      );
    });
  }
});

/** A gateway whose meter has room for one hold. */
function openMetered({ host, port }: TcpProxy): Promise<TestGateway> {
  const tokens = { hold: HOLD, max: HOLD, used: ["header x-used", "sse /used"] };
  return startTestGateway({
    keys: {
      ...Object.fromEntries([...KEYS, REFUSED].map((key, i) => [key, { account: `account-${i}` }])),
      [FILLED]: { account: "filled", plan: "tight" },
    },
    environment: {
      api: null,
      costs: [
        { match: "POST /v1/chat", meters: { tokens } },
        { match: "POST /v1/more", meters: { tokens: { ...tokens, hold: 20, max: 50 } } },
      ],
    },
    config: {
      store: `redis://${host}:${port}`,
      plans: {
        free: { year: 100_000, meters: { tokens: { year: HOLD } } },
        tight: { month: 2, meters: { tokens: { year: 100 } } },
      },
    },
  });
}
