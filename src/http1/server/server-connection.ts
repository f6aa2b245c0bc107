import type { Socket } from "node:net";
import { BodyParser } from "../parse/body-parser.ts";
import { RequestHeadParser } from "../parse/request-head-parser.ts";
import { endConnection } from "../write/end-connection.ts";
import { AheadBuffer } from "./ahead-buffer.ts";
import { copyOf, readAsStream, readDirectly } from "./direct-read.ts";
import { IncomingRequest, type RequestBodyError, type RequestError } from "./incoming-request.ts";
import { READING, type Reading } from "./reading.ts";
import { ReadingDeadline } from "./reading-deadline.ts";
import { ResponseWriter } from "./response-writer.ts";
import { type ServerLimits, trailerLimits } from "./server-limits.ts";

/** Serves the requests that arrive on connections. */
export type ServerHandler = {
  /** May be replaced. Later requests use the limits that are current then. */
  readonly limits: ServerLimits;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
  onRequest(request: IncomingRequest, writer: ResponseWriter, connection: ServerConnection): void;
  /**
   * Returns the whole response to bytes that are no request or came too late. The connection ends
   * after it. `method` is "" if none was read.
   */
  errorResponse(error: RequestError, method: string): string;
  /** Called when the body of the current request is malformed or late: `request.error` says why. */
  onRequestError(request: IncomingRequest, writer: ResponseWriter): void;
  /** Called when the last response goes out, and further bytes are read and discarded. */
  onLinger(connection: ServerConnection): void;
};

/**
 * One client connection. Parses one request at a time: pipelined bytes stay unparsed until the
 * previous response is written. After a parse error nothing more is parsed. Its socket must allow
 * half-open connections. Time advances only with `tick`, so a time limit may take effect late by
 * the time between two ticks, and never early.
 */
export class ServerConnection {
  readonly socket: Socket;
  /** When it last brought a request that its owner counts as use, on the clock of `tick`. */
  usedMs = 0;
  /** When the head of the current request began, if it did not come whole in one read. */
  headBeganMs: number | undefined;
  readonly #handler: ServerHandler;
  readonly #heads: RequestHeadParser;
  readonly #body = new BodyParser();
  readonly #ahead = new AheadBuffer();
  /** The bytes of `keepAhead` that are not parsed yet. */
  #keptBytes = 0;
  /** Whether the head that is being read had begun at `keepAhead`. */
  #isHeadKept = false;
  #reading: Reading = READING.connected;
  /** The writing side: the current response with its request. It keeps its own state. */
  #writing: ResponseWriter | undefined;
  /** While bytes are parsed, actions that callbacks ask for wait until the parser returns. */
  #isParsing = false;
  /** While bytes are parsed: how many of them are left. */
  #bytesBehind = 0;
  readonly #deadline: ReadingDeadline;

  constructor(socket: Socket, handler: ServerHandler) {
    this.socket = socket;
    this.#handler = handler;
    this.#heads = new RequestHeadParser(handler.limits);
    this.#deadline = new ReadingDeadline(() => handler.limits);
    if (!readDirectly(socket, this.#onRead)) socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("drain", this.#onDrain);
    socket.on("error", ignore);
    socket.once("close", () => {
      this.#enter(READING.closed);
      this.#writing?.closed();
    });
  }

  /** Whether no request is in progress and no byte of one has arrived. */
  get idle(): boolean {
    return this.#reading === READING.connected || this.#reading === READING.idle;
  }

  /** Whether a response is owed to the client, or the socket belongs to another protocol. */
  get inUse(): boolean {
    if (!this.#reading.parses) return this.#reading === READING.detached;
    return this.#writing !== undefined && !this.#writing.finished;
  }

  /**
   * Whether bytes are read. False once the connection is destroyed: bytes of the same read are
   * dropped.
   */
  get #reads(): boolean {
    return this.#reading.parses && !this.socket.destroyed;
  }

  /**
   * The number of bytes that arrived and are not parsed yet. If there are any, the wait is not the
   * client's fault.
   */
  get bytesAhead(): number {
    return this.#ahead.length + (this.#isParsing ? this.#bytesBehind : 0);
  }

  /** Whether bytes behind the current request, its body included, have arrived. */
  get isFollowed(): boolean {
    return this.bytesAhead > this.#body.bytesLeft;
  }

  /** Tells the requests that have begun to arrive by now from those that begin later. */
  keepAhead(): void {
    this.#keptBytes = this.#ahead.length;
    this.#isHeadKept = this.#heads.begun;
  }

  /** Whether the request that is being parsed had begun at `keepAhead`. */
  get isKept(): boolean {
    return this.#keptBytes > 0 || this.#isHeadKept;
  }

  /** Whether such a request is still arriving, and no byte behind its head has been read. */
  get awaitsKept(): boolean {
    return this.#isHeadKept && this.#reading === READING.head;
  }

  /** Ends the connection in order, without waiting for the client. */
  end(): void {
    endConnection(this.socket);
  }

  /**
   * Half-closes the socket and keeps reading for a while. Destroying a socket with unread input
   * sends a TCP reset, which can discard the response before the client has read it (RFC 9112 9.6).
   * `answer` is that response, or "" if it was written already.
   */
  hangUp(answer: string): void {
    this.#enter(READING.lingering);
    this.#ahead.clear();
    if (this.socket.isPaused()) this.socket.resume();
    if (answer === "") this.socket.end();
    else this.socket.end(answer, "latin1");
    this.#handler.onLinger(this);
  }

  /**
   * Hands over the socket, paused, for an upgrade. Bytes that were not parsed as HTTP yet are the
   * first that it delivers. Only while a request is in progress.
   */
  detachSocket(): Socket {
    const { socket } = this;
    this.#enter(READING.detached);
    socket.off("data", this.#onData);
    readAsStream(socket);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    socket.pause();
    // If called within `onRequest`, the rest is put back when the parser returns.
    if (!this.#isParsing) this.#giveBack();
    return socket;
  }

  /** Must be called a few times a second, with a clock that never goes back. */
  tick(nowMs: number): void {
    if (this.socket.destroyed) return;
    const reading = this.#reading;
    const isOver = this.#deadline.isOver(reading, this.#writing?.request, nowMs);
    if (reading === READING.lingering && this.#deadline.isQuiet(nowMs)) this.socket.destroy();
    else if (isOver) this.#late(reading.onLate);
  }

  #late(onLate: Reading["onLate"]): void {
    if (onLate === "refuse") this.#refuse("timeout");
    else if (onLate === "break") this.#break("timeout");
    else this.end();
  }

  #enter(reading: Reading): void {
    this.#reading = reading;
    this.#deadline.restart();
  }

  readonly #onData = (chunk: Buffer): void => this.#onRead(chunk, chunk.length);

  /** The next read overwrites `bytes`. */
  readonly #onRead = (bytes: Buffer, size: number): void => {
    if (this.#reading === READING.lingering) {
      this.#deadline.discarded();
    } else if (this.#ahead.length > 0 || this.#isParsing) {
      this.#ahead.append(bytes, 0, size);
      this.#holdBack();
    } else {
      this.#parse(bytes, 0, size, false);
    }
  };

  /**
   * A client that ends its side before its response counts as gone, as in Node's own server. Once
   * the response is written it still gets that, and its pipelined requests have nowhere to go.
   */
  readonly #onEnd = (): void => {
    this.#ahead.clear();
    if (this.#writing?.ended === false) this.socket.destroy();
    // Node makes an error, with its stack, of a second end.
    else if (!this.socket.writableEnded) this.socket.end();
  };

  readonly #onDrain = (): void => {
    this.#writing?.drained();
  };

  /** Parses the waiting bytes, as far as they may be parsed now. */
  readonly #goOn = (): void => {
    if (this.#isParsing || !this.#reads) return;
    let isParsed = true;
    while (isParsed && this.#reads) {
      const { length } = this.#ahead;
      const part = this.#ahead.take();
      if (part === undefined) break;
      isParsed = this.#parse(part.bytes, part.from, part.to, true);
      this.#keptBytes = Math.max(0, this.#keptBytes - (length - this.#ahead.length));
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

  /**
   * `areAhead`: the bytes arrived before the response to an earlier request was sent, and were
   * copied then. All others are overwritten by the next read: what follows a head is copied.
   * Returns whether all of them were parsed.
   */
  #parse(read: Buffer, from: number, end: number, areAhead: boolean): boolean {
    let bytes = read;
    let at = from;
    let to = end;
    let isAhead = areAhead;
    let areOwn = areAhead;
    this.#isParsing = true;
    while (at < to && this.#reads) {
      const request = this.#writing?.request;
      if (request === undefined) {
        at = this.#readHead(bytes, at, to, isAhead);
        // All that follows in these bytes arrived before the response, however soon that is sent.
        isAhead = true;
        continue;
      }
      if (!areOwn) {
        bytes = copyOf(bytes, at, to);
        at = 0;
        to = bytes.length;
        areOwn = true;
      }
      if (this.#reading !== READING.body || !request.isFlowing) break;
      at = this.#readBody(request, bytes, at, to);
    }
    this.#isParsing = false;
    const isDetached = this.#reading === READING.detached;
    const isWanted = this.#reads && this.#writing?.request.error === undefined;
    if (at < to && (isDetached || isWanted)) this.#ahead.putBack(bytes, at, to);
    // Copies them, so that they need not be the connection's own.
    if (isDetached) this.#giveBack();
    else if (isWanted && at < to) this.#holdBack();
    return at === to;
  }

  #readHead(bytes: Buffer, at: number, to: number, isAhead: boolean): number {
    const heads = this.#heads;
    if (!heads.begun) heads.limits = this.#handler.limits;
    const end = heads.read(bytes, at, to);
    this.#bytesBehind = to - end;
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
      this.#isHeadKept = false;
      if (request.limits !== undefined) {
        this.#body.limitTrailers(trailerLimits(request.limits, request.rawHeaders));
      }
    } else if (heads.begun) {
      this.#isHeadKept = this.isKept;
      this.headBeganMs ??= this.#handler.elapsed();
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
    this.#bytesBehind = to - end;
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

  #break(error: RequestBodyError): void {
    const response = this.#writing as ResponseWriter;
    response.request.error = error;
    this.#enter(READING.ahead);
    this.#ahead.clear();
    if (this.socket.isPaused()) this.socket.resume();
    if (response.finished) this.hangUp("");
    else this.#handler.onRequestError(response.request, response);
  }

  /** Called when the response was sent. */
  readonly #answered = (): void => {
    if (!this.#reading.parses) return;
    const { request, closesConnection: isLast } = this.#writing as ResponseWriter;
    if (isLast || request.error !== undefined) this.hangUp("");
    else if (!request.complete) request.discard();
    else this.#next();
  };

  #next(): void {
    this.#writing = undefined;
    this.headBeganMs = undefined;
    this.#deadline.restartRequest();
    this.#enter(READING.idle);
    this.#goOn();
  }

  #refuse(error: RequestError): void {
    this.hangUp(this.#handler.errorResponse(error, this.#heads.method));
  }

  #giveBack(): void {
    const parts: Buffer[] = [];
    for (let part = this.#ahead.take(); part !== undefined; part = this.#ahead.take()) {
      parts.push(part.bytes.subarray(part.from, part.to));
    }
    if (parts.length > 0) this.socket.unshift(Buffer.concat(parts));
  }
}

function ignore(): void {}
