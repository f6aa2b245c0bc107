import type { Socket } from "node:net";

const LOOK_MS = 100;

/**
 * Ends a connection on which nothing is read for `silenceMs`, or up to 100 ms longer, while commands
 * wait for replies. It counts looks, with the sockets read between two of them, so a process that
 * stood still finds the replies that came meanwhile. A timer for each command would cost more than
 * all of this (docs/decisions/hot-path.md).
 */
export class SilenceWatch {
  readonly #looksMax: number;
  readonly #isWaiting: () => boolean;
  #socket: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #bytesRead = 0;
  #silentLooks = 0;

  constructor(silenceMs: number, isWaiting: () => boolean) {
    this.#looksMax = Math.ceil(silenceMs / LOOK_MS);
    this.#isWaiting = isWaiting;
  }

  /** Called when a command was sent on the connection. */
  begin(socket: Socket): void {
    if (this.#socket === socket) return;
    this.#end();
    this.#socket = socket;
    this.#bytesRead = socket.bytesRead;
    this.#silentLooks = 0;
    this.#timer = setInterval(() => this.#look(socket), LOOK_MS).unref();
  }

  #look(socket: Socket): void {
    const isSilent = socket.bytesRead === this.#bytesRead;
    this.#bytesRead = socket.bytesRead;
    const isWaiting = this.#isWaiting();
    this.#silentLooks = isSilent && isWaiting ? this.#silentLooks + 1 : 0;
    const isStuck = this.#silentLooks > this.#looksMax;
    if (socket.destroyed || isStuck || (isSilent && !isWaiting)) this.#end();
    if (isStuck) socket.destroy(new Error("it does not reply"));
  }

  #end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#socket = undefined;
  }
}
