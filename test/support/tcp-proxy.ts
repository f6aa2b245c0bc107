import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** What happens to the bytes of every connection, the open ones too. */
export type Damage = {
  /** Each piece arrives so much later, either way. */
  readonly latencyMs?: number;
  /** Connections open, and nothing passes: what came waits for the end of this damage. */
  readonly blackHole?: boolean;
  /** What is asked arrives, what is answered is lost. Reset afterwards: the stream has a hole. */
  readonly swallowReplies?: boolean;
  /** After so many bytes of answers, counted from here, the connection is reset on both sides. */
  readonly cutAfterBytes?: number;
  /** Either way. */
  readonly bytesPerSecond?: number;
};

export type TcpProxy = AsyncDisposable & {
  readonly host: string;
  readonly port: number;
  /** Connections ever accepted, and those open now. */
  readonly accepted: () => number;
  readonly open: () => number;
  /** Bytes that clients sent and the target answered, so far. */
  readonly bytes: () => { readonly asked: number; readonly answered: number };
  /** Replaces the damage; `{}` heals. */
  behave(damage: Damage): void;
  /** Ends every open connection by RST, on both sides. */
  reset(): void;
  /** Nothing listens on the port any more: connections are refused, the open ones reset. */
  refuse(): Promise<void>;
  /** Listens again, on the same port. */
  listen(): Promise<void>;
  close(): Promise<void>;
};

type Pair = { readonly client: Socket; readonly target: Socket; left: number };

/** How much one direction holds back before it stops reading. */
const HELD_BYTES_MAX = 1_048_576;

/** A TCP proxy on a port of loopback that does damage: between gateway and store, or backend. */
export async function openTcpProxy(target: { port: number; host?: string }): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  const bytes = { asked: 0, answered: 0 };
  let damage: Damage = {};
  let accepted = 0;

  const server = createServer({ noDelay: true }, (client) => {
    accepted += 1;
    const host = target.host ?? "127.0.0.1";
    const pair = { client, target: connect({ port: target.port, host, noDelay: true }), left: 0 };
    pair.left = damage.cutAfterBytes ?? Number.POSITIVE_INFINITY;
    pairs.add(pair);
    for (const socket of [pair.client, pair.target]) {
      socket.on("error", () => undefined);
      socket.once("close", () => end(pair));
    }
    pass(pair, "asked");
    pass(pair, "answered");
  });

  function end(pair: Pair): void {
    pairs.delete(pair);
    for (const socket of [pair.client, pair.target]) {
      if (!socket.destroyed) socket.destroy();
    }
  }

  function reset(pair: Pair): void {
    pairs.delete(pair);
    pair.client.resetAndDestroy();
    pair.target.resetAndDestroy();
  }

  /** Carries one direction of a connection, piece by piece and in order. */
  function pass(pair: Pair, way: "asked" | "answered"): void {
    const [from, to] = way === "asked" ? [pair.client, pair.target] : [pair.target, pair.client];
    let held = 0;
    let tail = Promise.resolve();
    from.on("data", (piece: Buffer) => {
      const cameMs = performance.now();
      bytes[way] += piece.length;
      held += piece.length;
      if (held > HELD_BYTES_MAX) from.pause();
      tail = tail.then(async () => {
        await carry(pair, way, to, piece, cameMs);
        held -= piece.length;
        if (from.isPaused() && held <= HELD_BYTES_MAX) from.resume();
      });
    });
    from.once("end", () => {
      tail = tail.then(() => void to.end());
    });
  }

  async function carry(
    pair: Pair,
    way: "asked" | "answered",
    to: Socket,
    piece: Buffer,
    cameMs: number,
  ): Promise<void> {
    while (damage.blackHole && !to.destroyed) await sleep(5);
    const waitMs = cameMs + (damage.latencyMs ?? 0) - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    if (damage.bytesPerSecond) await sleep((piece.length / damage.bytesPerSecond) * 1_000);
    if (to.destroyed) return;
    if (way === "asked") return void to.write(piece);
    if (damage.swallowReplies) return;
    to.write(piece.subarray(0, Math.min(piece.length, pair.left)));
    pair.left -= piece.length;
    if (pair.left <= 0) setImmediate(() => reset(pair));
  }

  const listen = async (port: number) => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const refuse = async () => {
    const closed = server.listening ? once(server, "close") : undefined;
    server.close();
    for (const pair of pairs) reset(pair);
    await closed;
  };
  return {
    host: "127.0.0.1",
    port,
    accepted: () => accepted,
    open: () => pairs.size,
    bytes: () => ({ ...bytes }),
    behave: (next) => {
      damage = next;
      for (const pair of pairs) pair.left = next.cutAfterBytes ?? Number.POSITIVE_INFINITY;
    },
    reset: () => {
      for (const pair of pairs) reset(pair);
    },
    refuse,
    listen: () => listen(port),
    close: refuse,
    [Symbol.asyncDispose]: refuse,
  };
}
