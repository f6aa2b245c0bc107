import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { openBackend } from "../support/backend.ts";
import { ask, openClient } from "../support/client.ts";
import { eventually } from "../support/poll.ts";
import { KEY, openServed } from "../support/served.ts";

const FILES = 96;

test(`2.3 EMFILE: out of file descriptors (${FILES}): those served are served on, and it recovers when others leave`, async () => {
  await using backend = await openBackend();
  const under = ["sh", "-c", `ulimit -n ${FILES} && exec "$@"`, "sh"];
  await using served = await openServed({ upstreams: [backend.origin], under });
  await using client = await openClient(served.port);
  assert.equal((await client.ask({ key: KEY })).status, 200);

  const crowd: Socket[] = [];
  for (let i = 0; i < 2 * FILES; i++) {
    crowd.push(connect(served.port, "127.0.0.1").on("error", () => {}));
  }
  await eventually(() => crowd.every((socket) => !socket.connecting));
  for (let i = 0; i < 20; i++) {
    assert.equal((await client.ask({ key: KEY })).status, 200, "an existing connection");
  }
  for (const socket of crowd) socket.destroy();
  const leftMs = performance.now();
  await eventually(async () => assert.equal((await ask(served.port, { key: KEY })).status, 200));
  assert.ok(performance.now() - leftMs < 3_000);

  const answered = () => served.lines.filter(({ status }) => status === 200).length;
  await eventually(() => assert.ok(answered() >= 22));
  const forwards = served.lines.reduce((sum, line) => sum + line.forwards, 0);
  assert.equal(backend.seen.length, forwards);
  assert.equal(
    await served.counted(),
    served.lines.reduce((sum, { charged }) => sum + charged, 0),
  );
  assert.equal((await served.running.stop()).code, 0);
});
