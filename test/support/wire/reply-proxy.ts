import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A command of a client of Redis. */
export type Asked = { readonly name: string; readonly args: readonly string[] };
/** Returns the bytes that the client gets in the place of a reply; undefined for the reply as it is. */
export type Garble = (asked: Asked, reply: Buffer) => readonly Buffer[] | undefined;

export type ReplyProxy = AsyncDisposable & {
  readonly port: number;
  /** Connections ever accepted. */
  readonly accepted: () => number;
  /** Replaces what is done to each reply, of the open connections too. */
  behave(garble: Garble): void;
};

/** A proxy in front of a Redis that knows which reply belongs to which command, and can mix them up. */
export async function openReplyProxy(target: { readonly port: number }): Promise<ReplyProxy> {
  const open = new Set<Socket>();
  let accepted = 0;
  let behaviour: Garble = () => undefined;
  const server = createServer({ noDelay: true }, (client) => {
    accepted += 1;
    const redis = connect({ port: target.port, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, redis]) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.once("close", () => {
        open.delete(socket);
        client.destroy();
        redis.destroy();
      });
    }
    const asked: Asked[] = [];
    inValues(client, (bytes) => {
      asked.push(askedIn(bytes));
      redis.write(bytes);
    });
    inValues(redis, (reply) => {
      const command = asked.shift() ?? { name: "push", args: [] };
      for (const bytes of behaviour(command, reply) ?? [reply]) client.write(bytes);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    accepted: () => accepted,
    behave: (garble) => {
      behaviour = garble;
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}

/** Calls `take` with each whole value of RESP 2 that comes. */
function inValues(socket: Socket, take: (bytes: Buffer) => void): void {
  let held = Buffer.alloc(0);
  socket.on("data", (piece: Buffer) => {
    held = Buffer.concat([held, piece]);
    for (let end = endOfValue(held, 0); end > 0; end = endOfValue(held, 0)) {
      take(Buffer.from(held.subarray(0, end)));
      held = held.subarray(end);
    }
  });
}

/** Where the value that begins at `at` ends; -1 where more of it is to come. */
function endOfValue(bytes: Buffer, at: number): number {
  const line = bytes.indexOf("\r\n", at);
  if (line < 0) return -1;
  const kind = String.fromCharCode(bytes[at] ?? 0);
  const count = Number(bytes.toString("latin1", at + 1, line));
  if (kind === "$" && count >= 0) {
    const end = line + 2 + count + 2;
    return bytes.length >= end ? end : -1;
  }
  let end = line + 2;
  for (let i = 0; kind === "*" && i < count && end > 0; i++) end = endOfValue(bytes, end);
  return end;
}

function askedIn(bytes: Buffer): Asked {
  const [name = "", ...args] = bytes
    .toString()
    .split("\r\n")
    .slice(2)
    .filter((_, i) => i % 2 === 0);
  return { name: name.toLowerCase(), args };
}
