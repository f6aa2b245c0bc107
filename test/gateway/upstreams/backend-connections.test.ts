import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { upstreamFiles } from "../../../src/base/open-files.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient } from "../../support/wire/client.ts";

type Held = { readonly path: string; readonly request: IncomingMessage; answer(): void };

type Narrow = {
  readonly house: TestGateway;
  readonly held: Held[];
  paths(): string[];
  readonly backend: string;
  /** Reloads with these limits, and returns whether they are in force. */
  change(limits: Readonly<Record<string, unknown>>, listen?: string): Promise<boolean>;
};

/** A backend that answers when it is told to, and a gateway with few connections to it. */
async function openNarrow(upstreamConnections = 1): Promise<Narrow> {
  const held: Held[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? "";
    held.push({ path, request, answer: () => response.end(path) });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const upstream = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: held,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const environment = { api: null, limits: { upstreamConnections } };
  const house = await startTestGateway({ upstream, environment });
  const change: Narrow["change"] = async (limits, listen = "127.0.0.1:0") => {
    const upstreams = [upstream.origin];
    const production = { listen, basePath: "/v1", keyTag: "live", upstreams, limits };
    await house.rewrite({ environments: { production } });
    return (await house.gateway.reload()).ok;
  };
  const backend = new URL(upstream.origin).host;
  return { house, held, paths: () => held.map(({ path }) => path), backend, change };
}

describe("a request for which there is no connection left", () => {
  it("says nothing of a backend whose connection it gets when its own time is over", async () => {
    const early: ServerResponse[] = [];
    await using backend = await startTestUpstream((seen, response) => {
      if (seen.target.startsWith("/v1/early")) early.push(response);
    });
    const limits = { upstreamConnections: 1, responseTimeout: "400ms" };
    const path = { path: "/v1/early", upstreams: [backend.origin] };
    const backends = [{ ...path, limits: { upstreamConnections: 64, responseTimeout: "60s" } }];
    const environment = { api: null, limits, backends };
    await using house = await startTestGateway({ upstream: backend, environment });
    const { key, account } = await house.issue();
    // The requests that wait take the places of these in the list of the sweep, in turn, so that each
    // of them comes behind the one whose end gives it the connection.
    const before: Promise<Response>[] = [];
    while (before.length < 6) {
      before.push(house.ask(key, "/v1/early"));
      await eventually(() => assert.equal(early.length, before.length));
    }
    const slow = { key, path: "/v1/slow" };
    await using holder = await openClient(house.port);
    const held = holder.ask(slow);
    await eventually(() => assert.equal(backend.seen.length, 7));
    const clients = await Promise.all(Array.from({ length: 6 }, () => openClient(house.port)));
    // At once over open connections: on a busy machine the last would come a sweep after the first.
    const waiting = clients.map((client) => client.ask(slow));
    await eventually(async () => assert.equal(await used(house, account), 13));
    for (const [i, response] of early.entries()) {
      response.end();
      await before[i];
    }
    const answers = await Promise.all([held, ...waiting]);
    for (const client of clients) client.socket.destroy();
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [504]);
    const texts = answers.map(({ body }) => body.toString());
    const unsent = texts.filter((text) => text.includes("the request was not sent"));
    // A sweep between the first two ends leaves one the time to send its own.
    assert.ok(unsent.length >= 5, texts.join());
    assert.equal((await house.admin("/readyz/production")).status, 200, "few of them failed");
  });

  it("waits for one, in its turn", async () => {
    const { house, held, paths } = await openNarrow();
    await using _house = house;
    const { key } = await house.issue();
    const answers = ["a", "b", "c"].map((path) => house.ask(key, `/v1/${path}`));
    for (const path of ["/v1/a", "/v1/b", "/v1/c"]) {
      const one = await heldAs(held, path);
      assert.equal(paths().at(-1), path, "none overtakes");
      one.answer();
    }
    assert.deepEqual(await Promise.all(answers.map(async (each) => (await each).text())), [
      ...["/v1/a", "/v1/b", "/v1/c"],
    ]);
    await house.law();
  });

  it("gets an idle one where the process may open no other", async () => {
    await using backend = await startTestUpstream(async (seen, response) => {
      if (seen.target === "/v1/once") {
        response.setHeader("Connection", "close");
        await sleep(50);
      }
      response.end();
    });
    await using house = await startTestGateway({ upstream: backend, environment: { api: null } });
    const { key } = await house.issue();
    const ask = async (path: string) => assert.equal((await house.ask(key, path)).status, 200);
    await Promise.all([ask("/v1/kept"), ask("/v1/once")]);
    await eventually(() => assert.equal(upstreamFiles.open, 1));
    const { part, common } = upstreamFiles;
    Object.assign(upstreamFiles, { part: 0, common: 0 });
    try {
      await ask("/v1/more");
    } finally {
      Object.assign(upstreamFiles, { part, common });
    }
    assert.equal(upstreamFiles.open, 1);
    await house.law();
  });

  it("is not sent when its client left meanwhile", async () => {
    const { house, held, paths } = await openNarrow();
    await using _house = house;
    const { key, account } = await house.issue();
    const first = house.ask(key, "/v1/first");
    const before = await heldAs(held, "/v1/first");
    const leaving = await openClient(house.port);
    leaving.write(requestOf("/v1/leaving", key));
    await eventually(async () => assert.equal(await used(house, account), 2));
    await leaving[Symbol.asyncDispose]();
    await eventually(() => assert.equal(house.lines.length, 1));
    before.answer();
    assert.equal((await first).status, 200);
    await served(house, held, key);
    assert.deepEqual(paths(), ["/v1/first", "/v1/after"]);
    assert.deepEqual(house.lines.map(({ forwards }) => forwards).toSorted(), [0, 1, 1]);
    await house.law();
  });

  it("is not sent again when its client left while it waited for another connection", async () => {
    const { house, held, paths } = await openNarrow();
    await using _house = house;
    const { key, account } = await house.issue();
    const first = house.ask(key, "/v1/first");
    (await heldAs(held, "/v1/first")).answer();
    assert.equal((await first).status, 200);

    // It goes out on a connection that carried a response, which dies: so it is to go out again.
    const leaving = await openClient(house.port);
    leaving.write(requestOf("/v1/leaving", key));
    const sent = await heldAs(held, "/v1/leaving");
    const waiting = house.ask(key, "/v1/waiting");
    await eventually(async () => assert.equal(await used(house, account), 3));
    sent.request.socket.destroy();
    const other = await heldAs(held, "/v1/waiting");
    await leaving[Symbol.asyncDispose]();
    await eventually(() => assert.equal(house.lines.length, 2));
    other.answer();
    assert.equal((await waiting).status, 200);
    await served(house, held, key);
    assert.deepEqual(paths(), ["/v1/first", "/v1/leaving", "/v1/waiting", "/v1/after"]);
    await house.law();
  });
});

describe("a reload, while requests have connections and wait for them,", () => {
  it("opens no more of them than upstreamConnections says", async () => {
    const { house, held, paths, change } = await openNarrow(2);
    await using _house = house;
    const [one, two] = [await house.issue(), await house.issue()];
    const before = [house.ask(one.key, "/v1/a"), house.ask(two.key, "/v1/b")];
    await heldAs(held, "/v1/a");
    await heldAs(held, "/v1/b");
    before.push(house.ask(one.key, "/v1/c"));
    await eventually(async () => assert.equal(await used(house, one.account), 2));

    assert.ok(await change({ upstreamConnections: 2, upstreamIdle: "3s" }));
    const after = house.ask(two.key, "/v1/d");
    await eventually(async () => assert.equal(await used(house, two.account), 2));
    // A request of this account that waits is admitted, and one at the backend is answered.
    assert.deepEqual(paths().toSorted(), ["/v1/a", "/v1/b"]);

    (await heldAs(held, "/v1/a")).answer();
    (await heldAs(held, "/v1/c")).answer();
    (await heldAs(held, "/v1/b")).answer();
    (await heldAs(held, "/v1/d")).answer();
    const statuses = (await Promise.all([...before, after])).map(({ status }) => status);
    assert.deepEqual(statuses, [200, 200, 200, 200]);
    await house.law();
  });

  it("that allows more of them serves those who wait", async () => {
    const { house, held, change } = await openNarrow(1);
    await using _house = house;
    const { key, account } = await house.issue();
    const answers = [house.ask(key, "/v1/first"), house.ask(key, "/v1/second")];
    await heldAs(held, "/v1/first");
    await eventually(async () => assert.equal(await used(house, account), 2));
    assert.ok(await change({ upstreamConnections: 10 }));
    (await heldAs(held, "/v1/second")).answer();
    (await heldAs(held, "/v1/first")).answer();
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(statuses, [200, 200]);
    await house.law();
  });

  it("that fails leaves the old limit in force", async () => {
    const { house, held, paths, backend, change } = await openNarrow(1);
    await using _house = house;
    const { key, account } = await house.issue();
    const answers = [house.ask(key, "/v1/first"), house.ask(key, "/v1/second")];
    await heldAs(held, "/v1/first");
    await eventually(async () => assert.equal(await used(house, account), 2));
    assert.equal(await change({ upstreamConnections: 10 }, backend), false, "the address is taken");
    answers.push(house.ask(key, "/v1/third"));
    await eventually(async () => assert.equal(await used(house, account), 3));
    assert.deepEqual(paths(), ["/v1/first"]);
    for (const path of ["/v1/first", "/v1/second", "/v1/third"]) {
      (await heldAs(held, path)).answer();
    }
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(statuses, [200, 200, 200]);
    await house.law();
  });
});

/** The request with this path, of those that the backend holds. */
function heldAs(held: readonly Held[], path: string): Promise<Held> {
  return eventually(() => {
    const found = held.find((each) => each.path === path);
    assert.ok(found, `the backend has no ${path}`);
    return found;
  });
}

function requestOf(target: string, key: string): string {
  return `GET ${target} HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`;
}

/** The units of the day, because a minute may end while a test counts. */
async function used(house: TestGateway, account: string): Promise<number | undefined> {
  const response = await house.admin(`/api/usage/${account}`);
  return ((await response.json()) as { windows: { used: number }[] }).windows.at(-1)?.used;
}

/** One more request, which has the connection after whatever else wanted it. */
async function served(house: TestGateway, held: readonly Held[], key: string): Promise<void> {
  const after = house.ask(key, "/v1/after");
  const isIt = ({ path }: Held) => path === "/v1/after";
  await eventually(() => {
    // A request that should not be there is answered too, or this one would wait for it.
    for (const each of held) if (!isIt(each)) each.answer();
    return held.some(isIt);
  });
  held.find(isIt)?.answer();
  assert.equal((await after).status, 200);
}
