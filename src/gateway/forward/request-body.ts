import type { ClientConnection } from "../../http1/client/client-connection.ts";
import type { BodySink } from "../../http1/server/incoming-request.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { countForwardedBytes } from "../runtime/memory.ts";

/**
 * The body on its way to the backend, piece by piece as it comes, and counted against the limit. The
 * client's request waits until there is a connection that takes it.
 */
export class RequestBody implements BodySink {
  readonly #exchange: Exchange;
  readonly #elapsed: () => number;
  #bytesLeft: number;
  #connection: ClientConnection | undefined;
  #over = false;
  #pieces: Buffer[] = [];
  /**
   * The backend has not taken all that the client has sent: then the wait is not the client's.
   */
  held = false;

  /** `elapsed` is the clock of the exchange, by which each piece is progress. */
  constructor(exchange: Exchange, bytesMax: number, elapsed: () => number) {
    this.#exchange = exchange;
    this.#elapsed = elapsed;
    this.#bytesLeft = bytesMax;
  }

  sendTo(connection: ClientConnection): void {
    this.#connection = connection;
    this.#exchange.request.read(this);
  }

  /** The connection takes more again. */
  drained(): void {
    this.held = false;
    if (!this.#over) this.#exchange.request.resume();
  }

  /** Nothing more of it goes to a backend. */
  stop(): void {
    this.#over = true;
    this.#connection = undefined;
  }

  // The request calls these.

  /** A piece goes on when the whole read was judged: a fault in it is found before a byte is sent. */
  onBodyData(chunk: Buffer): void {
    this.#bytesLeft -= chunk.length;
    countForwardedBytes(chunk.length);
    if (this.#over) return;
    this.#exchange.progress(this.#elapsed());
    if (this.#bytesLeft < 0) {
      this.#exchange.onRequestError({
        code: "body_too_large",
        why: "the body went on past the limit",
      });
    } else if (this.#pieces.push(chunk) === 1) {
      queueMicrotask(this.#send);
    }
  }

  onBodyEnd(): void {
    this.#send();
    this.#connection?.end();
  }

  readonly #send = (): void => {
    const pieces = this.#pieces;
    this.#pieces = [];
    for (const piece of pieces) {
      if (this.#connection?.write(piece) !== false || this.#over) continue;
      this.held = true;
      this.#exchange.request.pause();
    }
  };
}
