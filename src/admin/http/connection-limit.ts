import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Keeps at most `connectionsMax` connections. A further connection evicts the oldest one without a
 * request in progress; if all have one, it evicts the oldest of all. So idle connections never keep
 * a probe or a scrape out.
 */
export function evictConnections(server: Server, connectionsMax: number): void {
  /**
   * The connections in the order of their arrival, each with its number of requests in progress.
   */
  const open = new Map<Socket, number>();
  const add = (socket: Socket, requests: number) => {
    const before = open.get(socket);
    if (before !== undefined) open.set(socket, before + requests);
  };
  server.on("connection", (socket: Socket) => {
    if (open.size >= connectionsMax) {
      const silent = [...open].find(([, requests]) => requests === 0);
      const [leaving] = silent ?? [...open.keys()];
      if (leaving !== undefined) {
        open.delete(leaving);
        leaving.destroy();
      }
    }
    open.set(socket, 0);
    socket.once("close", () => open.delete(socket));
  });
  server.on("request", ({ socket }, response) => {
    add(socket, 1);
    response.once("close", () => add(socket, -1));
  });
}
