import type { BodyError } from "../parse/body-parser.ts";
import { type FramingError, isFramingError, parseFraming } from "../parse/framing.ts";
import type { HeadError, HttpVersion } from "../parse/head-parser.ts";
import type { ParsedRequestHead } from "../parse/request-head-parser.ts";
import type { RequestLimits } from "./server-limits.ts";

/** Why bytes are no request, or why one took too long. */
export type RequestError = HeadError | RequestBodyError;

/** Why the rest of a request whose head was parsed is not read. */
export type RequestBodyError = BodyError | "timeout";

/** Takes the body of a request. */
export type BodySink = {
  /** Called with a piece that belongs to the sink: all body bytes of one read. */
  onBodyData(piece: Buffer): void;
  onBodyEnd(): void;
};

/** A request whose head is complete. Its body is delivered as it arrives, from `read` on. */
export class IncomingRequest implements ParsedRequestHead {
  readonly method: string;
  readonly target: string;
  readonly version: HttpVersion;
  readonly rawHeaders: string[];
  /** The bytes of the body, or chunks. After an error nothing behind the head is parsed. */
  readonly framing: number | "chunked" | FramingError;
  /** Whether the client, or the framing, lets no other request follow on this connection. */
  readonly isLast: boolean;
  /** Whether it arrived before the response to an earlier request of its connection was sent. */
  readonly pipelined: boolean;
  /** Whether its last byte was read. */
  complete = false;
  /** Why its body is malformed or late. After that no more of the body is delivered. */
  error: RequestBodyError | undefined;
  /** Limits of its own, in place of those of its connection. May be set within `onRequest`. */
  limits: RequestLimits | undefined;
  /** Whether its body has to wait for its reader, through no fault of the client's. */
  isHeld = false;
  readonly #goOn: () => void;
  #sink: BodySink = NOBODY;
  #flows = false;

  /** `goOn` is called when the body is wanted, for the first time or again. */
  constructor(
    { method, target, version, rawHeaders }: ParsedRequestHead,
    pipelined: boolean,
    goOn: () => void,
  ) {
    this.method = method;
    this.target = target;
    this.version = version;
    this.rawHeaders = rawHeaders;
    this.pipelined = pipelined;
    this.#goOn = goOn;
    const { framing = 0, closesConnection: closes } = parseFraming(version, rawHeaders);
    this.framing = framing;
    // RFC 9110 9.3.6: after a CONNECT the client may send any bytes.
    const isOpen = !closes && !isFramingError(framing) && method !== "CONNECT";
    this.isLast = version === "1.0" || !isOpen;
  }

  /** Whether its body is wanted now. Until then the body waits and blocks its sender. */
  get isFlowing(): boolean {
    return this.#flows;
  }

  /** Delivers the body to `sink` from now on. If it is complete or empty, its end comes at once. */
  read(sink: BodySink): void {
    this.#sink = sink;
    this.isHeld = false;
    if (this.complete) sink.onBodyEnd();
    else this.resume();
  }

  /** Reads and drops the rest of the body. */
  discard(): void {
    this.read(NOBODY);
  }

  /** Keeps its body back until `read`. Meanwhile its time stands still. */
  hold(): void {
    this.#flows = false;
    this.isHeld = true;
  }

  pause(): void {
    this.#flows = false;
  }

  resume(): void {
    if (this.#flows) return;
    this.#flows = true;
    this.#goOn();
  }

  // Called by its connection.

  push(piece: Buffer): void {
    this.#sink.onBodyData(piece);
  }

  finish(): void {
    this.complete = true;
    this.#sink.onBodyEnd();
  }
}

const NOBODY: BodySink = { onBodyData: () => {}, onBodyEnd: () => {} };
