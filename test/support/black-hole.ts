import { type AddressInfo, createServer, type Socket } from "node:net";

export type BlackHole = AsyncDisposable & {
  readonly origin: string;
  /** Connections that were ever made to it. */
  connections: number;
};

/** A listener that accepts every connection and never reads a byte. */
export async function openBlackHole(): Promise<BlackHole> {
  const sockets: Socket[] = [];
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    hole.connections += 1;
    sockets.push(socket.on("error", () => {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const hole: BlackHole = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: 0,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return hole;
}
