import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { type Gateway, makeKeys, metricOf, startGateway } from "../../../bench/scale/house.ts";
import { bucketOf } from "../../../src/stores/quotas/account-ref.ts";
import { bucketSlot } from "../../../src/stores/redis/hash-slots.ts";
import { each } from "../../support/each.ts";
import { eventually } from "../../support/poll.ts";
import { startCluster, type TestCluster } from "../../support/redis/redis-engines.ts";

const SCARCE = 24;
const LIMIT = 12;
const ASKED = 20;
const SCARCE_TERMS = { month: LIMIT };
const AT_ONCE = 16;
/** A machine that stalls for a second leaves requests undecided: others are counted then. */
const ROUNDS = 3;
const IDLE = 300;
const TUNNELS = 30;

const keys = makeKeys([
  ...Array.from({ length: ROUNDS }, (_, i) => ({ plan: `scarce${i}`, count: SCARCE })),
  { plan: "big", count: 5 },
]);
const closing = new AsyncDisposableStack();
const gateways: Gateway[] = [];
let cluster: TestCluster;
let seen = 0;

/** Counts what comes, and echoes what comes over a WebSocket. */
async function openCounting(): Promise<string> {
  const server = createServer((incoming, response) => {
    seen += 1;
    incoming.resume();
    response.end("seen");
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => socket.on("message", (data) => socket.send(data)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.defer(() => {
    for (const socket of sockets.clients) socket.terminate();
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Two gateways with two workers each, on a Cluster of three. */
beforeAll(async () => {
  cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
  closing.defer(() => cluster.close());
  const upstream = await openCounting();
  const config = {
    ...{ store: cluster.address.url, storeTimeout: "1s", onStoreFailure: "deny", workers: 2 },
    bans: { strikes: 100 },
    plans: {
      ...Object.fromEntries(Array.from({ length: ROUNDS }, (_, i) => [`scarce${i}`, SCARCE_TERMS])),
      big: { month: 10 ** 9 },
    },
  };
  for (let i = 0; i < 2; i++) {
    gateways.push(closing.use(await startGateway({ upstream, keysText: keys.text, config })));
  }
}, 120_000);
afterAll(() => closing.disposeAsync(), 60_000);

function ask(gateway: Gateway, key: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${key}` };
    request(`${gateway.url}/v1/pets`, { agent, headers }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? 0));
    })
      .once("error", reject)
      .end();
  });
}

describe("two gateways of two workers each on a Cluster of three", () => {
  /** The answers to requests of all accounts of a plan, half of them at either gateway. */
  async function exhaust(plan: string): Promise<readonly number[]> {
    const agents = gateways.map(() => new Agent({ keepAlive: true, maxSockets: AT_ONCE }));
    const asks = keys.of(plan).flatMap((key) => {
      return Array.from({ length: ASKED }, (_, i) => ({ key, at: i % gateways.length }));
    });
    const statuses = await Promise.all(
      asks.map(({ key, at }) => ask(gateways[at] as Gateway, key, agents[at] as Agent)),
    );
    for (const agent of agents) agent.destroy();
    return statuses;
  }

  it("admit exactly each limit, and forward exactly what they admit", async () => {
    let round = 0;
    let statuses: readonly number[];
    const counted = (status: number) => statuses.filter((one) => one === status).length;
    do {
      const seenBefore = seen;
      statuses = await exhaust(`scarce${round}`);
      assert.equal(seen - seenBefore, counted(200), "the backend saw what was admitted");
    } while (counted(503) > 0 && ++round < ROUNDS);
    assert.deepEqual([counted(200), counted(429)], [SCARCE * LIMIT, SCARCE * (ASKED - LIMIT)]);
    for (const gateway of gateways) {
      const answer = await fetch(`${gateway.adminUrl}/api/usage?plan=scarce${round}&limit=100`);
      const usage = (await answer.json()) as { windows: { used: number }[] }[];
      const used = usage.map(({ windows }) => windows[0]?.used);
      assert.deepEqual(used, Array(SCARCE).fill(LIMIT), "the store counted what was charged");
    }
  });

  it(`serve ${IDLE} connections that were idle, and ${TUNNELS} tunnels that echo what is sent`, async (t) => {
    const [gateway] = gateways as [Gateway];
    const [key = ""] = keys.of("big");
    const agent = new Agent({ keepAlive: true, maxSockets: IDLE });
    t.onTestFinished(() => agent.destroy());
    const askAll = () => Promise.all(Array.from({ length: IDLE }, () => ask(gateway, key, agent)));
    assert.deepEqual(new Set(await askAll()), new Set([200]));
    const sockets = Array.from({ length: TUNNELS }, () => {
      const url = `${gateway.url.replace("http", "ws")}/v1/pets`;
      return new WebSocket(url, { headers: { Authorization: `Bearer ${key}` } });
    });
    t.onTestFinished(() => {
      for (const socket of sockets) socket.terminate();
    });
    await Promise.all(sockets.map((socket) => once(socket, "open")));
    await eventually(async () => {
      assert.equal(await metricOf(gateway, "tollgate_tunnels_open"), TUNNELS);
    });
    const echoes = sockets.map(async (socket, i) => {
      const echoed = once(socket, "message");
      socket.send(`tunnel ${i}`);
      return String((await echoed)[0]);
    });
    assert.deepEqual(
      await Promise.all(echoes),
      sockets.map((_, i) => `tunnel ${i}`),
    );
    const seenBefore = seen;
    assert.deepEqual(new Set(await askAll()), new Set([200]));
    assert.equal(seen - seenBefore, IDLE);
  });

  it("admit at once in each worker of the gateway that lifted a ban while the node of bucket 0 is away", async (t) => {
    const [gateway] = gateways as [Gateway];
    const node = (bucket: number) => cluster.ownerOf(bucketSlot(bucket));
    const nth = each(keys.of("big")).findIndex((_, i) => {
      return node(bucketOf({ environment: "production", account: `big-${i}` })) !== node(0);
    });
    const [id, key = ""] = [`big-${nth}`, keys.of("big")[nth]];
    const askEach = async () => {
      const fresh = Array.from({ length: 20 }, () => ask(gateway, key, new Agent()));
      return [...new Set(await Promise.all(fresh))];
    };
    const change = async (method: string, path: string, body?: object) => {
      const headers = { "Content-Type": "application/json" };
      const sent = body && { body: JSON.stringify(body) };
      const url = `${gateway.adminUrl}/api/bans${path}`;
      return (await fetch(url, { method, headers, ...sent })).status;
    };
    assert.equal(await change("POST", "", { id, for: "1h" }), 201);
    await eventually(async () => assert.deepEqual(await askEach(), [429]));
    // The first answer of each worker is of the store, and further ones are from its memory.
    assert.deepEqual(await askEach(), [429]);
    cluster.nodes[node(0)]?.stop();
    t.onTestFinished(() => cluster.nodes[node(0)]?.cont());
    assert.equal(await change("DELETE", `/${id}`), 200);
    await eventually(async () => assert.deepEqual(await askEach(), [200]), { withinMs: 5_000 });
  });
});
