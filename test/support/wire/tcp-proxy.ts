import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../redis/redis.ts";

/** The damage to the bytes of every connection, the open ones too. */
export type Faults = {
  /** Each piece arrives so much later, either way. */
  readonly latencyMs?: number;
  /** Each piece of an answer arrives so much later; questions go through at once. */
  readonly answerLatencyMs?: number;
  /** Connections open, and nothing passes: what came waits for the end of this damage. */
  readonly blackHole?: boolean;
  /** Questions arrive, answers are lost. Reset afterwards: the stream has a hole. */
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
  /** Whether a piece with this text has come and was not passed on yet. */
  readonly holds: (text: string) => boolean;
  /** Replaces the damage; `{}` heals. */
  behave(damage: Faults): void;
  /** Ends every open connection by RST, on both sides. */
  reset(): void;
  /** Nothing listens on the port any more: connections are refused, the open ones reset. */
  refuse(): Promise<void>;
  /** Listens again, on the same port. */
  listen(): Promise<void>;
  close(): Promise<void>;
};

type Way = "asked" | "answered";
type Pair = { readonly client: Socket; readonly target: Socket; left: number };

/** How much one direction holds back before it stops reading. */
const HELD_BYTES_MAX = 1_048_576;

/** A TCP proxy on a port of loopback that does damage: between gateway and store, or backend. */
export async function openTcpProxy(target: Target): Promise<TcpProxy> {
  const proxy = new DamagingProxy(target);
  await proxy.listen();
  return proxy;
}

type Target = { readonly port: number; readonly host?: string };

class DamagingProxy implements TcpProxy {
  readonly host = "127.0.0.1";
  port = 0;
  readonly #target: Target;
  readonly #server = createServer({ noDelay: true }, (client) => this.#accept(client));
  readonly #pairs = new Set<Pair>();
  readonly #bytes = { asked: 0, answered: 0 };
  readonly #held = new Set<Buffer>();
  #damage: Faults = {};
  #accepted = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  accepted = () => this.#accepted;
  open = () => this.#pairs.size;
  bytes = () => ({ ...this.#bytes });
  holds = (text: string) => [...this.#held].some((piece) => piece.includes(text));

  behave(damage: Faults): void {
    this.#damage = damage;
    for (const pair of this.#pairs) pair.left = damage.cutAfterBytes ?? Number.POSITIVE_INFINITY;
  }

  reset(): void {
    for (const pair of this.#pairs) this.#reset(pair);
  }

  async refuse(): Promise<void> {
    const closed = this.#server.listening ? once(this.#server, "close") : undefined;
    this.#server.close();
    this.reset();
    await closed;
  }

  async listen(): Promise<void> {
    // No connection on its way out can take this port while nothing listens on it.
    if (this.port === 0) this.port = await freePort();
    this.#server.listen(this.port, this.host);
    await once(this.#server, "listening");
  }

  close(): Promise<void> {
    return this.refuse();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.refuse();
  }

  #accept(client: Socket): void {
    this.#accepted += 1;
    const { port, host = "127.0.0.1" } = this.#target;
    const left = this.#damage.cutAfterBytes ?? Number.POSITIVE_INFINITY;
    const pair = { client, target: connect({ port, host, noDelay: true }), left };
    this.#pairs.add(pair);
    for (const socket of [pair.client, pair.target]) {
      socket.on("error", () => undefined);
      socket.once("close", () => this.#end(pair));
    }
    this.#pass(pair, "asked");
    this.#pass(pair, "answered");
  }

  #end(pair: Pair): void {
    this.#pairs.delete(pair);
    for (const socket of [pair.client, pair.target]) {
      if (!socket.destroyed) socket.destroy();
    }
  }

  #reset(pair: Pair): void {
    this.#pairs.delete(pair);
    for (const socket of [pair.client, pair.target]) {
      // Node never gets over the reset of a socket that is just being shut down: it cannot exit.
      if (socket.writableEnded) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  /** Carries one direction of a connection, piece by piece and in order. */
  #pass(pair: Pair, way: Way): void {
    const [from, to] = way === "asked" ? [pair.client, pair.target] : [pair.target, pair.client];
    let held = 0;
    let tail = Promise.resolve();
    from.on("data", (piece: Buffer) => {
      const cameMs = performance.now();
      this.#bytes[way] += piece.length;
      held += piece.length;
      this.#held.add(piece);
      if (held > HELD_BYTES_MAX) from.pause();
      tail = tail.then(async () => {
        await this.#delay(way, to, piece, cameMs);
        this.#deliver(pair, way, to, piece);
        this.#held.delete(piece);
        held -= piece.length;
        if (from.isPaused() && held <= HELD_BYTES_MAX) from.resume();
      });
    });
    from.once("end", () => {
      tail = tail.then(() => void to.end());
    });
  }

  async #delay(way: Way, to: Socket, piece: Buffer, cameMs: number): Promise<void> {
    while (this.#damage.blackHole && !to.destroyed) await sleep(5);
    const { latencyMs = 0, answerLatencyMs = 0, bytesPerSecond } = this.#damage;
    const lateMs = way === "answered" ? latencyMs + answerLatencyMs : latencyMs;
    await sleepUntil(cameMs + lateMs);
    if (!bytesPerSecond) return;
    await sleepUntil(performance.now() + (piece.length / bytesPerSecond) * 1_000);
  }

  #deliver(pair: Pair, way: Way, to: Socket, piece: Buffer): void {
    if (to.destroyed) return;
    if (way === "asked") {
      to.write(piece);
    } else if (!this.#damage.swallowReplies) {
      to.write(piece.subarray(0, Math.min(piece.length, pair.left)));
      pair.left -= piece.length;
      if (pair.left <= 0) setImmediate(() => this.#reset(pair));
    }
  }
}

/** A timer counts whole milliseconds of a clock that is rounded down, and may end two of them early. */
async function sleepUntil(endMs: number): Promise<void> {
  for (let leftMs = endMs - performance.now(); leftMs > 0; leftMs = endMs - performance.now()) {
    await sleep(leftMs);
  }
}
