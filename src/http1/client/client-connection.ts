import type { Socket } from "node:net";
import type { ParsedResponseHead } from "../parse/response-head-parser.ts";
import { endConnection } from "../write/end-connection.ts";
import { LAST_CHUNK, takesMore, writeBodyData } from "../write/message-writer.ts";
import { copyToPool } from "./buffer-pool.ts";
import {
  encodeRequestHead,
  type OutgoingRequest,
  type RequestFailure,
} from "./outgoing-request.ts";
import { type ResponseError, type ResponseHead, ResponseParser } from "./response-parser.ts";
import { type Destination, openSocket, type SocketEvents } from "./socket.ts";

export type ClientConnectionOptions = {
  readonly destination: Destination;
  /** The most bytes of a head, and of trailers. */
  readonly headBytesMax: number;
  readonly connectTimeoutMs: number;
  /** An idle connection expires after this time, or earlier if the upstream says so. */
  readonly idleMsMax: number;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
};

/**
 * Is notified of the progress of one request, in this order; `onEnd` or `onFailure` is the last
 * call.
 */
export type ResponseHandler = {
  /**
   * Called when there is a connection: `reused` says which kind. The body may be written from now
   * on.
   */
  onStart(connection: ClientConnection): void;
  /** Called when the first bytes of the request are handed over: now the upstream may see it. */
  onSending(): void;
  /** Called when the connection takes more of the body again. */
  onDrain(): void;
  /** Called when all bytes of the request were handed over. */
  onSent(): void;
  /** Called for a status from 102 to 199. */
  onInterim(head: ParsedResponseHead): void;
  onHead(head: ResponseHead): void;
  /** Called with a piece of the body that belongs to the handler: all data of one read. */
  onData(piece: Buffer): void;
  /** Called when all data of one read was delivered and the response continues. */
  onReadEnd(): void;
  onEnd(): void;
  onFailure(failure: RequestFailure): void;
};

/**
 * The alerts by which an upstream refuses the client certificate. With TLS 1.3 they come after the
 * handshake of this side, perhaps after a request was sent (RFC 8446 4.4.2.4, 6.2).
 */
export const REFUSED_HANDSHAKE = /^ERR_SSL_.*ALERT_.*(?:CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/;

/**
 * One connection to an upstream, for one request at a time. It connects when it is needed. Bytes
 * that arrive without a request, or after the end of a response, end the connection: they belong to
 * no request, and must not become the response to the next one.
 */
export class ClientConnection implements SocketEvents {
  readonly #options: ClientConnectionOptions;
  /** Replaced for each connection, because after an error it reads nothing more. */
  #parser: ResponseParser;
  #socket: Socket | undefined;
  #connected = false;
  #connectTimer: NodeJS.Timeout | undefined;
  #request: OutgoingRequest | undefined;
  #handler: ResponseHandler | undefined;
  /** The head until it is sent, which is with the first piece of a body. */
  #heldHead: string | undefined;
  /**
   * Bytes of the body that are still to come; Infinity for a chunked body. It is -1 if there is no
   * body, and whenever there is no connection.
   */
  #bodyLeft = -1;
  #receiving = false;
  #answered = 0;
  #closes = false;
  #restsSinceMs = 0;
  #idleUntilMs = 0;

  constructor(options: ClientConnectionOptions) {
    this.#options = options;
    this.#parser = new ResponseParser(options.headBytesMax);
  }

  /** Whether the current connection has carried a response. */
  get reused(): boolean {
    return this.#answered > 0;
  }

  /** The time since the end of the last response. */
  get restedMs(): number {
    return this.#options.elapsed() - this.#restsSinceMs;
  }

  /** Whether there is a connection, or one is being made. */
  get open(): boolean {
    return this.#socket !== undefined;
  }

  /** The address that the current connection leads to; undefined if there is none. */
  protected get remoteAddress(): string | undefined {
    return this.#socket?.remoteAddress;
  }

  /**
   * Sends a request, over a new connection if there is none. Only between requests. Throws if a
   * part of its head cannot be sent safely.
   */
  send(request: OutgoingRequest, handler: ResponseHandler): void {
    this.#heldHead = encodeRequestHead(request);
    this.#request = request;
    this.#handler = handler;
    this.#receiving = false;
    this.closeIfExpired();
    if (this.#socket === undefined) this.#connect();
    else this.#start();
  }

  /**
   * Writes a piece of the body, after `onStart`. Returns false if the caller must wait for
   * `onDrain`.
   */
  write(piece: Buffer): boolean {
    if (this.#bodyLeft === -1 || piece.length === 0) return true;
    if (piece.length > this.#bodyLeft) {
      this.#lose("misframed", "the body is longer than its Content-Length");
      return true;
    }
    this.#bodyLeft -= piece.length;
    const chunked = this.#bodyLeft === Number.POSITIVE_INFINITY;
    const goesOn = writeBodyData(this.#socket as Socket, this.#heldHead ?? "", piece, chunked);
    this.#sending();
    return goesOn;
  }

  /** Writes pieces of the body, in one packet if they fit. Returns what `write` does. */
  writeTogether(pieces: readonly Buffer[]): boolean {
    const socket = this.#socket;
    socket?.cork();
    for (const piece of pieces) this.write(piece);
    socket?.uncork();
    return socket === undefined || socket !== this.#socket || takesMore(socket);
  }

  /** Ends the body. */
  end(): void {
    if (this.#bodyLeft === -1) return;
    const socket = this.#socket as Socket;
    if (this.#bodyLeft === Number.POSITIVE_INFINITY) {
      socket.write((this.#heldHead ?? "") + LAST_CHUNK, "latin1");
    } else if (this.#bodyLeft > 0) {
      this.#lose("misframed", "the body is shorter than its Content-Length");
      return;
    } else if (this.#heldHead !== undefined) {
      socket.write(this.#heldHead, "latin1");
    }
    this.#bodyLeft = -1;
    this.#sending();
    if (socket === this.#socket) this.#handler?.onSent();
  }

  /** Stops reading the response until `resume`. The rest of one read may still be delivered. */
  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  /** Ends the current request and its connection. Its handler gets no more calls. */
  abort(): void {
    this.#handler = undefined;
    this.#drop();
  }

  /** Makes the next request use a new connection. Only between requests. */
  renew(): void {
    this.#closeInOrder();
  }

  /** Closes the connection if it was idle for too long. Only between requests. */
  closeIfExpired(): void {
    if (this.#socket !== undefined && this.#options.elapsed() >= this.#idleUntilMs)
      this.#closeInOrder();
  }

  /** Ends the connection: at once if it is idle, otherwise after the current response. */
  close(): void {
    this.#closes = true;
    if (this.#handler === undefined) this.#closeInOrder();
  }

  // Called by the socket.

  onConnect(socket: Socket): void {
    if (socket !== this.#socket) return;
    clearTimeout(this.#connectTimer);
    this.#connected = true;
    this.#start();
  }

  onRead(socket: Socket, bytes: Buffer, size: number): void {
    if (socket !== this.#socket) return;
    const handler = this.#handler;
    if (handler === undefined) {
      this.#closeInOrder();
      return;
    }
    this.#receiving = true;
    const parser = this.#parser;
    let at = 0;
    // A callback may have ended this connection and begun the next one.
    while (socket === this.#socket) {
      const step = parser.step(bytes, at, size);
      at = parser.at;
      switch (step) {
        case "interim":
          handler.onInterim(parser.interim as ParsedResponseHead);
          break;
        case "head":
          handler.onHead(parser.head as ResponseHead);
          break;
        case "data":
          handler.onData(copyToPool(bytes, parser.dataFrom, parser.dataTo));
          break;
        case "more":
          handler.onReadEnd();
          return;
        case "end":
          this.#finish(size - at);
          return;
        case "wrong":
          this.#lose("invalid", parser.error as ResponseError);
          return;
      }
    }
  }

  onDrain(socket: Socket): void {
    if (socket === this.#socket && this.#bodyLeft !== -1) this.#handler?.onDrain();
  }

  onEnd(socket: Socket): void {
    if (socket !== this.#socket) return;
    if (this.#parser.untilClose) this.#finish(0);
    else this.#ended("closed");
  }

  onClose(socket: Socket, why: string): void {
    if (socket === this.#socket) this.#ended(why);
  }

  #connect(): void {
    const { destination, connectTimeoutMs, headBytesMax } = this.#options;
    this.#parser = new ResponseParser(headBytesMax);
    const socket = openSocket(destination, this);
    this.#socket = socket;
    const giveUp = () => {
      if (socket === this.#socket && !this.#connected) this.#ended("timeout");
    };
    // Timers run before sockets: a connection that was made while the process stood still is found.
    const late = () => setImmediate(() => setImmediate(giveUp));
    this.#connectTimer = setTimeout(late, connectTimeoutMs);
  }

  #start(): void {
    const { method, body } = this.#request as OutgoingRequest;
    this.#bodyLeft = body === "chunked" ? Number.POSITIVE_INFINITY : (body ?? 0);
    this.#parser.start(method);
    this.#handler?.onStart(this);
    if (this.#bodyLeft === 0) this.end();
  }

  #sending(): void {
    if (this.#heldHead === undefined) return;
    this.#heldHead = undefined;
    this.#handler?.onSending();
  }

  /** `bytesLeft` is the number of bytes that came after the end of the response. */
  #finish(bytesLeft: number): void {
    const handler = this.#handler as ResponseHandler;
    const { keepsAlive, keepAliveS } = this.#parser.head as ResponseHead;
    const isUploading = this.#bodyLeft !== -1;
    this.#handler = undefined;
    this.#request = undefined;
    this.#answered += 1;
    // If the response ended before the request was complete, the rest of it must not be sent.
    if (isUploading) this.#drop();
    else if (bytesLeft > 0 || this.#closes || !keepsAlive) this.#closeInOrder();
    else this.#rest(keepAliveS);
    handler.onEnd();
  }

  /** Expires a second before the upstream says, so that no request meets a closing connection. */
  #rest(keepAliveS: number | undefined): void {
    const { idleMsMax, elapsed } = this.#options;
    const saidMs = keepAliveS === undefined ? idleMsMax : keepAliveS * 1_000 - 1_000;
    this.#restsSinceMs = elapsed();
    this.#idleUntilMs = this.#restsSinceMs + Math.min(idleMsMax, saidMs);
    // The end of a connection is noticed only while it is read.
    this.resume();
  }

  /** Called when the upstream ends the connection after a response and before another. */
  protected onClosedIdle(): void {}

  #ended(why: string): void {
    if (this.reused && (this.#handler === undefined || !this.#receiving)) this.onClosedIdle();
    const isRefused = !this.#receiving && !this.reused && REFUSED_HANDSHAKE.test(why);
    if (!this.#connected || isRefused) this.#lose("unreached", why);
    else this.#lose(this.#receiving ? "cut" : "unanswered", why);
  }

  #lose(kind: RequestFailure["kind"], why: string): void {
    const handler = this.#handler;
    const { reused } = this;
    const sent = this.#heldHead === undefined;
    this.#handler = undefined;
    if (handler === undefined) this.#closeInOrder();
    else this.#drop();
    handler?.onFailure({ kind, why, sent, reused });
  }

  /** Ends the connection in order, between requests. */
  #closeInOrder(): void {
    if (this.#socket !== undefined) endConnection(this.#socket);
    this.#drop();
  }

  /** Cuts the connection. A request that was not sent yet may use the next one. */
  #drop(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#connected = false;
    this.#answered = 0;
    this.#bodyLeft = -1;
    clearTimeout(this.#connectTimer);
    socket?.destroy();
  }
}
