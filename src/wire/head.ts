import { COLON, CR, HTAB, isDigit, LF, SP, TARGET, TOKEN, VALUE } from "./bytes.ts";
import { KeptBytes } from "./kept-bytes.ts";

/**
 * Why bytes are no head. `line`: no request line or status line; `method`: longer than any method;
 * `version`: HTTP, but neither 1.0 nor 1.1; `field`: no field line; `line_overflow`,
 * `head_overflow`: more bytes than the limits allow.
 */
export type HeadWrong = "line" | "method" | "version" | "field" | "line_overflow" | "head_overflow";

/** Both count every byte from the first, line ends and empty lines ahead of a request included. */
export type HeadLimits = {
  readonly lineBytesMax: number;
  readonly headBytesMax: number;
};

export type Version = "1.0" | "1.1";

export type RequestHead = {
  readonly method: string;
  readonly target: string;
  readonly version: Version;
  /** Names and values in turn, as they were sent; nothing merged, nothing dropped. */
  readonly rawHeaders: string[];
};

export type StatusHead = {
  readonly status: number;
  readonly version: Version;
  readonly rawHeaders: string[];
};

/** Longer than the longest registered method, UPDATEREDIRECTREF. */
const METHOD_BYTES_MAX = 24;
const HTTP = Buffer.from("HTTP/1.");
const ZERO = 0x30;
const ONE = 0x31;

// The states of the start line, then those of the fields.
const START = 0;
const START_LF = 1;
const METHOD = 2;
const TARGET_FIRST = 3;
const TARGET_REST = 4;
const VERSION = 5;
const VERSION_END = 6;
const STATUS = 7;
const STATUS_END = 8;
const REASON = 9;
const LINE_LF = 10;
const FIELD = 11;
const NAME = 12;
const FIELD_VALUE = 13;
const FIELD_LF = 14;
const END_LF = 15;
const DONE = 16;
const WRONG = 17;

/** Where the colon and the end of each field stand in the head that is being read. */
const marks: number[] = [];

/**
 * Reads heads, one after another, in whatever pieces they come: each byte moves one machine, so that
 * how the bytes were cut can change nothing. Lines end with CRLF alone, nothing is folded, no space
 * stands before a colon, and one space stands between the parts of a request line (RFC 9112 2.2, 3,
 * 5.1, 5.2). A head is wrong with the first byte after which no other could mend it.
 */
abstract class HeadReader<Head> {
  readonly #limits: HeadLimits;
  readonly #kept = new KeptBytes();
  /** Bytes of this head that were read before the present piece. */
  #readBefore = 0;
  /** The head read last, until `next`. */
  head: Head | undefined;
  /** Final: nothing more is read. */
  wrong: HeadWrong | undefined;
  protected state = START;
  /** Within the part that is being read: of a method, a version, a status. */
  protected partBytes = 0;
  /** Where, in the bytes of the head, its parts end; of use only when it was read in one piece. */
  protected lineFrom = 0;
  protected partEnd = 0;
  protected fieldsFrom = 0;
  #fieldEnds = 0;

  constructor(limits: HeadLimits) {
    this.#limits = limits;
  }

  /** A byte of a head has come; empty lines ahead of a request are none of it. */
  get begun(): boolean {
    return this.state > START_LF;
  }

  next(): void {
    this.#kept.clear();
    this.#readBefore = 0;
    this.head = undefined;
    this.#begin();
  }

  /** Reads from `at`; returns where it stopped: behind the head, at what is wrong, or at `to`. */
  read(bytes: Buffer, at: number, to: number): number {
    if (this.wrong !== undefined || this.head !== undefined) return at;
    const end = this.#scan(bytes, at, to);
    if (this.wrong !== undefined) {
      this.#kept.clear();
      return end;
    }
    if (this.state === DONE && this.#readBefore === 0) {
      this.head = this.decode(bytes.toString("latin1", at, end), at);
      return end;
    }
    this.#kept.append(bytes, at, end);
    this.#readBefore += end - at;
    if (this.state === DONE) this.#readWhole();
    return end;
  }

  protected abstract line(bytes: Buffer, at: number, to: number): number;
  /** `text` is the head; the places that were noted are those of its bytes, `at` the first. */
  protected abstract decode(text: string, at: number): Head;

  protected fail(wrong: HeadWrong, at: number): number {
    this.wrong = wrong;
    this.state = WRONG;
    return at;
  }

  protected fieldsOf(text: string, at: number): string[] {
    const fields: string[] = [];
    let from = this.fieldsFrom - at;
    for (let i = 0; i < this.#fieldEnds; i += 2) {
      const colon = (marks[i] as number) - at;
      const end = (marks[i + 1] as number) - at;
      const name = text.slice(from, colon);
      fields.push(name, fieldValue(text, colon + 1, end, isTransferEncoding(name)));
      from = end + 2;
    }
    return fields;
  }

  #begin(): void {
    this.state = START;
    this.partBytes = 0;
    this.#fieldEnds = 0;
  }

  /** A head that came in pieces was judged on the way: now it is read once more, in one. */
  #readWhole(): void {
    const { bytes, to } = this.#kept;
    this.#readBefore = 0;
    this.#begin();
    this.#scan(bytes, 0, to);
    this.head = this.decode(bytes.toString("latin1", 0, to), 0);
    this.#kept.clear();
  }

  #scan(bytes: Buffer, at: number, to: number): number {
    const first = at - this.#readBefore;
    const { lineBytesMax, headBytesMax } = this.#limits;
    let i = at;
    if (this.state < FIELD) {
      const lineMax = first + lineBytesMax;
      i = this.line(bytes, i, Math.min(to, lineMax));
      if (this.wrong !== undefined) return i;
      if (this.state < FIELD) return i === lineMax ? this.fail("line_overflow", i) : i;
    }
    const headMax = first + headBytesMax;
    i = this.#fields(bytes, i, Math.min(to, headMax));
    if (this.wrong !== undefined || this.state === DONE) return i;
    return i >= headMax ? this.fail("head_overflow", i) : i;
  }

  #fields(bytes: Buffer, at: number, to: number): number {
    let i = at;
    let { state } = this;
    while (i < to) {
      const byte = bytes[i] as number;
      if (state === FIELD) {
        if (byte === CR) state = END_LF;
        else if (TOKEN[byte] === 1) state = NAME;
        else return this.fail("field", i);
      } else if (state === NAME) {
        while (i < to && TOKEN[bytes[i] as number] === 1) i++;
        if (i === to) break;
        if (bytes[i] !== COLON) return this.fail("field", i);
        marks[this.#fieldEnds] = i;
        state = FIELD_VALUE;
      } else if (state === FIELD_VALUE) {
        while (i < to && VALUE[bytes[i] as number] === 1) i++;
        if (i === to) break;
        if (bytes[i] !== CR) return this.fail("field", i);
        marks[this.#fieldEnds + 1] = i;
        this.#fieldEnds += 2;
        state = FIELD_LF;
      } else {
        if (byte !== LF) return this.fail("field", i);
        if (state === END_LF) {
          this.state = DONE;
          return i + 1;
        }
        state = FIELD;
      }
      i++;
    }
    this.state = state;
    return i;
  }

  /** `HTTP/1.` and one digit, 0 or 1; another digit is another version. */
  protected version(byte: number, at: number): number {
    const { partBytes } = this;
    const isOver = partBytes === HTTP.length;
    if (isOver ? byte === ZERO || byte === ONE : byte === HTTP[partBytes]) {
      if (isOver) this.state = VERSION_END;
      else this.partBytes = partBytes + 1;
      return at + 1;
    }
    return this.fail(partBytes >= 5 && isDigit(byte) ? "version" : "line", at);
  }

  protected lineEnd(byte: number, at: number): number {
    if (byte !== LF) return this.fail("line", at);
    this.state = FIELD;
    this.fieldsFrom = at + 1;
    return at + 1;
  }
}

export class RequestHeadReader extends HeadReader<RequestHead> {
  #targetEnd = 0;
  #methodText = "";
  /** The method of the head that is being read, once a space has ended it; else "". */
  method = "";

  override next(): void {
    super.next();
    this.#methodText = "";
    this.method = "";
  }

  protected override line(bytes: Buffer, at: number, to: number): number {
    let i = at;
    while (i < to && this.state < FIELD && this.wrong === undefined) {
      const byte = bytes[i] as number;
      switch (this.state) {
        case START:
          // RFC 9112 2.2: an empty line ahead of a request is an old client's mistake.
          if (byte === CR) {
            this.state = START_LF;
            i++;
          } else {
            this.lineFrom = i;
            this.state = METHOD;
          }
          break;
        case START_LF:
          if (byte !== LF) return this.fail("line", i);
          this.state = START;
          i++;
          break;
        case METHOD:
          i = this.#method(byte, i);
          break;
        case TARGET_FIRST:
          if (TARGET[byte] !== 1) return this.fail("line", i);
          this.state = TARGET_REST;
          break;
        case TARGET_REST:
          while (i < to && TARGET[bytes[i] as number] === 1) i++;
          if (i === to) return i;
          if (bytes[i] !== SP) return this.fail("line", i);
          this.#targetEnd = i++;
          this.partBytes = 0;
          this.state = VERSION;
          break;
        case VERSION:
          i = this.version(byte, i);
          break;
        case VERSION_END:
          if (byte !== CR) return this.fail(isDigit(byte) ? "version" : "line", i);
          this.state = LINE_LF;
          i++;
          break;
        default:
          i = this.lineEnd(byte, i);
      }
    }
    return i;
  }

  protected override decode(text: string, at: number): RequestHead {
    const targetEnd = this.#targetEnd - at;
    return {
      method: text.slice(this.lineFrom - at, this.partEnd - at),
      target: text.slice(this.partEnd - at + 1, targetEnd),
      version: text.charCodeAt(targetEnd + 8) === ONE ? "1.1" : "1.0",
      rawHeaders: this.fieldsOf(text, at),
    };
  }

  #method(byte: number, at: number): number {
    if (TOKEN[byte] === 1) {
      this.partBytes += 1;
      this.#methodText += String.fromCharCode(byte);
      return this.partBytes > METHOD_BYTES_MAX ? this.fail("method", at) : at + 1;
    }
    if (byte !== SP || this.partBytes === 0) return this.fail("line", at);
    this.method = this.#methodText;
    this.partEnd = at;
    this.state = TARGET_FIRST;
    return at + 1;
  }
}

export class StatusHeadReader extends HeadReader<StatusHead> {
  protected override line(bytes: Buffer, at: number, to: number): number {
    let i = at;
    while (i < to && this.state < FIELD && this.wrong === undefined) {
      const byte = bytes[i] as number;
      switch (this.state) {
        case START:
          this.lineFrom = i;
          this.state = VERSION;
          break;
        case VERSION:
          i = this.version(byte, i);
          break;
        case VERSION_END:
          if (byte !== SP) return this.fail(isDigit(byte) ? "version" : "line", i);
          this.state = STATUS;
          this.partBytes = 0;
          i++;
          break;
        case STATUS:
          // RFC 9110 15: three digits, and none below 100.
          if (!isDigit(byte) || (this.partBytes === 0 && byte === ZERO))
            return this.fail("line", i);
          this.partBytes += 1;
          if (this.partBytes === 3) this.state = STATUS_END;
          i++;
          break;
        case STATUS_END:
          // Servers leave the space away where they leave the reason away.
          if (byte !== SP && byte !== CR) return this.fail("line", i);
          this.state = byte === SP ? REASON : LINE_LF;
          i++;
          break;
        case REASON:
          while (i < to && VALUE[bytes[i] as number] === 1) i++;
          if (i === to) return i;
          if (bytes[i] !== CR) return this.fail("line", i);
          this.state = LINE_LF;
          i++;
          break;
        default:
          i = this.lineEnd(byte, i);
      }
    }
    return i;
  }

  protected override decode(text: string, at: number): StatusHead {
    const status =
      text.charCodeAt(9) * 100 + text.charCodeAt(10) * 10 + text.charCodeAt(11) - 111 * ZERO;
    return {
      status,
      version: text.charCodeAt(7) === ONE ? "1.1" : "1.0",
      rawHeaders: this.fieldsOf(text, at),
    };
  }
}

function isTransferEncoding(name: string): boolean {
  return name.length === 17 && name.toLowerCase() === "transfer-encoding";
}

/**
 * A field value without the whitespace around it. Only spaces are taken from a Transfer-Encoding:
 * parsers differ on whether a TAB belongs to the name of the coding, so with one it is not `chunked`.
 */
function fieldValue(text: string, from: number, to: number, keepsTabs: boolean): string {
  let start = from;
  let end = to;
  while (start < end && isSpace(text.charCodeAt(start), keepsTabs)) start++;
  while (end > start && isSpace(text.charCodeAt(end - 1), keepsTabs)) end--;
  return text.slice(start, end);
}

function isSpace(code: number, keepsTabs: boolean): boolean {
  return code === SP || (code === HTAB && !keepsTabs);
}
