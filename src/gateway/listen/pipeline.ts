import type { Socket } from "node:net";
import type { Exchange } from "../exchange/exchange.ts";

const pipelines = new WeakMap<Socket, Pipeline>();
/** Requests that a client may send ahead of their answers before we stop reading from it. */
const AHEAD_MAX = 16;

/**
 * The exchanges of one client connection, one at a time and in order: a pipelined request waits for
 * the answer before it, so a client has at most one request at a backend, and is decided in the
 * order in which it asked.
 */
export class Pipeline {
  readonly #socket: Socket;
  readonly #queue: { exchange: Exchange; start: (exchange: Exchange) => void }[] = [];
  #holding = false;
  current: Exchange | undefined;
  /** Written after the last answer, where the bytes after it were no request. */
  lastWords: (() => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static of(socket: Socket): Pipeline {
    let pipeline = pipelines.get(socket);
    if (pipeline === undefined) {
      pipeline = new Pipeline(socket);
      pipelines.set(socket, pipeline);
    }
    return pipeline;
  }

  /** Starts the exchange when its turn comes; never, where an answer before it closes. */
  enter(exchange: Exchange, start: (exchange: Exchange) => void): void {
    if (this.#closing) return;
    if (this.current === undefined) {
      this.current = exchange;
      start(exchange);
      return;
    }
    this.#queue.push({ exchange, start });
    this.#holdBack();
  }

  leave(exchange: Exchange): void {
    // The last one of a connection stays the current one: no upgrade may follow it either.
    if (this.current !== exchange || this.#closing) return;
    this.current = undefined;
    const next = this.#queue.shift();
    if (next !== undefined && this.#queue.length === AHEAD_MAX - 1) this.#socket.resume();
    this.#holdBack();
    if (next !== undefined) {
      this.current = next.exchange;
      next.start(next.exchange);
    } else if (this.lastWords !== undefined) {
      this.lastWords();
    }
  }

  /**
   * Stops reading where enough is waiting. Node goes on reading at the end of each request that it
   * parses, and says so in a tick: only what comes after those of this piece of 64 KiB counts.
   */
  #holdBack(): void {
    if (this.#holding || this.#queue.length < AHEAD_MAX) return;
    this.#holding = true;
    queueMicrotask(() => {
      this.#holding = false;
      if (this.#queue.length >= AHEAD_MAX) this.#socket.pause();
    });
  }

  /**
   * The last response has been sent or cut. Requests behind it must not be acted on: they would be
   * charged and forwarded without ever being answered (RFC 9112 9.6).
   */
  get #closing(): boolean {
    return this.#socket.destroyed || this.#socket.writableEnded;
  }

  /** The exchange that the client's next bytes belong to. */
  get latest(): Exchange | undefined {
    return this.#queue.at(-1)?.exchange ?? this.current;
  }
}
