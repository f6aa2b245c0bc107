import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { it, type TestContext } from "vitest";
import { SilenceWatch } from "../../../../src/stores/redis/connection/silence-watch.ts";
import { eventually } from "../../../support/poll.ts";

const BOUNDS = { silenceMs: 5_000, replyMs: 300 };

/** A connection on which a byte is read every 20 ms. */
async function dripping(t: TestContext) {
  const server = createServer((socket) => {
    const drip = setInterval(() => socket.write("x"), 20);
    socket.on("error", () => undefined).on("close", () => clearInterval(drip));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1")
    .resume()
    .on("error", () => undefined);
  t.onTestFinished(() => {
    socket.destroy();
    server.close();
  });
  await once(socket, "connect");
  return socket;
}

it("a reply that goes on for longer than any may ends its connection, however much is read", async (t) => {
  const socket = await dripping(t);
  const failed = once(socket, "error");
  const first = {};
  new SilenceWatch(
    BOUNDS,
    () => first,
    () => assert.fail(),
  ).begin(socket);
  const [error] = await failed;
  assert.match(String(error), /it does not reply/);
});

it("commands that are answered in their turn keep their connection, and one that waits later ends it", async (t) => {
  const socket = await dripping(t);
  let [looks, turn] = [0, 0];
  let first = {};
  const firstWaiting = () => {
    looks += 1;
    if (turn === 0 && looks % 3 === 0) first = {};
    return first;
  };
  new SilenceWatch(BOUNDS, firstWaiting, () => assert.fail()).begin(socket);
  await eventually(() => assert.ok(looks > 9));
  assert.equal(socket.destroyed, false);
  turn = looks;
  await eventually(() => assert.ok(socket.destroyed));
  assert.ok(looks - turn >= 3, `${looks - turn} looks`);
});
