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
const DECISION = /evalsha[^]*\}:proof:/i;
/** With each answer that is held so many calls are executed twice, if that fault is planted. */
const REPEATED = 5;

/**
 * `isRepeating` plants a fault: calls about the time of an answer that comes late are executed twice, as
 * if they had been sent again.
 */
export async function startStoreProxy(port: number, isRepeating: boolean): Promise<StoreProxy> {
  const open = new Set<Socket>();
  let holdMs: number | undefined;
  let held = 0;
  let toRepeat = 0;
  const keep = (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket)).on("error", () => socket.destroy());
    return socket.setNoDelay(true);
  };
  const repeat = (call: Buffer) => {
    const again = keep(connect(port, "127.0.0.1"));
    again.once("data", () => again.destroy()).end(call);
  };
  const server = createServer((client) => {
    keep(client);
    const store = keep(connect(port, "127.0.0.1"));
    let waiting: Buffer[] | undefined;
    client.on("data", (piece: Buffer) => {
      if (toRepeat > 0 && DECISION.test(piece.toString("latin1"))) {
        toRepeat -= 1;
        repeat(piece);
      }
      store.write(piece);
    });
    store.on("data", (piece: Buffer) => {
      if (waiting !== undefined) {
        waiting.push(piece);
        return;
      }
      if (holdMs === undefined) {
        client.write(piece);
        return;
      }
      waiting = [piece];
      held += 1;
      setTimeout(() => {
        for (const one of waiting ?? []) client.write(one);
        waiting = undefined;
      }, holdMs).unref();
      holdMs = undefined;
    });
    client.once("close", () => store.destroy());
    store.once("close", () => client.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    holdOne: (forMs) => {
      holdMs = forMs;
      toRepeat = isRepeating ? REPEATED : 0;
    },
    held: () => held,
    close: () =>
      new Promise((resolve) => {
        for (const socket of open) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
