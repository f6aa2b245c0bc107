import { Readable } from "node:stream";
import type { Exchange } from "../exchange/exchange.ts";
import { countPassedBytes } from "../node/free-buffers.ts";

/**
 * The body on its way to the backend: counts it against the limit, and tells the exchange that it
 * makes progress. A stream of its own, because the client library destroys the stream that it is
 * given, and with the request itself would go the client's connection.
 */
export class RequestBody extends Readable {
  readonly #exchange: Exchange;
  #bytesLeft: number;

  constructor(exchange: Exchange, bytesMax: number) {
    super({ highWaterMark: 65_536 });
    this.#exchange = exchange;
    this.#bytesLeft = bytesMax;
    const { request } = exchange;
    request.on("data", (chunk: Buffer) => this.#take(chunk));
    request.on("end", () => this.push(null));
    request.pause();
  }

  /** True while the backend has not taken what the client has sent: then the wait is not the client's. */
  get held(): boolean {
    return this.readableLength > 0 || this.#exchange.request.readableLength > 0;
  }

  override _read(): void {
    this.#exchange.request.resume();
  }

  #take(chunk: Buffer): void {
    this.#bytesLeft -= chunk.length;
    countPassedBytes(chunk.length);
    if (this.destroyed) return;
    if (this.#bytesLeft < 0) {
      this.#exchange.breaks({ code: "body_too_large", why: "the body went on past the limit" });
    } else if (!this.push(chunk)) {
      this.#exchange.request.pause();
    }
  }
}
