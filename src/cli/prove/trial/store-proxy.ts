import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A proxy between the gateways and their Redis that can delay single replies. */
export type StoreProxy = {
  readonly port: number;
  /** Delays the next reply, and what follows it on its connection, by `forMs`. */
  holdOne(forMs: number): void;
  /** The number of replies that were delayed so far. */
  held(): number;
  close(): Promise<void>;
};

/** A call that decides requests of accounts of a proof. */
const DECISION = /evalsha[\s\S]*\}:proof:/i;
/** With the planted fault, this many calls are executed twice for each delayed reply. */
const REPEATED = 25;

/** `isRepeating` plants a fault: calls at the time of a delayed reply are executed twice. */
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
        keep(connect(port, "127.0.0.1")).resume().end(piece);
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

/** The reply that is delayed next, on whatever connection it arrives. */
class Hold {
  #forMs: number | undefined;
  #toRepeat = 0;
  count = 0;

  next(forMs: number): void {
    this.#forMs = forMs;
    this.#toRepeat = REPEATED;
  }

  /** How long a reply that has arrived is delayed; undefined if it is not. */
  take(): number | undefined {
    const forMs = this.#forMs;
    this.#forMs = undefined;
    if (forMs !== undefined) this.count += 1;
    return forMs;
  }

  /** Whether a call is executed twice because of the planted fault. */
  repeats(call: Buffer): boolean {
    if (this.#toRepeat === 0 || !DECISION.test(call.toString("latin1"))) return false;
    this.#toRepeat -= 1;
    return true;
  }
}

/** A single reply is delayed this long, each time after such a pause. */
const HELD_MS = 250;
const BETWEEN_HELD_MS = 400;

export type PauseControl = {
  /** Resolves early when the signal is aborted. */
  readonly pause: (ms: number) => Promise<unknown>;
  readonly signal: AbortSignal;
};

/** Delays one reply after the other. */
export async function delayAnswers(
  proxy: StoreProxy,
  forMs: number,
  { pause, signal }: PauseControl,
): Promise<void> {
  const untilMs = Date.now() + forMs;
  while (Date.now() < untilMs && !signal.aborted) {
    proxy.holdOne(HELD_MS);
    await pause(BETWEEN_HELD_MS);
  }
}
