import { type AddressInfo, createServer, type Socket } from "node:net";
import { parseRequest, type RawRequest } from "../support/wire/request.ts";

export type StrictBackend = AsyncDisposable & {
  readonly origin: string;
  readonly port: number;
  /** Complete requests, oldest first. */
  readonly seen: readonly RawRequest[];
  /** Bytes that are not HTTP/1.1 to the letter. */
  readonly problems: readonly string[];
};

const ANSWER = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n";

/** Answers every request with 200, and notes every byte that a strict reader would stumble over. */
export async function openStrictBackend(): Promise<StrictBackend> {
  const seen: RawRequest[] = [];
  const problems: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    let bytes: Buffer = Buffer.alloc(0);
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      while (bytes.length > 0) {
        const read = parseRequest(bytes);
        if (read === "unfinished") return;
        if ("problem" in read) {
          problems.push(read.problem);
          socket.destroy();
          return;
        }
        seen.push(read.request);
        bytes = read.rest;
        socket.write(read.request.method === "HEAD" ? ANSWER : `${ANSWER}{}`);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    seen,
    problems,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
