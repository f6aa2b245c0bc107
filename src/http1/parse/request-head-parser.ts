import {
  HeadParser,
  type HttpVersion,
  STATE_LINE_LF,
  STATE_START,
  STATE_VERSION,
  STATE_VERSION_END,
} from "./head-parser.ts";
import { CR, LF, runEnd, SP, TARGET_BYTES, TOKEN_BYTES } from "./octets.ts";

export type ParsedRequestHead = {
  readonly method: string;
  readonly target: string;
  readonly version: HttpVersion;
  /** Names and values in turn, as they were sent. Nothing is merged or dropped. */
  readonly rawHeaders: string[];
};

/** Longer than the longest registered method, UPDATEREDIRECTREF. */
const METHOD_BYTES_MAX = 24;

const START_LF = 1;
const METHOD = 2;
const TARGET_FIRST = 3;
const TARGET_REST = 4;

/** Parses heads of requests: `method SP target SP version CRLF`, and fields (RFC 9112 3). */
export class RequestHeadParser extends HeadParser<ParsedRequestHead> {
  #targetFrom = 0;
  #targetEnd = 0;
  #methodText = "";
  /** The method of the head that is being read, once a space has ended it; else "". */
  method = "";

  /** Whether a byte of a head has arrived. Empty lines before a request do not count. */
  get begun(): boolean {
    return this.state > START_LF;
  }

  protected override begin(): void {
    super.begin();
    this.#methodText = "";
    this.method = "";
  }

  protected override linePart(bytes: Buffer, at: number, to: number): number {
    const byte = bytes[at] as number;
    switch (this.state) {
      case STATE_START:
        // RFC 9112 2.2: old clients send an empty line before a request.
        if (byte === CR) return this.enter(START_LF, at);
        this.state = METHOD;
        return this.#methodPart(bytes, at, to);
      case START_LF:
        return byte === LF ? this.enter(STATE_START, at) : this.fail("line", at);
      case METHOD:
        return this.#methodPart(bytes, at, to);
      case TARGET_FIRST:
        if (TARGET_BYTES[byte] !== 1) return this.fail("line", at);
        this.#targetFrom = at;
        return this.enter(TARGET_REST, at);
      case TARGET_REST:
        return this.#targetRest(bytes, at, to);
      case STATE_VERSION:
        return this.versionPart(bytes, at, to);
      case STATE_VERSION_END:
        return this.versionEnd(byte, at, CR, STATE_LINE_LF);
      default:
        return this.lineEnd(byte, at);
    }
  }

  protected override headOf(text: string, at: number, rawHeaders: string[]): ParsedRequestHead {
    const target = text.slice(this.#targetFrom - at, this.#targetEnd - at);
    return { method: this.method, target, version: this.version, rawHeaders };
  }

  #methodPart(bytes: Buffer, at: number, to: number): number {
    const end = runEnd(
      bytes,
      at,
      Math.min(to, at + METHOD_BYTES_MAX + 1 - this.partBytes),
      TOKEN_BYTES,
    );
    for (let i = at; i < end; i++) this.#methodText += String.fromCharCode(bytes[i] as number);
    this.partBytes += end - at;
    if (this.partBytes > METHOD_BYTES_MAX) return this.fail("method", end - 1);
    if (end === to) return end;
    if (bytes[end] !== SP || this.partBytes === 0) return this.fail("line", end);
    this.method = this.#methodText;
    return this.enter(TARGET_FIRST, end);
  }

  #targetRest(bytes: Buffer, at: number, to: number): number {
    const end = runEnd(bytes, at, to, TARGET_BYTES);
    if (end === to) return end;
    if (bytes[end] !== SP) return this.fail("line", end);
    this.#targetEnd = end;
    return this.enter(STATE_VERSION, end);
  }
}
