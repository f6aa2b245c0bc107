import { connect, type Socket } from "node:net";
import { parseResponses } from "./response.ts";

export type SendOptions = {
  readonly host?: string;
  /** Ends our side once all is written; the answer is still read. */
  readonly halfClose?: boolean;
  /** Gives up after this long, with what has come. */
  readonly timeoutMs?: number;
  /**
   * The methods of the requests sent: stops once each has a complete response. Without it the
   * connection is read until it closes or the time is over.
   */
  readonly methods?: readonly string[];
};

/**
 * The bytes that came back, and why reading stopped. `answered`: `methods` have their responses.
 */
export type Received = {
  readonly bytes: Buffer;
  readonly ended: "answered" | "closed" | "reset" | "timeout";
};

/**
 * Sends bytes as they are over one new connection, several pieces one by one (each its own write),
 * and collects what comes back. Rejects only when the connection cannot be opened.
 */
export function sendRaw(
  port: number,
  bytes: string | Uint8Array | readonly (string | Uint8Array)[],
  options: SendOptions = {},
): Promise<Received> {
  const { host = "127.0.0.1", halfClose = false, timeoutMs = 5_000, methods } = options;
  const pieces = typeof bytes === "string" || bytes instanceof Uint8Array ? [bytes] : bytes;
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let opened = false;
    const socket = connect({ host, port, allowHalfOpen: true });
    const timer = setTimeout(() => finish("timeout"), timeoutMs);
    const finish = (ended: Received["ended"]) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ bytes: Buffer.concat(chunks), ended });
    };
    socket.setNoDelay(true);
    socket.once("connect", () => {
      opened = true;
      void writePieces(socket, pieces, halfClose);
    });
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      if (methods === undefined) return;
      const parsed = parseResponses(Buffer.concat(chunks), { methods });
      if (parsed.responses.length >= methods.length) finish("answered");
    });
    socket.once("end", () => finish("closed"));
    socket.on("error", (error) => {
      if (opened) return finish("reset");
      clearTimeout(timer);
      reject(error);
    });
    socket.once("close", () => finish("closed"));
  });
}

async function writePieces(
  socket: Socket,
  pieces: readonly (string | Uint8Array)[],
  halfClose: boolean,
): Promise<void> {
  for (const piece of pieces) {
    if (!socket.writable) return;
    const data = typeof piece === "string" ? Buffer.from(piece, "latin1") : piece;
    await new Promise<void>((resolve) => socket.write(data, () => resolve()));
  }
  if (halfClose) socket.end();
}
