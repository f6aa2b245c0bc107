import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { Frames } from "../../core/http/websocket.ts";
import { countForwardedBytes } from "../runtime/memory.ts";

/**
 * The client's end of a tunnel, as http-proxy-3 sees it. The library writes to the stream that it
 * is given and closes it, whatever the backend said. So it gets this one, and the socket stays
 * ours, so that any refusal can still be sent, and in full.
 *
 * Bytes that the client sends early wait in its connection until the tunnel is open. The first write
 * is the head of the 101; every later one is the backend's frames.
 */
export class ClientStream extends Duplex {
  #socket: Socket | undefined;
  readonly #frames = new Frames();
  #open = false;

  constructor() {
    super({ decodeStrings: false });
    this.on("error", () => undefined);
  }

  /** The tunnel is agreed on: from here on the socket is the tunnel's. */
  open(socket: Socket): void {
    this.#socket = socket;
    socket.on("data", this.#take);
    socket.once("end", () => this.push(null));
    socket.resume();
  }

  /** True while a frame of the gateway may follow what the backend has sent. */
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
    // The head is the library's only text; fields are bytes, and go on as they came.
    const bytes = typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk;
    countForwardedBytes(bytes.length);
    if (this.#open) this.#frames.pass(bytes);
    this.#open = true;
    if (this.#socket?.write(bytes) === false) this.#socket.once("drain", done);
    else done();
  }

  override _final(done: () => void): void {
    this.#socket?.end();
    done();
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
