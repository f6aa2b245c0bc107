import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { it } from "vitest";
import { startStoreProxy } from "../../../src/cli/prove/store-proxy.ts";
import { eventually } from "../../support/poll.ts";

/** Long enough that what follows a reply arrives while that reply is delayed. */
const HELD_MS = 300;

it("a reply that is delayed is counted, and what follows it comes after it, whole", async () => {
  const store = createServer((socket) => {
    socket.on("error", () => {});
    socket.pipe(socket);
  });
  await once(store.listen(0, "127.0.0.1"), "listening");
  const proxy = await startStoreProxy((store.address() as AddressInfo).port, false);
  const client = connect(proxy.port, "127.0.0.1").setNoDelay(true);
  let got = "";
  client.setEncoding("latin1").on("data", (piece) => {
    got += piece;
  });
  const answered = (text: string) => eventually(() => assert.equal(got, text));
  try {
    client.write("a");
    await answered("a");
    assert.equal(proxy.held(), 0);
    proxy.holdOne(HELD_MS);
    client.write("b");
    await eventually(() => assert.equal(proxy.held(), 1));
    const heldMs = performance.now();
    client.write("c");
    await answered("abc");
    assert.ok(performance.now() - heldMs > HELD_MS / 2);
    client.write("d");
    await answered("abcd");
    assert.equal(proxy.held(), 1, "one was to be delayed");
  } finally {
    client.destroy();
    await proxy.close();
    store.close();
  }
});
