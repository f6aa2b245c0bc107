import type { Socket } from "node:net";
import { encodeChunk, encodeFields, LAST_CHUNK, writeBodyData } from "../write/message-writer.ts";
import { REASON_PHRASES } from "../write/reason-phrases.ts";
import type { IncomingRequest } from "./incoming-request.ts";

/** Is notified of the progress of one response. */
export type ResponseListener = {
  /** Called when the client takes more bytes again. */
  onDrain(): void;
  /** Called when the response is over. `finished`: all of it was handed to the system. */
  onClose(finished: boolean): void;
};

/**
 * The states of a response, in this order: no head yet; a head and perhaps some of the body; the
 * last byte written; all bytes handed to the system. `lost`: the connection ended before that.
 */
type WriteState = "head" | "body" | "ended" | "finished" | "lost";

/**
 * The one response to a request. It writes its own framing: the Content-Length among its fields, or
 * chunks, or the end of the connection for a client that does not support chunks. A body that does
 * not match its Content-Length ends the connection, because the next response would be read as part
 * of it.
 */
export class ResponseWriter {
  /** Whether the connection ends after this response. May be set until the head is written. */
  closesConnection: boolean;
  listener: ResponseListener = NOBODY;
  /** 0 until there is a head. */
  status = 0;
  readonly request: IncomingRequest;
  #writing: WriteState = "head";
  readonly #socket: Socket;
  readonly #onFinish: () => void;
  /** The head, held until the first bytes of the body or `flush`. */
  #heldHead = "";
  #hasBody = true;
  #chunked = false;
  /** Bytes of the body that are still to come; Infinity if the head does not say. */
  #bodyLeft = Number.POSITIVE_INFINITY;

  constructor(socket: Socket, request: IncomingRequest, onFinish: () => void) {
    this.request = request;
    this.#socket = socket;
    this.#onFinish = onFinish;
    this.closesConnection = request.isLast;
  }

  get headWritten(): boolean {
    return this.status !== 0;
  }

  /** Whether the head went out while the connection was open. A held head has not. */
  get headSent(): boolean {
    return this.status !== 0 && this.#heldHead === "";
  }

  /** Whether the last byte was written or the connection is gone: nothing more can be written. */
  get ended(): boolean {
    return this.#writing !== "head" && this.#writing !== "body";
  }

  /** Whether all bytes were handed to the system. */
  get finished(): boolean {
    return this.#writing === "finished";
  }

  /** Lets a client send the body that it announced (RFC 9110 10.1.1). */
  writeContinue(): void {
    this.writeInterim(100, []);
  }

  /** Only for clients of HTTP/1.1, and only before the head. */
  writeInterim(status: number, fields: readonly string[]): void {
    this.#socket.write(`${statusLine(status)}${encodeFields(fields)}\r\n`, "latin1");
  }

  /**
   * `fields` are names and values in turn, without Connection and Transfer-Encoding. Throws if a
   * field cannot be sent safely. Nothing is sent before `write`, `flush` or `end`.
   */
  writeHead(status: number, fields: readonly string[]): void {
    this.writeEncodedHead(status, encodeFields(fields), ownFields(fields));
  }

  /** The same with lines that `encodeFields` made, and with what their fields say. */
  writeEncodedHead(status: number, lines: string, { length, dated }: FieldFacts): void {
    let head = statusLine(status) + lines;
    if (!dated) head += dateLine();
    this.#hasBody = this.request.method !== "HEAD" && status !== 204 && status !== 304;
    if (this.#hasBody) {
      if (length !== undefined) this.#bodyLeft = length;
      else if (this.request.version === "1.0") this.closesConnection = true;
      else {
        this.#chunked = true;
        head += "Transfer-Encoding: chunked\r\n";
      }
    }
    if (this.closesConnection) head += "Connection: close\r\n";
    this.status = status;
    this.#writing = "body";
    this.#heldHead = `${head}\r\n`;
  }

  /** Makes room for another head. Returns false if some of this one may be sent. */
  discardHead(): boolean {
    if (this.#heldHead === "") return false;
    this.#heldHead = "";
    this.status = 0;
    this.#writing = "head";
    this.#hasBody = true;
    this.#chunked = false;
    this.#bodyLeft = Number.POSITIVE_INFINITY;
    return true;
  }

  /** Sends the head if it is still held. */
  flush(): void {
    if (this.#heldHead === "" || this.#socket.destroyed) return;
    this.#socket.write(this.#heldHead, "latin1");
    this.#heldHead = "";
  }

  /** Whether all bytes written so far were handed to the system, and are read no more. */
  get isFlushed(): boolean {
    return this.#heldHead === "" && this.#socket.writableLength === 0;
  }

  /** Returns false if the client takes no more before `onDrain`. */
  write(piece: Buffer): boolean {
    if (this.ended || this.#socket.destroyed) return true;
    if (!this.#hasBody || piece.length === 0) {
      this.flush();
      return true;
    }
    if (!this.#counts(piece.length)) return true;
    const head = this.#heldHead;
    this.#heldHead = "";
    return writeBodyData(this.#socket, head, piece, this.#chunked);
  }

  /** Ends the response with the last piece of its body, latin1 text, in one write. */
  end(last = ""): void {
    if (this.ended || this.#socket.destroyed) return;
    this.#writing = "ended";
    let text = this.#heldHead;
    this.#heldHead = "";
    if (this.#hasBody) {
      if (!this.#counts(last.length)) return;
      if (this.#bodyLeft > 0 && this.#bodyLeft !== Number.POSITIVE_INFINITY) {
        this.cut();
        return;
      }
      text += this.#chunked && last !== "" ? encodeChunk(last) : last;
      if (this.#chunked) text += LAST_CHUNK;
    }
    const socket = this.#socket;
    if (text !== "") socket.write(text, "latin1");
    if (socket.writableLength === 0) this.#finish();
    else socket.write("", () => this.#finish());
  }

  /**
   * Ends the connection in the middle of a response, so that the client can tell. To HTTP/1.0 the end
   * of a connection is the end of a body without a length, so such a client gets a reset in any case.
   */
  cut(): void {
    const socket = this.#socket;
    // Over TLS too: nginx and others take an end without a close_notify for an orderly one.
    if (this.#hasBody && this.request.version === "1.0") socket.resetAndDestroy();
    else socket.destroy();
  }

  // Called by its connection.

  drained(): void {
    if (!this.ended) this.listener.onDrain();
  }

  /** Also called when a tunnel ends before its connection. */
  closed(): void {
    if (this.#writing === "finished" || this.#writing === "lost") return;
    this.#writing = "lost";
    this.listener.onClose(false);
  }

  /** Counts bytes of the body. Returns false if it is longer than its Content-Length. */
  #counts(bytes: number): boolean {
    this.#bodyLeft -= bytes;
    if (this.#bodyLeft >= 0) return true;
    this.cut();
    return false;
  }

  #finish(): void {
    if (this.#socket.destroyed) return;
    this.#writing = "finished";
    this.listener.onClose(true);
    this.#onFinish();
  }
}

const NOBODY: ResponseListener = { onDrain: () => {}, onClose: () => {} };

function statusLine(status: number): string {
  return `HTTP/1.1 ${status} ${REASON_PHRASES[status] ?? ""}\r\n`;
}

/** The length of the body by its fields, and whether they include a date. */
type FieldFacts = { readonly length: number | undefined; readonly dated: boolean };

function ownFields(fields: readonly string[]): FieldFacts {
  let length: number | undefined;
  let dated = false;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (name.length === 4) dated ||= name.toLowerCase() === "date";
    else if (name.length === 14 && name.toLowerCase() === "content-length") {
      length = Number(fields[i + 1]);
    }
  }
  return { length, dated };
}

let dateSecond = -1;
let dateText = "";

/** The Date field (RFC 9110 6.6.1), computed once a second. */
function dateLine(): string {
  const second = Math.floor(Date.now() / 1_000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = `Date: ${new Date(second * 1_000).toUTCString()}\r\n`;
  }
  return dateText;
}
