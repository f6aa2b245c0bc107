import type { BodyError } from "../parse/body-parser.ts";
import { type FramingError, isFramingError, parseFraming } from "../parse/framing.ts";
import type { HeadError, HttpVersion } from "../parse/head-parser.ts";
import type { ParsedRequestHead } from "../parse/request-head-parser.ts";

/** Why bytes are no request, or why one took too long. */
export type RequestError = HeadError | BodyError | "timeout";

/** Takes the body of a request. */
export type BodySink = {
  /** A piece, the sink's own: all that one read brought. */
  onBodyData(piece: Buffer): void;
  onBodyEnd(): void;
};

/** A request as it comes in: its head whole, its body as it arrives, once somebody takes it. */
export class IncomingRequest implements ParsedRequestHead {
  readonly method: string;
  readonly target: string;
  readonly version: HttpVersion;
  readonly rawHeaders: string[];
  /** The length of the body in bytes, or chunks. After an error nothing behind the head is parsed. */
  readonly framing: number | "chunked" | FramingError;
  /** Its sender, or its framing, does not let another request follow on this connection. */
  readonly isLast: boolean;
  /** It was sent before the answer to an earlier request of its connection was out. */
  readonly pipelined: boolean;
  /** The last byte of it was read. */
  complete = false;
  /** Why its body cannot be believed any more: nothing further of it comes. */
  error: RequestError | undefined;
  readonly #goOn: () => void;
  #sink: BodySink = NOBODY;
  #flows = false;

  /** `goOn` is called when the body is wanted, at first or again. */
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
    // RFC 9110 9.3.6: behind a CONNECT comes whatever the client likes.
    const isOpen = !closes && !isFramingError(framing) && method !== "CONNECT";
    this.isLast = version === "1.0" || !isOpen;
  }

  /** Its body is wanted now; until `read` or `resume` it waits, and holds its sender back. */
  get isFlowing(): boolean {
    return this.#flows;
  }

  /** Gives the body to `sink`, from here on; where it is over, or there is none, its end at once. */
  read(sink: BodySink): void {
    this.#sink = sink;
    if (this.complete) sink.onBodyEnd();
    else this.resume();
  }

  /** Reads past the rest of the body. */
  discard(): void {
    this.read(NOBODY);
  }

  pause(): void {
    this.#flows = false;
  }

  resume(): void {
    if (this.#flows) return;
    this.#flows = true;
    this.#goOn();
  }

  // Its connection calls these.

  push(piece: Buffer): void {
    this.#sink.onBodyData(piece);
  }

  finish(): void {
    this.complete = true;
    this.#sink.onBodyEnd();
  }
}

const NOBODY: BodySink = { onBodyData: () => {}, onBodyEnd: () => {} };
