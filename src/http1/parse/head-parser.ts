import { FieldParser } from "./field-parser.ts";
import { isDigit, LF } from "./octets.ts";
import { ReadBuffer } from "./read-buffer.ts";

/**
 * Why bytes are no head. `line`: no request line or status line; `method`: longer than any method;
 * `version`: HTTP, but neither 1.0 nor 1.1; `field`: no field line; `line_overflow`,
 * `head_overflow`: more bytes than the limits allow.
 */
export type HeadError = "line" | "method" | "version" | "field" | "line_overflow" | "head_overflow";

/** Both count every byte from the first, including line ends and empty lines before a request. */
export type HeadSizeLimits = {
  readonly lineBytesMax: number;
  readonly headBytesMax: number;
};

export type HttpVersion = "1.0" | "1.1";

const HTTP = Buffer.from("HTTP/1.");
const ZERO = 0x30;
const ONE = 0x31;

/** The states of the start line that requests and responses share. Each adds its own in between. */
export const STATE_START = 0;
export const STATE_VERSION = 8;
export const STATE_VERSION_END = 9;
export const STATE_LINE_LF = 10;
const FIELDS = 11;
const DONE = 12;
const WRONG = 13;

/**
 * Parses one head after another, however the bytes are split into pieces: one state machine takes
 * byte after byte, so the split cannot change the result. Lines end only with CRLF, folding is not
 * allowed, no space precedes a colon, and one space separates the parts of a request line (RFC 9112
 * 2.2, 3, 5.1, 5.2). A head is malformed at the first byte that no further byte could correct.
 */
export abstract class HeadParser<Head> {
  /** May be replaced between heads. */
  limits: HeadSizeLimits;
  readonly #kept = new ReadBuffer();
  readonly #fields = new FieldParser();
  /** Bytes of this head that were read before the current piece. */
  #readBefore = 0;
  /** The head that was read last, until `next`. */
  head: Head | undefined;
  /** Final: after an error nothing more is read. */
  error: HeadError | undefined;
  protected state = STATE_START;
  /** The number of bytes read of the current part of the start line. */
  protected partBytes = 0;
  protected version: HttpVersion = "1.1";

  constructor(limits: HeadSizeLimits) {
    this.limits = limits;
  }

  next(): void {
    this.#kept.clear();
    this.#readBefore = 0;
    this.head = undefined;
    this.begin();
  }

  /** Returns where it stopped: after the head, at the malformed byte, or at `to`. */
  read(bytes: Buffer, at: number, to: number): number {
    if (this.error !== undefined || this.head !== undefined) return at;
    const end = this.#scan(bytes, at, to);
    if (this.error !== undefined) {
      this.#kept.clear();
      return end;
    }
    if (this.state === DONE && this.#readBefore === 0) {
      this.#decode(bytes, at, end);
      return end;
    }
    this.#kept.append(bytes, at, end);
    this.#readBefore += end - at;
    if (this.state === DONE) this.#readWhole();
    return end;
  }

  protected begin(): void {
    this.state = STATE_START;
    this.partBytes = 0;
  }

  /**
   * Continues at `at` in the part of the start line that `state` names. `at` is less than `to`.
   * Returns the position where it stopped, as `read` does.
   */
  protected abstract linePart(bytes: Buffer, at: number, to: number): number;

  /**
   * Makes the head from its `text`. The recorded positions refer to its bytes; the first is at
   * `at`.
   */
  protected abstract headOf(text: string, at: number, rawHeaders: string[]): Head;

  protected fail(error: HeadError, at: number): number {
    this.error = error;
    this.state = WRONG;
    return at;
  }

  /** The next part of the start line begins after `at`. */
  protected enter(state: number, at: number): number {
    this.state = state;
    this.partBytes = 0;
    return at + 1;
  }

  /** Reads `HTTP/1.` and one digit, 0 or 1. Another digit is another version. */
  protected versionPart(bytes: Buffer, at: number, to: number): number {
    let { partBytes } = this;
    let i = at;
    while (i < to && bytes[i] === HTTP[partBytes]) {
      i++;
      partBytes++;
    }
    this.partBytes = partBytes;
    if (i === to) return i;
    const byte = bytes[i] as number;
    if (partBytes === HTTP.length && (byte === ZERO || byte === ONE)) {
      this.version = byte === ONE ? "1.1" : "1.0";
      return this.enter(STATE_VERSION_END, i);
    }
    return this.fail(partBytes >= 5 && isDigit(byte) ? "version" : "line", i);
  }

  /** After the version comes `expected`, and then the part that `state` names. */
  protected versionEnd(byte: number, at: number, expected: number, state: number): number {
    if (byte === expected) return this.enter(state, at);
    return this.fail(isDigit(byte) ? "version" : "line", at);
  }

  protected lineEnd(byte: number, at: number): number {
    return byte === LF ? this.enter(FIELDS, at) : this.fail("line", at);
  }

  #decode(bytes: Buffer, from: number, to: number): void {
    const text = bytes.toString("latin1", from, to);
    this.head = this.headOf(text, from, this.#fields.decode(text, from));
  }

  /** Parses a head as a whole that arrived in pieces, which were checked on the way. */
  #readWhole(): void {
    const { bytes, length } = this.#kept;
    this.#readBefore = 0;
    this.begin();
    this.#scan(bytes, 0, length);
    this.#decode(bytes, 0, length);
    this.#kept.clear();
  }

  #scan(bytes: Buffer, at: number, to: number): number {
    const first = at - this.#readBefore;
    const { lineBytesMax, headBytesMax } = this.limits;
    let i = at;
    if (this.state < FIELDS) {
      const lineMax = first + lineBytesMax;
      i = this.#line(bytes, i, Math.min(to, lineMax));
      if (this.error !== undefined) return i;
      if (this.state < FIELDS) return i === lineMax ? this.fail("line_overflow", i) : i;
      this.#fields.begin(i);
    }
    const headMax = first + headBytesMax;
    i = this.#fields.read(bytes, i, Math.min(to, headMax));
    if (this.#fields.failed) return this.fail("field", i);
    if (this.#fields.done) this.state = DONE;
    else if (i >= headMax) return this.fail("head_overflow", i);
    return i;
  }

  #line(bytes: Buffer, at: number, to: number): number {
    let i = at;
    while (i < to && this.state < FIELDS) i = this.linePart(bytes, i, to);
    return i;
  }
}
