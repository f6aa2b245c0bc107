import { bodyTooLargeMessage } from "../../core/http/head.ts";
import type { ClientConnection } from "../../http1/client/client-connection.ts";
import type { BodySink } from "../../http1/server/incoming-request.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { countForwardedBytes } from "../runtime/memory.ts";

/**
 * The body on its way to the upstream, piece by piece as it arrives, and counted against the limit.
 * The client's body waits while there is no connection that takes it.
 */
export class RequestBody implements BodySink {
  readonly #exchange: Exchange;
  readonly #elapsed: () => number;
  readonly #bytesMax: number;
  #bytesLeft: number;
  #connection: ClientConnection | undefined;
  #over = false;
  #pieces: Buffer[] = [];
  /**
   * Whether the upstream has not taken all that the client has sent: then the client is not to
   * blame for the wait.
   */
  held = false;

  /** `elapsed` is the clock of the exchange. Each piece counts as progress on it. */
  constructor(exchange: Exchange, bytesMax: number, elapsed: () => number) {
    this.#exchange = exchange;
    this.#elapsed = elapsed;
    this.#bytesMax = bytesMax;
    this.#bytesLeft = bytesMax;
    exchange.request.hold();
  }

  sendTo(connection: ClientConnection): void {
    this.#connection = connection;
    this.held = false;
    this.#exchange.request.read(this);
    this.#send();
  }

  /**
   * The connection carries another request from now on. What it has not taken waits for the next
   * one.
   */
  leave(): void {
    this.#connection = undefined;
    if (this.#over) return;
    this.held = true;
    this.#exchange.request.hold();
  }

  /** The connection takes more bytes again. */
  drained(): void {
    this.held = false;
    if (!this.#over) this.#exchange.request.resume();
  }

  /** Sends no more of the body to an upstream. */
  stop(): void {
    this.#over = true;
    this.#pieces = [];
    this.#connection = undefined;
  }

  // Called by the request.

  /** A piece is sent once the whole read was judged, so that a fault is found before. */
  onBodyData(chunk: Buffer): void {
    this.#bytesLeft -= chunk.length;
    countForwardedBytes(chunk.length);
    if (this.#over) return;
    this.#exchange.progress(this.#elapsed());
    if (this.#bytesLeft < 0) {
      this.#exchange.onRequestError({
        code: "body_too_large",
        why: "the body went on past the limit",
        message: bodyTooLargeMessage(this.#bytesMax),
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
    if (pieces.length === 0 || this.#connection === undefined) return;
    this.#pieces = [];
    if (this.#connection.writeTogether(pieces) || this.#over) return;
    this.held = true;
    this.#exchange.request.pause();
  };
}
