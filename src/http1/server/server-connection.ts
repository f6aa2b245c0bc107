import type { Socket } from "node:net";
import { BodyParser } from "../parse/body-parser.ts";
import { ReadBuffer } from "../parse/read-buffer.ts";
import { RequestHeadParser } from "../parse/request-head-parser.ts";
import { IncomingRequest, type RequestError } from "./incoming-request.ts";
import { ResponseWriter } from "./response-writer.ts";
import { type ServerLimits, trailerLimits } from "./server-limits.ts";

/** Serves what comes in on connections. */
export type ServerHandler = {
  /** May be replaced: what is asked later goes by what is there then. */
  readonly limits: ServerLimits;
  onRequest(request: IncomingRequest, answer: ResponseWriter, connection: ServerConnection): void;
  /**
   * Gives the whole answer, as it is to be sent, to bytes that are no request, or came too late. The
   * connection ends with it. `method` is "" where none was read.
   */
  errorResponse(wrong: RequestError, method: string): string;
  /** The body of the request under way is wrong or late: `request.wrong` says why. */
  onRequestError(request: IncomingRequest, answer: ResponseWriter): void;
  /** The last answer is out or on its way, and what the client still sends is read and discarded. */
  onLinger(connection: ServerConnection): void;
};

/**
 * A state of the reading side: whether bytes are parsed as HTTP, and how long the connection may be in
 * it before it is refused with a 408, its request broken, or all of it destroyed.
 */
type Reading = {
  readonly parses: boolean;
  readonly limit?: "headersTimeoutMs" | "idleTimeoutMs" | "requestTimeoutMs" | "lingerMs";
  readonly onLate?: "refuse" | "break" | "destroy";
};

const READING = {
  /** No byte has come. The first head has one limit, from the connection to its end. */
  connected: { parses: true, limit: "headersTimeoutMs", onLate: "refuse" },
  /** Between a response and the first byte of the next head. */
  idle: { parses: true, limit: "idleTimeoutMs", onLate: "destroy" },
  head: { parses: true, limit: "headersTimeoutMs", onLate: "refuse" },
  body: { parses: true, limit: "requestTimeoutMs", onLate: "break" },
  /** The request is whole, or broken: what the client sends ahead waits for the response. */
  ahead: { parses: true },
  /** The last response is out, or on its way: what comes is discarded. */
  lingering: { parses: false, limit: "lingerMs", onLate: "destroy" },
  /** The socket belongs to another protocol. */
  detached: { parses: false },
  closed: { parses: false },
} as const satisfies Record<string, Reading>;

/**
 * A client's connection. Reads one request at a time: what the client sends ahead waits as it is,
 * unread, until the answer before it is out; and once something was wrong, no byte is read as HTTP
 * any more. Its socket must allow half-open connections. Time passes with `tick` alone, so that
 * limits of time hold late by the time between two ticks, and never early.
 */
export class ServerConnection {
  readonly socket: Socket;
  /** The owner's: when it last brought a request that counts as use, on the clock of `tick`. */
  usedMs = 0;
  readonly #handler: ServerHandler;
  readonly #heads: RequestHeadParser;
  readonly #body = new BodyParser();
  readonly #ahead = new ReadBuffer();
  #reading: Reading = READING.connected;
  /** The writing side: the response under way, with its request. It keeps its own state. */
  #writing: ResponseWriter | undefined;
  /** Bytes are being parsed: whatever its callbacks ask for waits until it returns. */
  #isParsing = false;
  /** When the first tick saw the present state; -1 before. */
  #sinceMs = -1;
  /** While it lingers: whether bytes came since the last tick, and when the last ones were seen. */
  #hasDiscarded = false;
  #quietSinceMs = -1;

  constructor(socket: Socket, handler: ServerHandler) {
    this.socket = socket;
    this.#handler = handler;
    this.#heads = new RequestHeadParser(handler.limits);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("drain", this.#onDrain);
    socket.on("error", ignore);
    socket.once("close", () => {
      this.#enter(READING.closed);
      this.#writing?.closed();
    });
  }

  /** No request is under way, and no byte of one has come. */
  get idle(): boolean {
    return this.#reading === READING.connected || this.#reading === READING.idle;
  }

  /** A response is owed to the client, or the socket belongs to another protocol. */
  get inUse(): boolean {
    if (!this.#reading.parses) return this.#reading === READING.detached;
    return this.#writing !== undefined && !this.#writing.finished;
  }

  /** False from the moment at which the connection was destroyed: what came with it is not read. */
  get #reads(): boolean {
    return this.#reading.parses && !this.socket.destroyed;
  }

  /** Bytes that came and were not read yet: then it is not the client that is waited for. */
  get bytesAhead(): number {
    return this.#ahead.length;
  }

  /** Ends the connection if it is idle, so that no response is lost. */
  closeIdle(): void {
    if (this.idle) this.socket.destroy();
  }

  /**
   * Gives the socket away, paused, for an upgrade: bytes that were not read as HTTP yet are the
   * first that it brings. Only while a request is under way.
   */
  detachSocket(): Socket {
    const { socket } = this;
    this.#enter(READING.detached);
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    socket.pause();
    // Called from within `onRequest`, what is left is given back when the reading returns.
    if (!this.#isParsing) this.#giveBack(this.#ahead.bytes, this.#ahead.from, this.#ahead.to);
    return socket;
  }

  /** Time has passed. To be called a few times a second, with a clock that never goes back. */
  tick(nowMs: number): void {
    const { limit, onLate } = this.#reading;
    if (limit === undefined || this.socket.destroyed) return;
    if (this.#sinceMs === -1) this.#sinceMs = nowMs;
    if (this.#reading === READING.lingering && this.#isQuiet(nowMs)) this.socket.destroy();
    if (nowMs - this.#sinceMs < this.#handler.limits[limit]) return;
    if (onLate === "refuse") this.#refuse("timeout");
    else if (onLate === "break") this.#break("timeout");
    else this.socket.destroy();
  }

  /** Nothing came for so long that what was answered has arrived, or never will. */
  #isQuiet(nowMs: number): boolean {
    if (this.#hasDiscarded || this.#quietSinceMs === -1) this.#quietSinceMs = nowMs;
    this.#hasDiscarded = false;
    return nowMs - this.#quietSinceMs >= this.#handler.limits.lingerIdleMs;
  }

  #enter(reading: Reading): void {
    this.#reading = reading;
    this.#sinceMs = -1;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#reading === READING.lingering) {
      this.#hasDiscarded = true;
    } else if (this.#ahead.length > 0 || this.#isParsing) {
      this.#ahead.append(chunk, 0, chunk.length);
      this.#holdBack();
    } else {
      this.#parse(chunk, 0, chunk.length, false);
    }
  };

  /** A client that has said all while it waits for its answer is gone, as with Node's own server. */
  readonly #onEnd = (): void => {
    if (this.#writing?.ended === false) this.socket.destroy();
    else this.socket.end();
  };

  readonly #onDrain = (): void => {
    this.#writing?.drained();
  };

  /** Reads what waits, as far as it may be read now. */
  readonly #goOn = (): void => {
    if (this.#isParsing || !this.#reads) return;
    const { bytes, from, to } = this.#ahead;
    if (from < to) {
      this.#ahead.clear();
      this.#parse(bytes, from, to, true);
    }
    if (this.#reads) this.#holdBack();
  };

  #holdBack(): void {
    const isFull = this.#ahead.length >= this.#handler.limits.aheadBytesMax;
    if (isFull !== this.socket.isPaused()) {
      if (isFull) this.socket.pause();
      else this.socket.resume();
    }
  }

  /** `areAhead`: the bytes came before the response to an earlier request was out. */
  #parse(bytes: Buffer, from: number, to: number, areAhead: boolean): void {
    let at = from;
    this.#isParsing = true;
    while (at < to && this.#reads) {
      const request = this.#writing?.request;
      if (request === undefined) at = this.#readHead(bytes, at, to, areAhead);
      else if (this.#reading !== READING.body || !request.isFlowing) break;
      else at = this.#readBody(request, bytes, at, to);
    }
    this.#isParsing = false;
    if (this.#reading === READING.detached) this.#giveBack(bytes, at, to);
    else if (this.#reads && this.#writing?.request.error === undefined && at < to) {
      this.#ahead.hold(bytes, at, to);
      this.#holdBack();
    }
  }

  #readHead(bytes: Buffer, at: number, to: number, isAhead: boolean): number {
    const heads = this.#heads;
    const end = heads.read(bytes, at, to);
    const { head } = heads;
    if (heads.error !== undefined) {
      this.#refuse(heads.error);
    } else if (head !== undefined) {
      heads.next();
      const request = new IncomingRequest(head, isAhead, this.#goOn);
      const response = new ResponseWriter(this.socket, request, this.#answered);
      this.#writing = response;
      this.#startBody(request);
      this.#handler.onRequest(request, response, this);
    } else if (heads.begun) {
      if (this.#reading === READING.idle) this.#enter(READING.head);
      else this.#reading = READING.head;
    }
    return end;
  }

  #startBody(request: IncomingRequest): void {
    const { framing, rawHeaders } = request;
    if (framing === "chunked") {
      this.#body.startChunked(trailerLimits(this.#handler.limits, rawHeaders));
    } else {
      this.#body.startLength(typeof framing === "number" ? framing : 0);
    }
    request.complete = this.#body.done;
    this.#enter(request.complete ? READING.ahead : READING.body);
  }

  #readBody(request: IncomingRequest, bytes: Buffer, at: number, to: number): number {
    const body = this.#body;
    const end = body.read(bytes, at, to);
    if (body.dataTo > body.dataFrom) request.push(bytes.subarray(body.dataFrom, body.dataTo));
    if (!this.#reads) return end;
    if (body.error !== undefined) {
      this.#break(body.error);
    } else if (body.done) {
      this.#enter(READING.ahead);
      request.finish();
      if (this.#reading === READING.ahead && this.#writing?.finished) this.#next();
    }
    return end;
  }

  #break(wrong: RequestError): void {
    const response = this.#writing as ResponseWriter;
    response.request.error = wrong;
    this.#enter(READING.ahead);
    this.#ahead.clear();
    if (this.socket.isPaused()) this.socket.resume();
    if (response.finished) this.#hangUp("");
    else this.#handler.onRequestError(response.request, response);
  }

  /** The answer is out. */
  readonly #answered = (): void => {
    if (!this.#reading.parses) return;
    const { request, closesConnection: isLast } = this.#writing as ResponseWriter;
    if (isLast || request.error !== undefined) this.#hangUp("");
    else if (!request.complete) request.discard();
    else this.#next();
  };

  #next(): void {
    this.#writing = undefined;
    this.#enter(READING.idle);
    this.#goOn();
  }

  #refuse(wrong: RequestError): void {
    this.#hangUp(this.#handler.errorResponse(wrong, this.#heads.method));
  }

  /**
   * Ends our side and reads on for a while: to destroy a connection that still brings bytes makes
   * the system answer them with a reset, which takes the answer with it (RFC 9112 9.6).
   */
  #hangUp(answer: string): void {
    this.#enter(READING.lingering);
    this.#ahead.clear();
    if (this.socket.isPaused()) this.socket.resume();
    if (answer === "") this.socket.end();
    else this.socket.end(answer, "latin1");
    this.#handler.onLinger(this);
  }

  #giveBack(bytes: Buffer, from: number, to: number): void {
    if (from < to) this.socket.unshift(bytes.subarray(from, to));
    this.#ahead.clear();
  }
}

function ignore(): void {}
