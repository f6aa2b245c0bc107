import type { Socket } from "node:net";
import type { ParsedResponseHead } from "../parse/response-head-parser.ts";
import { LAST_CHUNK, writeBodyData } from "../write/message-writer.ts";
import { copyToPool } from "./buffer-pool.ts";
import {
  encodeRequestHead,
  type OutgoingRequest,
  type RequestFailure,
} from "./outgoing-request.ts";
import {
  type ResponseError,
  type ResponseHead,
  type ResponseLimits,
  ResponseParser,
} from "./response-parser.ts";
import { type Destination, openSocket, type SocketEvents } from "./socket.ts";

export type ClientConnectionOptions = {
  readonly destination: Destination;
  readonly limits: ResponseLimits;
  readonly connectTimeoutMs: number;
  /** An idle connection older than this expires; earlier if the backend says so. */
  readonly idleMsMax: number;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
};

/** Is told how one request goes, in this order; `onEnd` or `onLost` is the last. */
export type ResponseHandler = {
  /** There is a connection: `reused` says which, and the body may be written from here on. */
  onStart(connection: ClientConnection): void;
  /** The first bytes of the request were handed over: from here on the backend may see it. */
  onSending(): void;
  /** The connection takes more of the body again. */
  onDrain(): void;
  /** All bytes of the request were handed over. */
  onSent(): void;
  /** The first bytes of a response came. */
  onReceiving(): void;
  /** 102 to 199. */
  onInterim(head: ParsedResponseHead): void;
  onHead(head: ResponseHead): void;
  /** A piece of the body, the handler's own: all that one read brought. */
  onData(piece: Buffer): void;
  /** All that one read brought was told, and the response goes on. */
  onReadEnd(): void;
  onEnd(): void;
  onFailure(loss: RequestFailure): void;
};

/**
 * One connection to a backend, for one request at a time; it connects when it is needed. Whatever
 * comes while nothing is asked, or behind the end of a response, ends it: those bytes belong to no
 * request, and the next one must not be answered by them.
 */
export class ClientConnection implements SocketEvents {
  readonly #options: ClientConnectionOptions;
  /** A new one with each connection: once something was wrong, it reads nothing more. */
  #reader: ResponseParser;
  #socket: Socket | undefined;
  #connected = false;
  #connectTimer: NodeJS.Timeout | undefined;
  #request: OutgoingRequest | undefined;
  #handler: ResponseHandler | undefined;
  /** The head, until its first byte goes out: with the body's first piece, where there is a body. */
  #heldHead: string | undefined;
  /**
   * Bytes of the body that are still to come; Infinity for a chunked one. -1 for none: so it is
   * wherever there is no connection.
   */
  #bodyLeft = -1;
  #receiving = false;
  #answered = 0;
  #closes = false;
  #idleUntilMs = 0;

  constructor(options: ClientConnectionOptions) {
    this.#options = options;
    this.#reader = new ResponseParser(options.limits);
  }

  /** The present connection has carried a response. */
  get reused(): boolean {
    return this.#answered > 0;
  }

  /** There is a connection, or one is being made. */
  get open(): boolean {
    return this.#socket !== undefined;
  }

  /**
   * Sends a request, over a new connection where there is none. Only between requests. Throws where
   * a part of its head cannot be sent as what it is.
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

  /** A piece of the body, from `onStart` on. False where no more should come before `onDrain`. */
  write(piece: Buffer): boolean {
    if (this.#bodyLeft === -1 || piece.length === 0) return true;
    if (piece.length > this.#bodyLeft) {
      this.#lose("misframed", "the body is longer than its Content-Length");
      return true;
    }
    this.#bodyLeft -= piece.length;
    const chunked = this.#bodyLeft === Number.POSITIVE_INFINITY;
    const takesMore = writeBodyData(this.#socket as Socket, this.#heldHead ?? "", piece, chunked);
    this.#sending();
    return takesMore;
  }

  /** The body is whole. */
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

  /** Reads no more of the response until `resume`; the rest of one read may still come. */
  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  /** Ends the request under way, and its connection. Its handler is told nothing more. */
  abort(): void {
    this.#handler = undefined;
    this.#drop();
  }

  /** The next request goes over a new connection. Only between requests. */
  renew(): void {
    this.#drop();
  }

  /** Closes the connection if it was idle for too long. Only between requests. */
  closeIfExpired(): void {
    if (this.#socket !== undefined && this.#options.elapsed() >= this.#idleUntilMs) this.#drop();
  }

  /** Ends the connection: at once where it is idle, else behind the response under way. */
  close(): void {
    this.#closes = true;
    if (this.#handler === undefined) this.#drop();
  }

  // The socket calls these.

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
      this.#drop();
      return;
    }
    if (!this.#receiving) {
      this.#receiving = true;
      handler.onReceiving();
    }
    const reader = this.#reader;
    let at = 0;
    // A callback may have ended this connection, and begun the next.
    while (socket === this.#socket) {
      const step = reader.step(bytes, at, size);
      at = reader.at;
      switch (step) {
        case "interim":
          handler.onInterim(reader.interim as ParsedResponseHead);
          break;
        case "head":
          handler.onHead(reader.head as ResponseHead);
          break;
        case "data":
          handler.onData(copyToPool(bytes, reader.dataFrom, reader.dataTo));
          break;
        case "more":
          handler.onReadEnd();
          return;
        case "end":
          this.#finish(size - at);
          return;
        case "wrong":
          this.#lose("invalid", reader.wrong as ResponseError);
          return;
      }
    }
  }

  onDrain(socket: Socket): void {
    if (socket === this.#socket && this.#bodyLeft !== -1) this.#handler?.onDrain();
  }

  onEnd(socket: Socket): void {
    if (socket !== this.#socket) return;
    if (this.#reader.untilClose) this.#finish(0);
    else this.#ended("closed");
  }

  onClose(socket: Socket, why: string): void {
    if (socket === this.#socket) this.#ended(why);
  }

  #connect(): void {
    const { destination, connectTimeoutMs, limits } = this.#options;
    this.#reader = new ResponseParser(limits);
    this.#socket = openSocket(destination, this);
    this.#connectTimer = setTimeout(() => this.#ended("timeout"), connectTimeoutMs);
  }

  #start(): void {
    const { method, body } = this.#request as OutgoingRequest;
    this.#bodyLeft = body === "chunked" ? Number.POSITIVE_INFINITY : (body ?? 0);
    this.#reader.start(method);
    this.#handler?.onStart(this);
    if (this.#bodyLeft === 0) this.end();
  }

  #sending(): void {
    if (this.#heldHead === undefined) return;
    this.#heldHead = undefined;
    this.#handler?.onSending();
  }

  /** `bytesLeft`: the bytes that came after the end of the response. */
  #finish(bytesLeft: number): void {
    const handler = this.#handler as ResponseHandler;
    const { keepsAlive, keepAliveS } = this.#reader.head as ResponseHead;
    const isUploading = this.#bodyLeft !== -1;
    this.#handler = undefined;
    this.#request = undefined;
    this.#answered += 1;
    // Where the response came before the request was whole, the rest of it must go nowhere.
    if (bytesLeft > 0 || this.#closes || !keepsAlive || isUploading) this.#drop();
    else this.#rest(keepAliveS);
    handler.onEnd();
  }

  /** A second less than the backend says: it must not close while a request is on its way. */
  #rest(keepAliveS: number | undefined): void {
    const { idleMsMax, elapsed } = this.#options;
    const saidMs = keepAliveS === undefined ? idleMsMax : keepAliveS * 1_000 - 1_000;
    this.#idleUntilMs = elapsed() + Math.min(idleMsMax, saidMs);
    // Its end is seen only where it is read.
    this.resume();
  }

  #ended(why: string): void {
    if (!this.#connected) this.#lose("unreached", why);
    else this.#lose(this.#receiving ? "cut" : "unanswered", why);
  }

  #lose(kind: RequestFailure["kind"], why: string): void {
    const handler = this.#handler;
    const { reused } = this;
    const sent = this.#heldHead === undefined;
    this.#handler = undefined;
    this.#drop();
    handler?.onFailure({ kind, why, sent, reused });
  }

  /** Ends the connection; a request that was not sent yet may go over the next one. */
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
