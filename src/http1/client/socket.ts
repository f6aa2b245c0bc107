import {
  connect,
  type LookupFunction,
  type OnReadOpts,
  type Socket,
  type TcpSocketConnectOpts,
} from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";

/** Where a connection goes. */
export type Destination = {
  /** A name or an address, IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  /** Undefined: plain. Else what to trust and which name to ask and verify for. */
  readonly tls: ConnectionOptions | undefined;
  /** Finds the addresses of `host`; undefined for the way of the system. */
  readonly lookup?: LookupFunction | undefined;
  /** The last TLS session with it: the next connection resumes it (RFC 8446 2.2). */
  readonly session?: { ticket: Buffer | undefined };
};

export type SocketEvents = {
  /** There is a connection, and over TLS the other side is who it should be. */
  onConnect(socket: Socket): void;
  /** `bytes`, up to `size`, are the reader's only until it returns. */
  onRead(socket: Socket, bytes: Buffer, size: number): void;
  /** The connection takes more again. */
  onDrain(socket: Socket): void;
  /** The other side has said all. */
  onEnd(socket: Socket): void;
  /** Nothing comes any more. Once, and last; `why`: the code of an error, or `closed`. */
  onClose(socket: Socket, why: string): void;
};

const READ_BYTES_MAX = 65_536;
/** All connections read into this one after another: what is to be kept of it is copied at once. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES_MAX);

/** Opens a connection that reads without allocating: Node's `onread` instead of a stream's pieces. */
export function openSocket(destination: Destination, events: SocketEvents): Socket {
  const { host, port, tls, lookup } = destination;
  let why = "closed";
  const onread: OnReadOpts = {
    buffer: shared,
    callback: (size) => {
      events.onRead(socket, shared, size);
      return true;
    },
  };
  const to: Reading = { host, port, onread, ...(lookup && { lookup }) };
  const socket = tls === undefined ? connect(to) : secure(to, tls, destination.session);
  socket.setNoDelay(true);
  outliveWriteErrors(socket, (code) => {
    why = code;
  });
  socket.once(tls === undefined ? "connect" : "secureConnect", () => events.onConnect(socket));
  socket.on("drain", () => events.onDrain(socket));
  socket.once("end", () => events.onEnd(socket));
  socket.on("error", (error: NodeJS.ErrnoException) => {
    why = error.code ?? error.name;
  });
  socket.once("close", () => events.onClose(socket, why));
  return socket;
}

/**
 * Keeps a connection whose other side takes no more. Node destroys a socket when a write fails, and
 * with it what the other side sent before: a backend that answers early and closes has answered
 * (docs/reference/edge.md#early-answers). The end comes from the reading side, as an end or an error.
 */
function outliveWriteErrors(socket: Socket, onFailed: (code: string) => void): void {
  let isBroken = false;
  const watched = (done: (error?: Error | null) => void) => {
    return (error?: NodeJS.ErrnoException | null) => {
      if (error && !isBroken) {
        isBroken = true;
        onFailed(error.code ?? error.name);
      }
      done();
    };
  };
  const write = socket._write;
  const writeMany = socket._writev;
  socket._write = (chunk, encoding, done) => {
    if (isBroken) done();
    else write.call(socket, chunk, encoding, watched(done));
  };
  if (writeMany === undefined) return;
  socket._writev = (chunks, done) => {
    if (isBroken) done();
    else writeMany.call(socket, chunks, watched(done));
  };
}

type Reading = TcpSocketConnectOpts & { readonly onread: OnReadOpts };

/** `onread` is documented for TLS as well, with decrypted bytes; the types do not know it there. */
function secure(to: Reading, tls: ConnectionOptions, session: Destination["session"]): Socket {
  const resumed = session?.ticket;
  const socket = connectTls({ ...tls, ...to, ...(resumed && { session: resumed }) });
  if (session !== undefined) keepSession(socket, session);
  return socket;
}

/** Keeps each session that the other side offers, for the next connection. */
export function keepSession(socket: Socket, session: NonNullable<Destination["session"]>): void {
  socket.on("session", (ticket: Buffer) => {
    session.ticket = ticket;
  });
}
