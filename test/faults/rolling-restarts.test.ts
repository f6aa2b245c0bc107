import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { openClient } from "../support/wire/client.ts";

const LIMIT = 10_000_000;
const KEYS = {
  [KEY]: {
    limits: [
      { window: "minute", limit: LIMIT },
      { window: "day", limit: LIMIT },
    ],
  },
} as const;
const CLIENTS = 8;
const DOWN_MS = 500;

/** A backend that can be killed and started again on its port. `killed`: requests under way then. */
class Restarting {
  readonly seen: string[];
  port = 0;
  killed = 0;
  #underWay = 0;
  #server: Server | undefined;

  constructor(seen: string[]) {
    this.seen = seen;
  }

  async start(): Promise<void> {
    const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
      this.#underWay += 1;
      response.once("close", () => {
        this.#underWay -= 1;
      });
      if (request.headers["user-agent"] !== "tollgate-health") this.seen.push(request.url ?? "");
      request.resume();
      request.once("end", () => response.writeHead(200, { "Content-Length": 2 }).end("[]"));
    });
    // Not one of the system's, which it would give to another test while nothing listens on it.
    if (this.port === 0) this.port = await freePort();
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen(this.port, "127.0.0.1", resolve);
    });
    this.#server = server;
  }

  async kill(): Promise<void> {
    this.killed += this.#underWay;
    const closed = new Promise<void>((resolve) => this.#server?.close(() => resolve()));
    this.#server?.closeAllConnections();
    await closed;
  }
}

async function startAll(count: number, more: Readonly<Record<string, unknown>>) {
  const seen: string[] = [];
  const backends = Array.from({ length: count }, () => new Restarting(seen));
  for (const backend of backends) await backend.start();
  const origins = backends.map(({ port }) => `http://127.0.0.1:${port}`);
  const close = async () => {
    for (const backend of backends) await backend.kill();
  };
  const house = await startTestGateway({
    upstream: { origin: origins[0] as string, seen, close },
    environment: { upstreams: origins, ...more },
    keys: KEYS,
  });
  return { house, backends };
}

/** Asks without a pause, GETs and POSTs, until stopped; gives all statuses. */
function load(house: TestGateway) {
  const state = { stopped: false, statuses: [] as number[] };
  const work = async (_: unknown, client: number) => {
    const method = client % 2 === 0 ? "GET" : "POST";
    const body = method === "POST" ? { body: "{}" } : {};
    await using line = await openClient(house.port);
    while (!state.stopped) {
      const { status } = await line.ask({ key: KEY, method, ...body });
      state.statuses.push(status);
    }
  };
  const ended = Promise.all(Array.from({ length: CLIENTS }, work));
  return {
    statuses: state.statuses,
    stop: async () => {
      state.stopped = true;
      await ended;
    },
  };
}

describe("a rolling restart", () => {
  for (const [count, name, more] of [
    [2, "two upstreams", {}],
    [2, "two upstreams with a health check", { healthCheck: { path: "/", every: "100ms" } }],
    [3, "three upstreams", {}],
  ] as const) {
    it(`of ${name} under load loses what was under way and nothing else`, async (t) => {
      const { house, backends } = await startAll(count, more);
      await using _house = house;
      const asking = load(house);
      await eventually(() => asking.statuses.length > 100);
      for (const backend of backends) {
        const others = backends.length * 50;
        await backend.kill();
        // The time that a restart takes: the next one goes down at once when this one is back.
        await sleep(DOWN_MS);
        await backend.start();
        const before = asking.statuses.length;
        await eventually(() => asking.statuses.length > before + others);
      }
      await asking.stop();
      const lost = asking.statuses.filter((status) => status !== 200).length;
      // A connection that dies just as a POST goes out on it takes the POST along.
      const bound = backends.reduce((sum, { killed }) => sum + killed, 0) + CLIENTS * count;
      t.annotate(`${lost} of ${asking.statuses.length} lost, at most ${bound} under way`);
      assert.ok(lost <= bound, `${lost} lost of ${asking.statuses.length}, ${bound} under way`);
      await house.law({ connectionsFailed: true });
    });
  }
});

describe("an upstream that is out", () => {
  it("is tried before a 502, where no other is left", async () => {
    const { house, backends } = await startAll(2, {});
    await using _house = house;
    const [first, second] = backends as [Restarting, Restarting];
    await first.kill();
    await using client = await openClient(house.port);
    const isDown = async () => (await (await house.admin("/readyz")).text()).includes("down: ");
    for (let i = 0; i < 12; i++) assert.equal((await client.ask({ key: KEY })).status, 200);
    await eventually(async () => assert.ok(await isDown()));
    await first.start();
    await second.kill();
    const post = { key: KEY, method: "POST", body: "{}" };
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await client.ask(post)).status);
    // The connection to the second one may have died under the first request.
    assert.deepEqual(statuses.slice(1), [200, 200, 200, 200]);
    await house.law({ connectionsFailed: true });
  });
});
