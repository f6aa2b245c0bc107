import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { Frames } from "../../core/http/websocket.ts";
import { countForwardedBytes } from "../runtime/memory.ts";

/**
 * The client's end of a tunnel, as http-proxy-3 sees it. The library writes to its stream and
 * closes it, whatever the upstream said. So it gets this stream, and the gateway keeps the socket
 * and can still send any refusal in full.
 *
 * Bytes that the client sends early wait in its connection until the tunnel is open. The first
 * write is the head of the 101; every later write is the upstream's frames.
 */
export class ClientStream extends Duplex {
  #socket: Socket | undefined;
  readonly #frames = new Frames();
  #open = false;

  constructor() {
    super({ decodeStrings: false });
    this.on("error", () => undefined);
  }

  /** The tunnel is agreed on. From here on the socket belongs to it. */
  open(socket: Socket): void {
    this.#socket = socket;
    socket.on("data", this.#take);
    socket.once("end", () => this.push(null));
    socket.resume();
  }

  /** Whether a close frame of the gateway may follow the bytes that the upstream has sent. */
  get mayClose(): boolean {
    return this.#open && this.#frames.mayClose;
  }

  // Methods of a socket that the library calls and a stream does not have.

  setTimeout(ms: number): this {
    this.#socket?.setTimeout(ms);
    return this;
  }

  setNoDelay(on: boolean): this {
    this.#socket?.setNoDelay(on);
    return this;
  }

  setKeepAlive(on: boolean, delayMs: number): this {
    this.#socket?.setKeepAlive(on, delayMs);
    return this;
  }

  destroySoon(): void {
    if (this.destroyed) return;
    this.once("finish", () => this.destroy());
    this.end();
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(chunk: Buffer | string, _encoding: string, done: () => void): void {
    // The library writes only the head as text. Fields are bytes, and are passed on unchanged.
    const bytes = typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk;
    countForwardedBytes(bytes.length);
    if (this.#open) this.#frames.pass(bytes);
    this.#open = true;
    if (this.#socket?.write(bytes) === false) this.#socket.once("drain", done);
    else done();
  }

  override _final(done: () => void): void {
    if (this.#socket === undefined) done();
    else this.#socket.end(done);
  }

  override _destroy(_error: Error | null, done: () => void): void {
    this.#socket?.off("data", this.#take);
    done();
  }

  readonly #take = (chunk: Buffer): void => {
    countForwardedBytes(chunk.length);
    if (!this.push(chunk)) this.#socket?.pause();
  };
}
