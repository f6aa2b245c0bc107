import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { each } from "../support/each.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { type Client, openClient, requestBytes, sendRequest } from "../support/wire/client.ts";

const FILES = 256;
const CLIENTS = 12;
const ROUNDS = 3;
/** Requests of each client in a round, sent at once. */
const ASKED = 5;

async function openCrowd(port: number): Promise<Socket[]> {
  const crowd: Socket[] = [];
  for (let i = 0; i < 2 * FILES; i++) {
    crowd.push(connect(port, "127.0.0.1").on("error", () => {}));
  }
  await eventually(() => each(crowd).every((socket) => !socket.connecting));
  return crowd;
}

test(`2.3 EMFILE: with ${FILES} file descriptors and twice as many clients, those served are served on, new backend connections included, and it recovers within 1 s`, async (t) => {
  let crowded = Promise.withResolvers<void>();
  await using backend = await startTestUpstream(async (_seen, response) => {
    // Those who are served are not idle when the crowd comes.
    await crowded.promise;
    // Long enough that each of those who ask at once needs a connection of its own.
    await sleep(20);
    response.setHeader("Connection", "close");
    response.end("ok");
  });
  const under = ["sh", "-c", `ulimit -n ${FILES} && exec "$@"`, "sh"];
  await using served = await spawnGateway({ upstreams: [backend.origin], under });
  const limited = await eventually(
    () => served.said.find(({ msg }) => msg === "connections_limited") ?? assert.fail("not yet"),
  );
  assert.deepEqual([limited.level, limited.connections], ["info", FILES / 2]);
  const clients: Client[] = [];
  for (let i = 0; i < CLIENTS; i++) clients.push(await openClient(served.port));

  const recoveredMs: number[] = [];
  const methods = Array<string>(ASKED).fill("GET");
  let [asked, late] = [0, Number.POSITIVE_INFINITY];
  while (recoveredMs.length < ROUNDS && late >= 1_000) {
    crowded = Promise.withResolvers<void>();
    const all = Buffer.concat(methods.map(() => requestBytes({ key: KEY })));
    for (const client of clients) client.write(all);
    await eventually(() => assert.equal(backend.seen.length, asked + CLIENTS));
    const crowd = await openCrowd(served.port);
    await eventually(() => crowd.some((socket) => socket.destroyed || socket.readableEnded));
    crowded.resolve();
    const answers = await Promise.all(clients.map((client) => client.responses(methods)));
    assert.deepEqual(
      answers.flat().map(({ status }) => status),
      Array<number>(CLIENTS * ASKED).fill(200),
      "existing connections",
    );
    asked += CLIENTS * ASKED;
    for (const socket of crowd) socket.destroy();
    const leftMs = performance.now();
    await eventually(async () =>
      assert.equal((await sendRequest(served.port, { key: KEY })).status, 200),
    );
    late = performance.now() - leftMs;
    recoveredMs.push(late);
    asked += 1;
  }
  t.annotate(`recovered in ${recoveredMs.map(Math.round)} ms`);
  assert.ok(late < 1_000, `${recoveredMs} ms`);

  for (const client of clients) await client[Symbol.asyncDispose]();
  const answered = () => served.lines.filter(({ status }) => status === 200).length;
  await eventually(() => assert.equal(answered(), asked));
  const forwards = served.lines.reduce((sum, entry) => sum + entry.forwards, 0);
  assert.equal(backend.seen.length, forwards);
  assert.equal(
    await served.counted(),
    served.lines.reduce((sum, { charged }) => sum + charged, 0),
  );
  assert.equal((await served.running.stop()).code, 0);
});

test("crowds at another listener and at the admin listener leave a listener its file descriptors", async () => {
  await using backend = await startTestUpstream();
  const environment = { listen: "127.0.0.1:0", basePath: "/v1", upstreams: [backend.origin] };
  const environments = {
    production: { ...environment, keyTag: "live" },
    staging: { ...environment, keyTag: "test" },
  };
  const under = ["sh", "-c", `ulimit -n ${FILES} && exec "$@"`, "sh"];
  await using served = await spawnGateway({ upstreams: [], under, config: { environments } });
  const { urls } = await served.running.line(({ msg }) => msg === "serving");
  const ports = [(urls as Record<string, string>).staging ?? "", served.adminUrl];
  const crowds = await Promise.all(ports.map((url) => openCrowd(Number(new URL(url).port))));
  for (const crowd of crowds) await eventually(() => crowd.some((socket) => socket.closed));
  const answers = [];
  for (let i = 0; i < CLIENTS; i++) answers.push(await sendRequest(served.port, { key: KEY }));
  for (const { status } of each(answers)) assert.equal(status, 200);
  assert.equal(await served.counted(), CLIENTS);
  const limited = await served.running.line(({ msg }) => msg === "connections_limited");
  assert.equal(limited.connections, FILES / 2 / Object.keys(environments).length);
  for (const socket of crowds.flat()) socket.destroy();
});

test("while clients hold all connections that they may, probes are answered, each request waits for a file instead of failing, and its healthy backend is not told as down", async () => {
  let [holding, isBegun] = [Promise.withResolvers<void>(), false];
  await using backend = await startTestUpstream(async (_seen, response) => {
    response.setHeader("Connection", "close");
    if (isBegun) response.write("o");
    await holding.promise;
    response.end("k");
  });
  const under = ["sh", "-c", `ulimit -n ${FILES} && exec "$@"`, "sh"];
  const limits = { responseTimeout: "3s" };
  await using served = await spawnGateway({ upstreams: [backend.origin], under, limits });
  const limited = await served.running.line(({ msg }) => msg === "connections_limited");
  const clients = await Promise.all(
    Array.from({ length: Number(limited.connections) }, () => openClient(served.port)),
  );
  const askAll = () => {
    for (const client of clients) client.write(requestBytes({ key: KEY }));
    return Promise.all(clients.map((client) => client.responses(["GET"])));
  };

  const served200 = askAll();
  await served.running.line(({ msg }) => msg === "open_files_short");
  for (const path of ["/livez", "/readyz", "/metrics"]) {
    assert.equal((await fetch(`${served.adminUrl}${path}`)).status, 200, path);
  }
  const seen = backend.seen.length;
  assert.ok(seen > 0 && seen < clients.length, `${seen} of ${clients.length} have a connection`);
  holding.resolve();
  for (const { status } of each((await served200).flat())) assert.equal(status, 200);

  // A backend whose answers have begun is late with none, so only the others are.
  [holding, isBegun] = [Promise.withResolvers<void>(), true];
  const before = backend.seen.length;
  const asked = askAll();
  const late = () => served.lines.filter(({ status }) => status === 504).length;
  await eventually(() => assert.equal(late() + backend.seen.length - before, clients.length));
  holding.resolve();
  const statuses = (await asked).flat().map(({ status }) => status);
  assert.deepEqual(
    [...new Set(statuses)].toSorted(),
    [200, 504],
    "the wait ends as one for a connection does",
  );
  assert.equal(served.said.filter(({ msg }) => msg === "open_files_short").length, 1);
  await eventually(() => assert.equal(served.lines.length, 2 * clients.length));
  const waited = served.lines.filter(({ forwards }) => forwards === 0);
  for (const { code, why, charged } of each(waited)) {
    assert.deepEqual(
      [code, why, charged],
      ["upstream_timeout", "waited too long for: connection", 1],
    );
  }
  assert.equal(await served.counted(), 2 * clients.length);
  for (const client of clients) await client[Symbol.asyncDispose]();
  await backend.close();
  for (let i = 0; i < 5; i++) await sendRequest(served.port, { key: KEY });
  // The next event is of a backend that is down, so there was nothing to tell before.
  const { why } = await served.running.line(({ kind }) => kind === "upstream_down");
  assert.doesNotMatch(String(why), /waited|EMFILE/);
});

test("requests that hold all connections that one backend may have leave another backend its part", async () => {
  const held = Promise.withResolvers<void>();
  await using slow = await startTestUpstream(async (_seen, response) => {
    await held.promise;
    response.end("ok");
  });
  await using quick = await startTestUpstream();
  const under = ["sh", "-c", `ulimit -n ${FILES} && exec "$@"`, "sh"];
  const backends = [{ path: "/v1/slow", upstreams: [slow.origin] }];
  const environment = { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live" };
  const environments = { production: { ...environment, upstreams: [quick.origin], backends } };
  await using served = await spawnGateway({ upstreams: [], under, config: { environments } });
  const clients = await Promise.all(
    Array.from({ length: FILES / 2 - CLIENTS }, () => openClient(served.port)),
  );
  for (const client of clients) client.write(requestBytes({ key: KEY, path: "/v1/slow" }));
  await served.running.line(({ msg }) => msg === "open_files_short");
  const startedMs = performance.now();
  const answers = await Promise.all(
    Array.from({ length: CLIENTS }, () => sendRequest(served.port, { key: KEY })),
  );
  for (const { status } of each(answers)) assert.equal(status, 200);
  assert.ok(performance.now() - startedMs < 1_000);
  held.resolve();
  for (const client of clients) {
    assert.equal((await client.responses(["GET"]))[0]?.status, 200);
    await client[Symbol.asyncDispose]();
  }
});
