import { Socket } from "node:net";

/** The most bytes that one read takes: as many as Node gives a stream. */
const READ_BYTES_MAX = 65_536;
/** All connections read into this buffer in turn. Bytes to keep are copied at once. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES_MAX);

/** Called with bytes read. `bytes`, up to `size`, may be used only until the call returns. */
type OnRead = (bytes: Buffer, size: number) => void;

/**
 * Where Node keeps what `onread` of `net.connect` sets, which a server cannot set for the sockets
 * that it accepts. Undefined in a Node that keeps it elsewhere.
 */
const { kBuffer, kBufferCb } = Object.fromEntries(
  Object.getOwnPropertySymbols(new Socket()).map((symbol) => [symbol.description, symbol]),
);

type Internals = Socket & {
  [symbol: symbol]: unknown;
  readonly _handle?: { readonly useUserBuffer?: (bytes: Buffer) => void } | null;
};

/**
 * Has an accepted connection read into one buffer that it shares with all others, in place of a
 * stream's 64 KiB of its own for each read (docs/decisions/hot-path.md). Over TLS the bytes are
 * decrypted. Returns false, and changes nothing, if something was read already, and in a Node that
 * does not have what this needs: the connection is then read as a stream.
 */
export function readDirectly(accepted: Socket, onRead: OnRead): boolean {
  const socket = accepted as Internals;
  const handle = socket._handle;
  if (kBuffer === undefined || kBufferCb === undefined || socket.readableLength > 0) return false;
  if (typeof handle?.useUserBuffer !== "function") return false;
  socket[kBuffer] = shared;
  socket[kBufferCb] = (size: number) => onRead(shared, size);
  handle.useUserBuffer(shared);
  return true;
}

/** Has such a connection deliver what it reads from now on as the stream that it is. */
export function readAsStream(accepted: Socket): void {
  const socket = accepted as Internals;
  if (kBuffer === undefined || kBufferCb === undefined || socket[kBuffer] !== shared) return;
  socket[kBufferCb] = (size: number) => socket.push(copyOf(shared, 0, size));
}

/** A copy of a part of `bytes`: in a buffer of its own, which keeps nothing else alive. */
export function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafeSlow(to - from);
  bytes.copy(copy, 0, from, to);
  return copy;
}
