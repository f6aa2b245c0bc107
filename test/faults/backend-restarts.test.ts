import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "vitest";
import { each } from "../support/each.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway, type TestGateway, type Upstream } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { errorOf, openClient, sendRequest } from "../support/wire/client.ts";

/** 100,000 on demand: TOLLGATE_GETS=100000. */
const GETS = Number(process.env.TOLLGATE_GETS ?? 5_000);
const LIMIT = 10_000_000;
const KEYS = {
  [KEY]: {
    limits: [
      { window: "minute", limit: LIMIT },
      { window: "day", limit: LIMIT },
    ],
  },
} as const;

type Plain = Upstream & {
  readonly seen: string[];
  readonly server: Server;
  readonly idle: Set<Socket>;
};

/** Says nothing of how long it keeps connections, so the gateway cannot know; counts requests. */
async function openPlain(port = 0, seen: string[] = []): Promise<Plain> {
  const idle = new Set<Socket>();
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const { socket } = request;
    idle.delete(socket);
    seen.push(request.url ?? "");
    response.writeHead(200, { "Content-Length": 2 }).end("[]", () => idle.add(socket));
  });
  server.on("connection", (socket) => socket.once("close", () => idle.delete(socket)));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    return closed;
  };
  return { origin, seen, server, idle, close };
}

function every(ms: number, work: () => void): Disposable {
  const timer = setInterval(work, ms);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** So many GETs over `clients` connections; gives the statuses that were not 200. */
async function getMany(house: TestGateway, count: number, clients = 16): Promise<number[]> {
  let left = count;
  const others: number[] = [];
  const work = async () => {
    await using client = await openClient(house.port);
    while (left > 0) {
      left -= 1;
      const { status } = await client.ask({ key: KEY, path: `/v1/pets?n=${left}` });
      if (status !== 200) others.push(status);
    }
  };
  await Promise.all(Array.from({ length: clients }, work));
  return others;
}

describe("2.2 Reset on a reused socket: a backend that closes idle connections", () => {
  it(`fails none of ${GETS} GETs when it closes all of them every second, or every 20 ms`, async () => {
    for (const everyMs of [1_000, 20]) {
      const backend = await openPlain();
      await using house = await startTestGateway({ upstream: backend, keys: KEYS });
      using _ = every(everyMs, () => {
        for (const socket of backend.idle) socket.destroy();
      });
      assert.deepEqual(await getMany(house, GETS / 2), []);
      await house.law({ connectionsFailed: true });
    }
  });

  it(`fails none of ${GETS / 2} GETs when it closes them at random, right after an answer or later`, async () => {
    const backend = await openPlain();
    await using house = await startTestGateway({ upstream: backend, keys: KEYS });
    let turn = 0;
    using _ = every(1, () => {
      for (const socket of backend.idle) {
        turn = (turn * 1_103_515_245 + 12_345) % 2 ** 31;
        if (turn % 7 === 0) socket.resetAndDestroy();
      }
    });
    assert.deepEqual(await getMany(house, GETS / 2), []);
    await house.law({ connectionsFailed: true });
    const asked = house.lines.filter(({ method }) => method === "GET");
    assert.equal(asked.length, GETS / 2);
    for (const { status, forwards } of each(asked)) {
      assert.ok(status === 200 && Number(forwards) <= 2, `${status} after ${forwards}`);
    }
  });

  it("is not taken out of service, though more connections die at once than failures take one out", async () => {
    const clients = 32;
    const answered = new WeakSet<Socket>();
    const held: (() => void)[] = [];
    const dying: Socket[] = [];
    const deaths = new Map<number | undefined, number>();
    let dies = false;
    const open = () =>
      startTestUpstream((_seen, response, { socket }) => {
        if (dies && answered.has(socket)) {
          deaths.set(socket.localPort, (deaths.get(socket.localPort) ?? 0) + 1);
          dying.push(socket);
          // A request that is sent again would take the connection of one that is still to come.
          if (dying.length === clients) for (const each of dying.splice(0)) each.destroy();
          return;
        }
        answered.add(socket);
        held.push(() => response.writeHead(200, { "Content-Length": 2 }).end("[]"));
      });
    await using first = await open();
    await using second = await open();
    const environment = { upstreams: [first.origin, second.origin] };
    await using house = await startTestGateway({ backend: first, environment, keys: KEYS });
    const round = () => {
      return Promise.all(
        Array.from({ length: clients }, () => sendRequest(house.port, { key: KEY })),
      );
    };
    const answerAll = async () => {
      await eventually(() => assert.equal(held.length, clients));
      for (const answer of held.splice(0)) answer();
    };
    await Promise.all([round(), answerAll()]);
    dies = true;
    const asked = round();
    await eventually(() => assert.equal(held.length, clients));
    assert.deepEqual([...deaths.values()], [clients / 2, clients / 2]);
    // An answer would clear the failures of its upstream, so they are asked for before any comes.
    const metrics = await (await house.admin("/metrics")).text();
    assert.equal(metrics.match(/^tollgate_upstream_up\{[^}]*\} 1$/gm)?.length, 2);
    await answerAll();
    const statuses = (await asked).map(({ status }) => status);
    assert.deepEqual(new Set(statuses), new Set([200]));
  });

  it("fails a POST that met a dead connection, and never sends it twice", async () => {
    const sockets: Socket[] = [];
    await using backend = await startTestUpstream((_seen, response, request) => {
      sockets.push(request.socket);
      response.writeHead(200, { "Content-Length": 2 }).end("[]");
    });
    await using house = await startTestGateway({ backend, keys: KEYS });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    backend.answer((_seen, _response, request) => void request.socket.destroy());
    const posted = await sendRequest(house.port, { key: KEY, method: "POST", body: "{}" });
    assert.equal(posted.status, 502);
    assert.equal(backend.seen.length, 2);
    await house.law({ connectionsFailed: true });
  });

  it("does not retry a GET that a new connection lost: it did not die of old age", async () => {
    await using backend = await startTestUpstream((_seen, _response, request) => {
      request.socket.destroy();
    });
    await using house = await startTestGateway({ backend, keys: KEYS });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 502);
    assert.equal(backend.seen.length, 1);
    await eventually(() => assert.equal(house.lines[0]?.forwards, 1));
  });
});

describe("2.2 Refused: a backend that is away", () => {
  const gone = "http://127.0.0.1:1";

  it("costs no request where there is another one, not even a POST: it has seen nothing", async () => {
    const backend = await startTestUpstream();
    await using house = await startTestGateway({
      backend,
      environment: { upstreams: [gone, backend.origin] },
      keys: KEYS,
    });
    for (let i = 0; i < 12; i++) {
      const wanted = { key: KEY, method: "POST", body: '{"name":"Rex"}' };
      assert.equal((await sendRequest(house.port, wanted)).status, 200);
    }
    assert.deepEqual(
      backend.seen.map(({ body }) => body.toString()),
      Array(12).fill('{"name":"Rex"}'),
    );
    await house.law();
    const ready = await house.admin("/readyz");
    assert.equal(ready.status, 200, "one is left");
    assert.match(await ready.text(), /down: production http:\/\/127\.0\.0\.1:1"/);
    const metrics = await (await house.admin("/metrics")).text();
    assert.match(metrics, /upstream_up\{env="production",upstream="http:\/\/127\.0\.0\.1:1"\} 0/);
    assert.match(metrics, new RegExp(`upstream_up\\{[^}]*"${backend.origin}"\\} 1`));
  });

  it("is 502 in less than 50 ms when none is left, every one of them tried, and charged", async (t) => {
    await using house = await startTestGateway({
      environment: { upstreams: [gone, "http://127.0.0.1:2"] },
      keys: KEYS,
    });
    const tookMs: number[] = [];
    for (let i = 0; i < 12; i++) {
      const startMs = performance.now();
      const asked = () => sendRequest(house.port, { key: KEY });
      const { value: response, stalledMs } = await watchStalls(asked);
      tookMs.push(performance.now() - startMs - stalledMs);
      assert.equal(response.status, 502);
      assert.equal(errorOf(response).code, "upstream_unreachable");
    }
    assert.equal((await house.admin("/readyz")).status, 503);
    await eventually(() => assert.equal(house.lines.length, 12));
    assert.ok(house.lines.every(({ charged, forwards }) => charged === 1 && forwards === 0));
    const median = tookMs.sort((a, b) => a - b)[6] ?? Number.NaN;
    t.annotate(`502 after ${median.toFixed(1)} ms, ${tookMs.at(-1)?.toFixed(1)} at worst`);
    assert.ok(median < 50, `${tookMs} ms`);
    await house.law();
  });
});

describe("a backend that restarts gracefully", () => {
  it("loses no GET under load while another one serves", async () => {
    const seen: string[] = [];
    // Not one of the system's, which it would give to another test while nothing listens on it.
    const port = await freePort();
    let one = await openPlain(port, seen);
    const two = await openPlain(0, seen);
    await using house = await startTestGateway({
      upstream: { origin: one.origin, seen, close: async () => {} },
      environment: { upstreams: [one.origin, two.origin] },
      keys: KEYS,
    });
    let stop = false;
    const failed: number[] = [];
    const load = (async () => {
      while (!stop) failed.push(...(await getMany(house, 200)));
    })();
    for (let round = 0; round < 3; round++) {
      const closed = new Promise<void>((resolve) => one.server.close(() => resolve()));
      using _ = every(5, () => {
        for (const socket of one.idle) socket.destroy();
      });
      await closed;
      const before = seen.length;
      await eventually(() => seen.length > before + 200);
      one = await openPlain(port, seen);
    }
    stop = true;
    await load;
    assert.deepEqual(failed, []);
    await house.law({ connectionsFailed: true });
    await one.close();
    await two.close();
  });
});
