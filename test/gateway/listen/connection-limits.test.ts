import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { samplesOf } from "../../admin/scrape.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { type Client, openClient, sendRequest } from "../../support/wire/client.ts";

const OPTIONS = { method: "OPTIONS", path: "*" } as const;

async function openAll(port: number, count: number): Promise<Client[]> {
  const clients: Client[] = [];
  for (let i = 0; i < count; i++) clients.push(await openClient(port));
  return clients;
}

function closeAll(clients: readonly Client[]): void {
  for (const { socket } of clients) socket.destroy();
}

async function refusedByMetrics(house: TestGateway): Promise<Record<string, number>> {
  const samples = samplesOf(await (await house.admin("/metrics")).text());
  return Object.fromEntries(
    samples.flatMap(([name, value]) => {
      const [, why] = /^tollgate_connections_refused_total\{why="(\w+)"\}$/.exec(name) ?? [];
      return why === undefined ? [] : [[why, value]];
    }),
  );
}

function told(house: TestGateway): readonly Record<string, unknown>[] {
  return house.said.filter(({ msg }) => msg === "connections_refused");
}

describe("limits.connections", () => {
  it("lets customers in although one client holds all places with free requests", async () => {
    await using house = await startTestGateway({ environment: { limits: { connections: 20 } } });
    const { key } = await house.issue();
    const hogs = await openAll(house.port, 20);
    for (let round = 0; round < 3; round++) {
      for (const hog of hogs) assert.equal((await hog.ask(OPTIONS)).status, 204);
    }
    for (let i = 0; i < 10; i++) {
      const answer = await sendRequest(house.port, { key });
      assert.equal(answer.status, 200, `customer ${i}`);
    }
    // Each customer was served by now, but the news of a closed connection may be unread.
    await Promise.race(each(hogs).map(({ ended }) => ended));
    await eventually(() => assert.equal(told(house).length, 1));
    assert.ok(Number(told(house)[0]?.closedIdle) >= 1);
    assert.equal(told(house)[0]?.listen, `127.0.0.1:${house.port}`, "the port that it was given");
    closeAll(hogs);
    await house.law();
  });

  it("takes free requests and refusals for no merit: who was admitted last stays longest", async () => {
    await using house = await startTestGateway({ environment: { limits: { connections: 3 } } });
    const { key } = await house.issue();
    const [customer, free, refused] = (await openAll(house.port, 3)) as [Client, Client, Client];
    assert.equal((await customer.ask({ key })).status, 200);
    for (let i = 0; i < 3; i++) {
      assert.equal((await free.ask(OPTIONS)).status, 204);
      assert.equal((await refused.ask()).status, 401);
    }
    const more = await openAll(house.port, 2);
    await Promise.all([free.ended, refused.ended]);
    assert.equal((await customer.ask({ key })).status, 200);
    closeAll([customer, ...more]);
    await house.law();
  });

  it("turns away who comes when all are in use, counts it, and tells it once", async () => {
    let release: (() => void)[] = [];
    const backend = await startTestUpstream(async (_seen, response) => {
      await new Promise<void>((resolve) => release.push(resolve));
      response.end("ok");
    });
    const limits = { connections: 2 };
    await using house = await startTestGateway({ backend, environment: { limits } });
    const { key } = await house.issue();
    const busy = await openAll(house.port, 2);
    const answers = busy.map((client) => client.ask({ key }));
    await eventually(() => release.length === 2);
    const late = await openAll(house.port, 5);
    for (const client of late) {
      await client.ended;
      assert.equal(client.waiting().length, 0);
    }
    assert.deepEqual(await refusedByMetrics(house), { connections: 5, address: 0, memory: 0 });
    await eventually(() => assert.equal(told(house).length, 1));
    const limited = house.said.some(({ msg }) => msg === "connections_limited");
    assert.equal(limited, false, "the open files suffice");
    for (const one of release) one();
    release = [];
    for (const answer of each(await Promise.all(answers))) assert.equal(answer.status, 200);
    await using later = await openClient(house.port);
    const last = later.ask({ key });
    await eventually(() => release.length === 1);
    release[0]?.();
    assert.equal((await last).status, 200, "one that is idle makes room");
    closeAll([...busy, ...late]);
    await house.law();
  });
});

describe("limits.connectionsPerAddress", () => {
  it("turns away the next of an address, whatever it did with those that it has", async () => {
    const limits = { connectionsPerAddress: 2 };
    await using house = await startTestGateway({ environment: { limits } });
    const { key } = await house.issue();
    const two = await openAll(house.port, 2);
    await using third = await openClient(house.port);
    await third.ended;
    assert.equal(third.waiting().length, 0);
    for (const client of two) assert.equal((await client.ask({ key })).status, 200);
    assert.deepEqual(await refusedByMetrics(house), { connections: 0, address: 1, memory: 0 });
    const line = await eventually(() => told(house)[0] ?? assert.fail("not told yet"));
    assert.deepEqual(
      [line.level, line.refused, line.closedIdle, line.address],
      ["warn", { address: 1 }, 0, "127.0.0.1"],
    );
    closeAll(two);
    await eventually(async () => {
      assert.equal((await sendRequest(house.port, { key })).status, 200);
    });
    await house.law();
  });

  it("holds also if another environment of the listener sets none, or a larger one", async () => {
    const listen = `127.0.0.1:${await freePort()}`;
    const of = (keyTag: string, connectionsPerAddress: number) => {
      const limits = { connectionsPerAddress };
      return {
        listen,
        upstreams: ["http://127.0.0.1:9"],
        hosts: [`${keyTag}.test`],
        keyTag,
        limits,
      };
    };
    const environments = {
      production: of("none", 0),
      two: of("two", 2),
      three: of("three", 3),
    };
    await using house = await startTestGateway({ config: { environments } });
    const two = await openAll(house.port, 2);
    await using third = await openClient(house.port);
    await third.ended;
    assert.equal(third.waiting().length, 0);
    for (const client of two) {
      assert.equal((await client.ask({ host: "none.test" })).status, 401);
    }
    assert.deepEqual(await refusedByMetrics(house), { connections: 0, address: 1, memory: 0 });
    closeAll(two);
  });

  it("does not hold for a trusted proxy, which many clients share", async () => {
    await using house = await startTestGateway({
      config: { trustedProxies: ["127.0.0.0/8"] },
      environment: { limits: { connectionsPerAddress: 1 } },
    });
    const { key } = await house.issue();
    const clients = await openAll(house.port, 5);
    for (const client of clients) assert.equal((await client.ask({ key })).status, 200);
    closeAll(clients);
    await house.law();
  });
});
