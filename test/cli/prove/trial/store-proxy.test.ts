import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { it } from "vitest";
import { delayAnswers, startStoreProxy } from "../../../../src/cli/prove/trial/store-proxy.ts";
import { eventually } from "../../../support/poll.ts";

/** Long enough that what follows a reply arrives while that reply is delayed. */
const HELD_MS = 300;

it("a reply that is delayed is counted, and what follows it comes after it, whole", async () => {
  const store = createServer((socket) => {
    socket.on("error", () => {});
    socket.pipe(socket);
  });
  await once(store.listen(0, "127.0.0.1"), "listening");
  const proxy = await startStoreProxy((store.address() as AddressInfo).port, false);
  const client = connect(proxy.port, "127.0.0.1")
    .setNoDelay(true)
    .on("error", () => {});
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
    const heldMs = performance.now();
    client.write("b");
    await eventually(() => assert.equal(proxy.held(), 1));
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

/** A store that answers nothing, and what it gets over each of its connections. */
async function openStore(isRepeating = false) {
  const sockets: Socket[] = [];
  const got: string[] = [];
  const store = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {}).on("data", (piece) => got.push(String(piece)));
  });
  await once(store.listen(0, "127.0.0.1"), "listening");
  const proxy = await startStoreProxy((store.address() as AddressInfo).port, isRepeating);
  const open = async () => {
    const before = sockets.length;
    const client = connect(proxy.port, "127.0.0.1")
      .setNoDelay(true)
      .on("error", () => {})
      .resume();
    await eventually(() => assert.equal(sockets.length, before + 1));
    return client;
  };
  const close = async () => {
    await proxy.close();
    store.close();
  };
  return { proxy, sockets, got, open, [Symbol.asyncDispose]: close };
}

it("a connection that ends on one side ends on the other one, and all end with the proxy", async () => {
  await using house = await openStore();
  (await house.open()).destroy();
  await eventually(() => assert.equal(house.sockets[0]?.closed, true));
  const second = await house.open();
  house.sockets[1]?.destroy();
  await once(second, "close");
  const third = await house.open();
  await Promise.all([once(third, "close"), house.proxy.close()]);
  await eventually(() => assert.equal(house.sockets[2]?.closed, true));
});

it("with the fault planted 25 decisions are executed twice for each reply that is delayed, and nothing else", async () => {
  await using house = await openStore(true);
  const client = await house.open();
  const times = (text: string) => house.got.join("").split(text).length - 1;
  const decide = async (text: string) => {
    client.write(text);
    // A repeated call comes over a connection of its own, at any time beside the call itself.
    await eventually(() => assert.ok(times(text) > 0));
  };
  const decision = (n: number) => `evalsha ${n} {3}:proof:a_1;`;
  await decide(decision(0));
  house.proxy.holdOne(1);
  await decide("ping;");
  for (let n = 1; n <= 27; n++) await decide(decision(n));
  await eventually(() => {
    const found = Array.from({ length: 28 }, (_, n) => times(decision(n)));
    assert.deepEqual(found, [1, ...Array<number>(25).fill(2), 1, 1]);
  });
  await decide("end;");
  assert.deepEqual([times("evalsha"), times("ping;")], [53, 1]);
});

it("replies are delayed one after the other until the time is over, or the proof is stopped", async () => {
  await using house = await openStore();
  const stopping = new AbortController();
  let pauses = 0;
  const delays: number[] = [];
  const pause = async (ms: number) => {
    delays.push(ms);
    pauses += 1;
    if (pauses === 3) stopping.abort();
  };
  const proxy = { ...house.proxy, holdOne: (forMs: number) => void delays.push(forMs) };
  await delayAnswers(proxy, 60_000, { pause, signal: stopping.signal });
  // Several times what a call may take, and a pause after each in which the store is in time again.
  assert.deepEqual(delays, [250, 400, 250, 400, 250, 400]);
  await delayAnswers(house.proxy, 0, { pause, signal: new AbortController().signal });
  assert.equal(pauses, 3);
});

it("a connection of a gateway ends where the store takes none", async () => {
  const proxy = await startStoreProxy(1, false);
  await once(connect(proxy.port, "127.0.0.1").resume(), "close");
  await proxy.close();
});
