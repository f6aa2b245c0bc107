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
  assert.deepEqual([limited.level, limited.connections], ["info", Math.floor(0.8 * FILES)]);
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
  assert.equal(limited.connections, Math.floor((0.8 * FILES) / Object.keys(environments).length));
  for (const socket of crowds.flat()) socket.destroy();
});
