import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Keeps at most `connectionsMax` connections: a further one takes the place of the oldest that has
 * no request under way, else of the oldest of all. So connections that say nothing never keep a
 * probe or a scrape out.
 */
export function evictConnections(server: Server, connectionsMax: number): void {
  /** In the order in which they came, each with the number of its requests under way. */
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
