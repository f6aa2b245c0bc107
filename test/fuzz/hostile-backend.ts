import { type AddressInfo, createServer, type Socket } from "node:net";
import { parseRequest } from "../support/wire/request.ts";

/** Answers `?case=N` with the bytes of that case, and `?probe=N` as one should. */
export type HostileBackend = AsyncDisposable & {
  readonly origin: string;
  /** Requests that came, whole. */
  readonly seen: () => number;
};

/** The bytes of an answer, and what its connection does behind them. */
export type HostileAnswer = { readonly bytes: Buffer; readonly after: "keep" | "end" | "reset" };

export function probeBody(number: number): string {
  return `probe ${number}`;
}

/** `answerOf` gives the answer of a case. */
export async function openHostileBackend(
  answerOf: (number: number) => HostileAnswer,
): Promise<HostileBackend> {
  const sockets = new Set<Socket>();
  let seen = 0;
  const answer = (socket: Socket, target: string) => {
    seen += 1;
    const [, kind, number] = /\?(case|probe)=(\d+)/.exec(target) ?? [];
    if (kind === "case") {
      const { bytes, after } = answerOf(Number(number));
      socket.write(bytes);
      if (after === "end") socket.end();
      else if (after === "reset") setTimeout(() => socket.resetAndDestroy(), RESET_MS);
    } else {
      const body = probeBody(Number(number));
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    }
  };
  const server = createServer((socket) => {
    let bytes: Buffer = Buffer.alloc(0);
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      const read = parseRequest(bytes);
      if (read === "unfinished" || "problem" in read) return;
      bytes = read.rest;
      answer(socket, read.request.target);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    seen: () => seen,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const RESET_MS = 5;
