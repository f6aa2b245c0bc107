import { connect, type Socket } from "node:net";
import { AbstractConnector } from "ioredis";
import type { HostPort } from "../../../core/address.ts";

const READ_BYTES_MAX = 65_536;
/** All connections read into this buffer in turn. What is read is copied out at once. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES_MAX);

/**
 * Opens a plain connection that reads into one buffer, by Node's `onread`. A stream would get 64 KiB
 * of its own for each reply, a sixth of what a call costs this process (docs/decisions/hot-path.md).
 */
export function openDirectSocket({ host, port }: HostPort): Socket {
  const callback = (size: number) => {
    const bytes = Buffer.allocUnsafe(size);
    shared.copy(bytes, 0, 0, size);
    socket.emit("data", bytes);
    return true;
  };
  const socket = connect({ host, port, onread: { buffer: shared, callback } });
  return socket;
}

type DirectOptions = HostPort & { readonly disconnectTimeout?: number };

/** Has ioredis use such a connection. */
export class DirectConnector extends AbstractConnector {
  readonly #options: DirectOptions;

  constructor(options: unknown) {
    const given = options as DirectOptions;
    super(given.disconnectTimeout as number);
    this.#options = given;
  }

  override async connect(): Promise<Socket> {
    this.connecting = true;
    const socket = openDirectSocket(this.#options);
    socket.once("error", (error) => {
      this.firstError = error;
    });
    this.stream = socket;
    return socket;
  }
}
