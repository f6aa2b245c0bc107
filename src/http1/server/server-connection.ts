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
  answerTo(wrong: RequestError, method: string): string;
  /** The body of the request under way is wrong or late: `request.wrong` says why. */
  onBroken(request: IncomingRequest, answer: ResponseWriter): void;
  onClose(connection: ServerConnection): void;
};

const READING = 0;
/** Our last answer is out, or on its way: what comes is thrown away. */
const LINGERING = 1;
/** The socket belongs to another protocol. */
const TAKEN = 2;
const CLOSED = 3;

/**
 * A client's connection. Reads one request at a time: what the client sends ahead waits as it is,
 * unread, until the answer before it is out; and once something was wrong, no byte is read as HTTP
 * any more. Its socket must allow half-open connections. Time passes with `tick` alone, so that
 * limits of time hold late by the time between two ticks, and never early.
 */
export class ServerConnection {
  readonly socket: Socket;
  readonly #handler: ServerHandler;
  readonly #heads: RequestHeadParser;
  readonly #body = new BodyParser();
  readonly #ahead = new ReadBuffer();
  #mode = READING;
  #request: IncomingRequest | undefined;
  #answer: ResponseWriter | undefined;
  #pumping = false;
  /** The bytes that are being read came before the answer to an earlier request was out. */
  #readsAhead = false;
  /** No answer was written yet. */
  #fresh = true;
  /** When the first tick saw the present wait; -1 before. */
  #sinceMs = -1;
  #bytesDiscarded = 0;
  #headBegun = false;

  constructor(socket: Socket, handler: ServerHandler) {
    this.socket = socket;
    this.#handler = handler;
    this.#heads = new RequestHeadParser(handler.limits);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("drain", this.#onDrain);
    socket.on("error", ignore);
    socket.once("close", () => {
      this.#mode = CLOSED;
      this.#answer?.closed();
      handler.onClose(this);
    });
  }

  /** No request is under way, and no byte of one has come. */
  get idle(): boolean {
    return this.#mode === READING && this.#request === undefined && !this.#heads.begun;
  }

  /** False from the moment at which the connection was destroyed: what came with it is not read. */
  get #reads(): boolean {
    return this.#mode === READING && !this.socket.destroyed;
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
  takeOver(): Socket {
    const { socket } = this;
    this.#mode = TAKEN;
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    socket.pause();
    // Called from within `onRequest`, what is left is given back when the reading returns.
    if (!this.#pumping) this.#giveBack(this.#ahead.bytes, this.#ahead.from, this.#ahead.to);
    return socket;
  }

  /** Time has passed. To be called a few times a second, with a clock that never goes back. */
  tick(nowMs: number): void {
    if (this.#mode !== LINGERING && !this.#reads) return;
    this.#noticeHead();
    if (this.#sinceMs === -1) this.#sinceMs = nowMs;
    const waitedMs = nowMs - this.#sinceMs;
    const { limits } = this.#handler;
    if (this.#mode === LINGERING) {
      if (waitedMs >= limits.lingerMs) this.socket.destroy();
    } else if (this.#request !== undefined) {
      const isReading = !this.#request.complete && this.#request.wrong === undefined;
      if (isReading && waitedMs >= limits.requestTimeoutMs) this.#break("timeout");
    } else if (this.#fresh || this.#headBegun) {
      if (waitedMs >= limits.headersTimeoutMs) this.#refuse("timeout");
    } else if (waitedMs >= limits.idleTimeoutMs) {
      this.socket.destroy();
    }
  }

  /** The wait for a head is over, and that for its end begins. */
  #noticeHead(): void {
    if (this.#headBegun || !this.#heads.begun) return;
    this.#headBegun = true;
    if (!this.#fresh) this.#sinceMs = -1;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#mode === LINGERING) {
      this.#bytesDiscarded += chunk.length;
      if (this.#bytesDiscarded > this.#handler.limits.lingerBytesMax) this.socket.destroy();
    } else if (this.#ahead.length > 0 || this.#pumping) {
      this.#ahead.append(chunk, 0, chunk.length);
      this.#holdBack();
    } else {
      this.#pump(chunk, 0, chunk.length);
    }
  };

  /** A client that has said all while it waits for its answer is gone, as with Node's own server. */
  readonly #onEnd = (): void => {
    if (this.#request !== undefined && this.#answer?.ended === false) this.socket.destroy();
    else this.socket.end();
  };

  readonly #onDrain = (): void => {
    this.#answer?.drained();
  };

  /** Reads what waits, as far as it may be read now. */
  readonly #goOn = (): void => {
    if (this.#pumping || !this.#reads) return;
    const { bytes, from, to } = this.#ahead;
    if (from < to) {
      this.#ahead.clear();
      this.#readsAhead = true;
      this.#pump(bytes, from, to);
      this.#readsAhead = false;
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

  #pump(bytes: Buffer, from: number, to: number): void {
    let at = from;
    this.#pumping = true;
    while (at < to && this.#reads) {
      const request = this.#request;
      if (request === undefined) {
        at = this.#readHead(bytes, at, to);
      } else if (request.complete || !request.flows || request.wrong !== undefined) {
        break;
      } else {
        at = this.#readBody(request, bytes, at, to);
      }
    }
    this.#pumping = false;
    if (this.#mode === TAKEN) this.#giveBack(bytes, at, to);
    else if (this.#reads && this.#request?.wrong === undefined && at < to) {
      this.#ahead.hold(bytes, at, to);
      this.#holdBack();
    }
  }

  #readHead(bytes: Buffer, at: number, to: number): number {
    const heads = this.#heads;
    const end = heads.read(bytes, at, to);
    const { head } = heads;
    if (heads.wrong !== undefined) {
      this.#refuse(heads.wrong);
    } else if (head !== undefined) {
      heads.next();
      const request = new IncomingRequest(head, this.#goOn);
      request.pipelined = this.#readsAhead;
      this.#request = request;
      this.#answer = new ResponseWriter(this.socket, request, this.#answered);
      this.#fresh = false;
      this.#sinceMs = -1;
      this.#startBody(request);
      this.#handler.onRequest(request, this.#answer, this);
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
  }

  #readBody(request: IncomingRequest, bytes: Buffer, at: number, to: number): number {
    const body = this.#body;
    const end = body.read(bytes, at, to);
    if (body.dataTo > body.dataFrom) request.take(bytes.subarray(body.dataFrom, body.dataTo));
    if (!this.#reads) return end;
    if (body.wrong !== undefined) {
      this.#break(body.wrong);
    } else if (body.done) {
      request.finish();
      if (this.#request === request && this.#answer?.finished) this.#next();
    }
    return end;
  }

  #break(wrong: RequestError): void {
    const request = this.#request as IncomingRequest;
    request.wrong = wrong;
    this.#ahead.clear();
    if (this.socket.isPaused()) this.socket.resume();
    if (this.#answer?.finished) this.#hangUp("");
    else this.#handler.onBroken(request, this.#answer as ResponseWriter);
  }

  /** The answer is out. */
  readonly #answered = (): void => {
    const request = this.#request as IncomingRequest;
    if (this.#mode !== READING) return;
    if (this.#answer?.isLast || request.wrong !== undefined) this.#hangUp("");
    else if (!request.complete) request.discard();
    else this.#next();
  };

  #next(): void {
    this.#request = undefined;
    this.#answer = undefined;
    this.#sinceMs = -1;
    this.#headBegun = false;
    this.#goOn();
  }

  #refuse(wrong: RequestError): void {
    this.#hangUp(this.#handler.answerTo(wrong, this.#heads.method));
  }

  /**
   * Ends our side and reads on for a while: to destroy a connection that still brings bytes makes
   * the system answer them with a reset, which takes the answer with it (RFC 9112 9.6).
   */
  #hangUp(answer: string): void {
    this.#mode = LINGERING;
    this.#sinceMs = -1;
    this.#ahead.clear();
    if (this.socket.isPaused()) this.socket.resume();
    if (answer === "") this.socket.end();
    else this.socket.end(answer, "latin1");
  }

  #giveBack(bytes: Buffer, from: number, to: number): void {
    if (from < to) this.socket.unshift(bytes.subarray(from, to));
    this.#ahead.clear();
  }
}

function ignore(): void {}
