import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { describe, it, vi } from "vitest";
import { LoadGenerator } from "../../../src/cli/prove/load-generator.ts";
import type { SentRequest } from "../../../src/cli/prove/trial/promises.ts";
import { eventually } from "../../support/poll.ts";

const HEEDLESS = { account: "a_heedless", key: "heedless" };
const POLITE = { account: "a_polite", key: "polite" };

type Asked = { readonly atMs: number; readonly path: string };

/** A gateway that answers the polite client with `answer`, and admits everything else. */
async function openLoaded(
  answer: (response: ServerResponse, asked: readonly Asked[]) => void,
  isRetryAfterLess = false,
) {
  const polite: Asked[] = [];
  const taken: SentRequest[] = [];
  const denied: [string, number][] = [];
  const gateway = createServer(({ headers, url: path = "" }, response) => {
    if (headers.authorization !== `Bearer ${POLITE.key}`) return void response.end("{}");
    polite.push({ atMs: Date.now(), path });
    answer(response, polite);
  });
  gateway.keepAliveTimeout = 0;
  await once(gateway.listen(0, "127.0.0.1"), "listening");
  const { port } = gateway.address() as AddressInfo;
  const load = new LoadGenerator({
    checker: {
      take: (sent) => void taken.push(sent),
      deniedAfterWaiting: (account, seconds) => void denied.push([account, seconds]),
    },
    origins: () => [`http://127.0.0.1:${port}`],
    isRetryAfterLess,
  });
  load.start([HEEDLESS], [POLITE]);
  const close = async () => {
    await load.stop();
    gateway.close();
  };
  const of = ({ account }: { account: string }) => taken.filter((sent) => sent.account === account);
  const connections = promisify(gateway.getConnections.bind(gateway));
  return { load, polite, of, denied, connections, [Symbol.asyncDispose]: close };
}

const refuse = (response: ServerResponse, retryAfter = "1") => {
  response.writeHead(429, { "Retry-After": retryAfter, "X-RateLimit-Window": "second" }).end();
};

describe("the load of a proof", () => {
  it("has eight clients at once that heed no refusal, beside the polite ones", async () => {
    let under = 0;
    const held: ServerResponse[] = [];
    const gateway = createServer((_request, response) => {
      under += 1;
      held.push(response);
    });
    await once(gateway.listen(0, "127.0.0.1"), "listening");
    const { port } = gateway.address() as AddressInfo;
    const judge = { take: () => {}, deniedAfterWaiting: () => {} };
    const origins = () => [`http://127.0.0.1:${port}`];
    const load = new LoadGenerator({ checker: judge, origins, isRetryAfterLess: false });
    load.start([HEEDLESS], [POLITE, POLITE]);
    await eventually(() => assert.equal(under, 10));
    const stopped = load.stop();
    for (const response of held) response.end("{}");
    await stopped;
    assert.equal(under, 10, "each has waited for its answer");
    gateway.close();
  });

  it("sends two thirds to the account of three whose turn the second is, and some to each", async () => {
    let opened = 0;
    const gateway = createServer((_request, response) => void response.end("{}"));
    gateway.on("connection", () => {
      opened += 1;
    });
    await once(gateway.listen(0, "127.0.0.1"), "listening");
    const { port } = gateway.address() as AddressInfo;
    const accounts = ["a_0", "a_1", "a_2"];
    const taken: SentRequest[] = [];
    const judge = {
      take: (sent: SentRequest) => void taken.push(sent),
      deniedAfterWaiting: () => {},
    };
    const origins = () => [`http://127.0.0.1:${port}`];
    const load = new LoadGenerator({ checker: judge, origins, isRetryAfterLess: false });
    load.start(
      accounts.map((account) => ({ account, key: account })),
      [],
    );
    await eventually(() => taken.length >= 300).finally(() => load.stop());
    gateway.close();
    const inTurn = taken.filter(({ account, sentMs }) => {
      return account === accounts[Math.floor(sentMs / 1_000) % 3];
    });
    const share = inTurn.length / taken.length;
    assert.ok(share > 0.5 && share < 0.85, `${share}`);
    assert.equal(new Set(taken.map(({ account }) => account)).size, 3);
    assert.ok(opened < 100, `${opened} connections, as requests take those that are free`);
    const special = taken.filter(({ operation }) => operation !== "pets").length / taken.length;
    assert.ok(special > 0.15 && special < 0.45, `${special} of them are of other operations`);
  });

  it("has clients that pause between their requests, each for up to 12 ms", async () => {
    vi.spyOn(Math, "random").mockImplementation(() => 0.9);
    const gateway = createServer((_request, response) => void response.end("{}"));
    await once(gateway.listen(0, "127.0.0.1"), "listening");
    const { port } = gateway.address() as AddressInfo;
    const sent: number[] = [];
    const judge = {
      take: ({ sentMs }: SentRequest) => void sent.push(sentMs),
      deniedAfterWaiting: () => {},
    };
    const origins = () => [`http://127.0.0.1:${port}`];
    const load = new LoadGenerator({ checker: judge, origins, isRetryAfterLess: false });
    load.start([HEEDLESS], []);
    await eventually(() => sent.length >= 80).finally(() => {
      vi.restoreAllMocks();
      return load.stop();
    });
    gateway.close();
    const again = sent.sort((a, b) => a - b).filter((_, i) => i % 8 === 0);
    const roundsMs = again.slice(1).map((ms, i) => ms - (again[i] ?? 0));
    const leastMs = Math.min(...roundsMs);
    assert.ok(leastMs >= 9 && leastMs < 100, `${roundsMs}`);
  });

  it("has a polite client that waits for up to a minute, and leaves where it is told to wait longer", async () => {
    for (const [seconds, waits] of [
      [59, true],
      [60, false],
    ] as const) {
      await using house = await openLoaded((response) => refuse(response, `${seconds}`));
      await eventually(() => assert.ok(house.of(POLITE).length > 0));
      const leaves = house.load.stop().then(() => false);
      if (waits) assert.equal(await Promise.race([leaves, sleep(500, true)]), true);
      else assert.equal(await leaves, false);
      await house.load.stop({ abandoned: true });
    }
  });

  it("goes to all of the gateways", async () => {
    const asked = [0, 0];
    const gateways = asked.map((_, i) =>
      createServer((_request, response) => {
        asked[i] = (asked[i] ?? 0) + 1;
        response.end("{}");
      }),
    );
    for (const one of gateways) await once(one.listen(0, "127.0.0.1"), "listening");
    const ports = gateways.map((one) => (one.address() as AddressInfo).port);
    const judge = { take: () => {}, deniedAfterWaiting: () => {} };
    const origins = () => ports.map((port) => `http://127.0.0.1:${port}`);
    const load = new LoadGenerator({ checker: judge, origins, isRetryAfterLess: false });
    load.start([HEEDLESS], [POLITE]);
    await eventually(() => asked.every((count) => count > 20)).finally(() => load.stop());
    for (const one of gateways) one.close();
  });

  it("has a polite client that asks no sooner than it is told, and tells who is refused then", async () => {
    await using house = await openLoaded((response, asked) => {
      if (asked.length === 1) response.end("{}");
      else if (asked.length < 4) refuse(response);
      else response.end("{}");
    });
    await eventually(() => assert.ok(house.polite.length >= 3));
    const [, refused, again] = house.polite;
    const waitedMs = (again?.atMs ?? 0) - (refused?.atMs ?? 0);
    assert.ok(waitedMs >= 1_000, `${waitedMs} ms`);
    await eventually(() => assert.deepEqual(house.denied, [[POLITE.account, 1]]));
    assert.ok(house.of(HEEDLESS).length > 20, "the others went on");
  });

  it("asks on while it is admitted, and after a wait that was true nobody is told of", async () => {
    await using house = await openLoaded((response, asked) => {
      if (asked.length === 3) refuse(response, "0");
      else response.end("{}");
    });
    await eventually(() => assert.ok(house.polite.length > 5));
    assert.deepEqual(house.denied, []);
    const tookMs = (house.polite[5]?.atMs ?? 0) - (house.polite[0]?.atMs ?? 0);
    // It is admitted at once after its wait, and pauses three times in all; a timer may be a millisecond early.
    assert.ok(tookMs >= 33, `three pauses took ${tookMs} ms`);
    await eventually(() => assert.ok(house.polite.length > 20));
    const pausesMs = house.polite
      .slice(1)
      .map(({ atMs }, i) => atMs - (house.polite[i]?.atMs ?? 0));
    assert.ok(Math.min(...pausesMs.slice(5)) < 40, `pauses of ${pausesMs} ms`);
    const operations = new Set(house.of(POLITE).map(({ operation }) => operation));
    assert.deepEqual([...operations], ["pets"], "a refusal of an operation is none of the plan");
    const heedless = new Set(house.of(HEEDLESS).map(({ operation }) => operation));
    await eventually(() => {
      for (const { operation } of house.of(HEEDLESS)) heedless.add(operation);
      assert.deepEqual([...heedless].sort(), ["dear", "few", "pets"]);
    });
  });

  it("has a polite client that asks no more where it is not told how long to wait", async () => {
    await using house = await openLoaded((response) => void response.writeHead(429).end());
    await eventually(() => assert.equal(house.of(POLITE).length, 1));
    const before = house.of(HEEDLESS).length;
    await eventually(() => assert.ok(house.of(HEEDLESS).length > before + 40));
    assert.deepEqual([house.polite.length, house.denied], [1, []]);
  });

  it("blames nobody where the answer after a wait is neither admitted nor refused by a limit", async () => {
    await using house = await openLoaded((response, asked) => {
      if (asked.length === 1) refuse(response, "0");
      else response.writeHead(503).end();
    });
    await eventually(() => assert.ok(house.polite.length > 3));
    assert.deepEqual(house.denied, []);
  });

  it("has the answer to all that it sent once it has stopped, and leaves no connection", async () => {
    const held: ServerResponse[] = [];
    await using house = await openLoaded((response) => void held.push(response));
    await eventually(() => assert.equal(held.length, 1));
    const stopped = house.load.stop();
    await sleep(5);
    const answeredMs = Date.now();
    held[0]?.end("{}");
    await stopped;
    assert.deepEqual(
      house.of(POLITE).map(({ response, sentMs, endedMs }) => {
        return [response?.status, sentMs < answeredMs, endedMs >= answeredMs];
      }),
      [[200, true, true]],
    );
    await eventually(async () => assert.equal(await house.connections(), 0));
  });

  it("that is abandoned waits for no Retry-After, and blames nobody for it", async () => {
    await using house = await openLoaded((response) => refuse(response, "50"));
    await eventually(() => assert.equal(house.of(POLITE).length, 1));
    const startMs = performance.now();
    await house.load.stop({ abandoned: true });
    // By far less than it was told to wait, on however busy a machine.
    assert.ok(performance.now() - startMs < 25_000);
    assert.deepEqual([house.polite.length, house.denied], [1, []]);
  });

  it("reads the fields of an answer, and with the fault planted a second less of Retry-After", async () => {
    for (const [isRetryAfterLess, retryAfterSeconds] of [
      [false, 70],
      [true, 69],
    ] as const) {
      await using house = await openLoaded((response) => {
        const fields = { "X-RateLimit-Limit": 5, "X-RateLimit-Remaining": 4 };
        response.writeHead(429, {
          ...{ ...fields, "X-RateLimit-Reset": 1_800_000_000, "X-RateLimit-Window": "minute" },
          ...{ "X-RateLimit-Cost": 3, "Retry-After": 70 },
        });
        response.end();
      }, isRetryAfterLess);
      const [sent] = await eventually(() => {
        assert.equal(house.of(POLITE).length, 1);
        return house.of(POLITE);
      });
      assert.deepEqual(sent?.response, {
        ...{ status: 429, window: "minute", limit: 5, remaining: 4, cost: 3 },
        ...{ resetSeconds: 1_800_000_000, retryAfterSeconds },
      });
    }
  });

  it("takes an answer that breaks off for none, and nothing that was never sent", async () => {
    await using house = await openLoaded((response, asked) => {
      if (asked.length > 1) return void response.end("{}");
      response.writeHead(200, { "Content-Length": 100 }).flushHeaders();
      response.destroy();
    });
    await eventually(() => assert.ok(house.of(POLITE).length > 1));
    assert.equal(house.of(POLITE)[0]?.response, undefined);
    const [, next] = house.of(POLITE);
    assert.deepEqual([next?.response?.status, next?.response?.cost], [200, 1]);
    const unsent: SentRequest[] = [];
    let asked = 0;
    const load = new LoadGenerator({
      checker: { take: (sent) => void unsent.push(sent), deniedAfterWaiting: () => {} },
      origins: () => {
        asked += 1;
        return ["http://127.0.0.1:1"];
      },
      isRetryAfterLess: false,
    });
    load.start([HEEDLESS], []);
    await eventually(() => assert.ok(asked > 8));
    await load.stop();
    assert.deepEqual(unsent, []);
  });
});
