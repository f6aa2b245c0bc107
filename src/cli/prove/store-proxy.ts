import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Stands between the gateways and their Redis, and holds single answers back. */
export type StoreProxy = {
  readonly port: number;
  /** Holds the next answer, and what comes behind it on its connection, for so long. */
  holdOne(forMs: number): void;
  /** Answers that were held so far. */
  held(): number;
  close(): Promise<void>;
};

/** A call that decides accounts of a proof. */
const DECISION = /evalsha[\s\S]*\}:proof:/i;
/** With each answer that is held so many calls are executed twice, if that fault is planted. */
const REPEATED = 5;

/**
 * `isRepeating` plants a fault: calls about the time of an answer that comes late are executed twice, as
 * if they had been sent again.
 */
export async function startStoreProxy(port: number, isRepeating: boolean): Promise<StoreProxy> {
  const hold = new Hold();
  const open = new Set<Socket>();
  const keep = (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket)).on("error", () => socket.destroy());
    return socket.setNoDelay(true);
  };
  const server = createServer((client) => {
    const store = keep(connect(port, "127.0.0.1"));
    keep(client).on("data", (piece: Buffer) => {
      if (isRepeating && hold.repeats(piece)) {
        const again = keep(connect(port, "127.0.0.1"));
        again.once("data", () => again.destroy()).end(piece);
      }
      store.write(piece);
    });
    let waiting: Buffer[] | undefined;
    store.on("data", (piece: Buffer) => {
      const forMs = waiting === undefined ? hold.take() : undefined;
      if (forMs !== undefined) {
        waiting = [];
        setTimeout(() => {
          for (const one of waiting ?? []) client.write(one);
          waiting = undefined;
        }, forMs).unref();
      }
      if (waiting === undefined) client.write(piece);
      else waiting.push(piece);
    });
    client.once("close", () => store.destroy());
    store.once("close", () => client.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    holdOne: (forMs) => hold.next(forMs),
    held: () => hold.count,
    close: () =>
      new Promise((resolve) => {
        for (const socket of open) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

/** The answer that is held next, on whatever connection it comes. */
class Hold {
  #forMs: number | undefined;
  #toRepeat = 0;
  count = 0;

  next(forMs: number): void {
    this.#forMs = forMs;
    this.#toRepeat = REPEATED;
  }

  /** For how long an answer that has come is held; undefined: not at all. */
  take(): number | undefined {
    const forMs = this.#forMs;
    this.#forMs = undefined;
    if (forMs !== undefined) this.count += 1;
    return forMs;
  }

  /** Whether a call is one of those that are executed twice, if that fault is planted. */
  repeats(call: Buffer): boolean {
    if (this.#toRepeat === 0 || !DECISION.test(call.toString("latin1"))) return false;
    this.#toRepeat -= 1;
    return true;
  }
}
