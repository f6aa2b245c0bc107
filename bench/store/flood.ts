import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** As many as the design's measurements have, one request under way on each. */
const CONNECTIONS = 64;
const BODY = '{"ok":true}';
const ANSWER = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;

export type FixedBackend = { readonly origin: string; close(): void };

/** Answers each request with the same bytes: it should cost as little as can be. */
export async function openFixedBackend(): Promise<FixedBackend> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    socket.on("data", (chunk) => {
      if (chunk.includes("\r\n\r\n")) socket.write(ANSWER);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return {
    origin: `http://127.0.0.1:${port}`,
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

export type Flooded = {
  /** Requests answered, by status. */
  readonly statuses: ReadonlyMap<number, number>;
  readonly requests: number;
  readonly seconds: number;
};

/**
 * Asks without pause over 64 connections, each with the next key in turn, until `until` says so.
 * Rejects when a connection ends: nothing here should make a gateway do that.
 */
export async function flood(
  port: number,
  keys: readonly string[],
  until: (requests: number) => boolean,
): Promise<Flooded> {
  const requests = keys.map((key) => {
    return `GET /v1/animals HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  });
  const statuses = new Map<number, number>();
  const startMs = performance.now();
  let sent = 0;
  let answered = 0;
  const next = () => requests[sent++ % requests.length] ?? "";
  const onAnswer = (status: number) => {
    answered += 1;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    return until(answered) ? undefined : next();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, () => converse(port, next(), onAnswer)));
  return { statuses, requests: answered, seconds: (performance.now() - startMs) / 1000 };
}

/** One connection: sends, reads the whole answer, and sends what `onAnswer` gives, until nothing. */
function converse(
  port: number,
  first: string,
  onAnswer: (status: number) => string | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    let text = "";
    socket.setEncoding("latin1");
    socket.once("connect", () => socket.write(first));
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("The gateway ended a connection")));
    socket.on("data", (piece: string) => {
      text += piece;
      const head = text.indexOf("\r\n\r\n");
      if (head === -1) return;
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
      if (text.length < head + 4 + length) return;
      const status = Number(text.slice(9, 12));
      text = "";
      const more = onAnswer(status);
      if (more !== undefined) return void socket.write(more);
      socket.destroy();
      resolve();
    });
  });
}
