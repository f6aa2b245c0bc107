import {
  connect,
  type LookupFunction,
  type OnReadOpts,
  Socket,
  type TcpSocketConnectOpts,
} from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { READ_BYTES_MAX } from "./buffer-pool.ts";

/** The address of a connection, and how it is secured. */
export type Destination = {
  /** A name or an address, IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  /** Undefined for plain TCP; else the certificates to trust and the name to send and verify. */
  readonly tls: ConnectionOptions | undefined;
  /** Finds the addresses of `host`; undefined for the system's lookup. */
  readonly lookup?: LookupFunction | undefined;
  /** The last TLS session with this destination. The next connection resumes it (RFC 8446 2.2). */
  readonly session?: { ticket: Buffer | undefined };
  /** Counts the sockets that are open, and says whether there may be another one. */
  readonly sockets?: SocketCount;
};

type SocketCount = { readonly isFull: boolean; opened(): void; closed(): void };

export type SocketEvents = {
  /** Called when the connection is made, and over TLS when the other side has been verified. */
  onConnect(socket: Socket): void;
  /** Called with bytes read. `bytes`, up to `size`, may be used only until the call returns. */
  onRead(socket: Socket, bytes: Buffer, size: number): void;
  /** Called when the connection takes more bytes again. */
  onDrain(socket: Socket): void;
  /** Called when the other side has ended in order. */
  onEnd(socket: Socket): void;
  /** Called once, after all other events. `why`: the code of an error, or `closed`. */
  onClose(socket: Socket, why: string): void;
};

/** All connections read into this buffer in turn. Data to keep is copied at once. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES_MAX);

/**
 * Opens a connection that reads without allocating, by Node's `onread` instead of a stream. If there
 * are as many as the open files of the process allow, it fails as it does when the system has none left.
 */
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
  const socket = open(to, destination);
  socket.setNoDelay(true);
  const findReset = outliveWriteErrors(socket, (code) => {
    why = code;
  });
  socket.once(tls === undefined ? "connect" : "secureConnect", () => events.onConnect(socket));
  socket.on("drain", () => events.onDrain(socket));
  let hasFailed = false;
  socket.on("error", (error: NodeJS.ErrnoException) => {
    hasFailed = true;
    why = error.code ?? error.name;
  });
  // After an alert, and after bytes that it cannot decrypt, Node reports an end as well.
  socket.once("end", () => {
    const reset = tls === undefined && !hasFailed ? findReset() : undefined;
    if (reset !== undefined) socket.destroy(reset);
    else if (!hasFailed) events.onEnd(socket);
  });
  socket.once("close", () => events.onClose(socket, why));
  return socket;
}

/**
 * Keeps a connection open when its other side takes no more. Node destroys a socket when a write
 * fails, and loses the bytes that the other side sent before. An upstream that responds early and
 * closes has responded (docs/reference/edge.md#early-answers). The reading side reports the end, as
 * an end or an error.
 *
 * Returns a function that finds the reset behind an end. Node 22 reports an end for a reset that it
 * reads together with bytes. The next write fails at once then, even one of no bytes.
 */
function outliveWriteErrors(
  socket: Socket,
  onFailed: (code: string) => void,
): () => Error | undefined {
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
  if (writeMany !== undefined) {
    socket._writev = (chunks, done) => {
      if (isBroken) done();
      else writeMany.call(socket, chunks, watched(done));
    };
  }
  return () => {
    if (isBroken) return undefined;
    let failure: NodeJS.ErrnoException | null | undefined;
    write.call(socket, "", "latin1", (error) => {
      failure = error;
    });
    return failure?.code === "ECONNRESET" ? failure : undefined;
  };
}

/** An error as the system reports it when no file is left. */
export function filesShortage(): Error {
  return Object.assign(new Error("too many connections to upstreams"), { code: "EMFILE" });
}

function open(to: Reading, { tls, session, sockets }: Destination): Socket {
  if (sockets?.isFull) return new Socket().destroy(filesShortage());
  const socket = tls === undefined ? connect(to) : secure(to, tls, session);
  if (sockets) countOpen(socket, sockets);
  return socket;
}

/** Counts a socket until it is closed. */
export function countOpen(socket: Socket, sockets: SocketCount): void {
  sockets.opened();
  socket.once("close", () => sockets.closed());
}

type Reading = TcpSocketConnectOpts & { readonly onread: OnReadOpts };

/** Node documents `onread` for TLS too, with decrypted bytes. The types do not declare it. */
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
