import { JsonPointerReader } from "./json-pointer-reader.ts";

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const DATA = Buffer.from("data", "latin1");
/** As most lines begin. */
const DATA_LINE = Buffer.from("data: ", "latin1");
const LINE_END = Buffer.from("\n", "latin1");
const BYTE_ORDER_MARK: readonly number[] = [0xef, 0xbb, 0xbf];

/** The part of a line that the next byte belongs to. */
type LinePart =
  /** The name of its field, which has been that of `data` so far. */
  | "name"
  /** The value of its data, before which one space may stand. */
  | "before value"
  | "value"
  /** A comment or another field. */
  | "other";

/**
 * Reads a stream of server-sent events (HTML Standard 9.2.6) in pieces of any size, and finds the
 * number in the data of the last event that has one. Keeps nothing of the stream.
 */
export class EventStreamReader {
  readonly #json: JsonPointerReader;
  readonly #eventBytesMax: number;
  #part: LinePart = "name";
  /** The bytes of the line's name that were read. */
  #nameLength = 0;
  #isLineEmpty = true;
  #hasData = false;
  #eventBytes = 0;
  /** Whether the last byte was a CR. An LF after it is part of the same line end. */
  #isAfterCr = false;
  /** The bytes of a byte order mark that were read; all, if there was none. */
  #marks = 0;
  /** Where the next of each is in these bytes: most streams have none of one of them. */
  #nextCr = -1;
  #nextLf = -1;
  #used: number | undefined;

  /**
   * `tokens` are those of a JSON Pointer. An event whose lines have more than `eventBytesMax` bytes
   * is passed over.
   */
  constructor(tokens: readonly string[], eventBytesMax: number) {
    this.#json = new JsonPointerReader(tokens);
    this.#eventBytesMax = eventBytesMax;
  }

  /** The number of the last event whose data is JSON and has the place; undefined if it is none. */
  get used(): number | undefined {
    return this.#used;
  }

  read(bytes: Uint8Array): void {
    this.#nextCr = -1;
    this.#nextLf = -1;
    for (let at = 0; at < bytes.length; ) {
      const byte = bytes[at] as number;
      if (byte === CR || byte === LF) {
        this.#endLine(byte);
        at += 1;
      } else {
        if (this.#isLineEmpty) at += this.#beginLine(bytes, at);
        this.#isAfterCr = false;
        this.#isLineEmpty = false;
        if (this.#part === "value" || this.#part === "other") at = this.#readRest(bytes, at);
        else if (this.#take(byte)) at += 1;
      }
    }
  }

  /** Takes the beginning of a line of data in one step, if it is there. Returns its length. */
  #beginLine(bytes: Uint8Array, at: number): number {
    const isCutMark = this.#marks > 0 && this.#marks < BYTE_ORDER_MARK.length;
    if (isCutMark || at + DATA_LINE.length > bytes.length) return 0;
    for (let i = 0; i < DATA_LINE.length; i++) if (bytes[at + i] !== DATA_LINE[i]) return 0;
    this.#marks = BYTE_ORDER_MARK.length;
    this.#eventBytes += DATA_LINE.length;
    this.#part = "value";
    this.#beginData();
    return DATA_LINE.length;
  }

  /** Takes a byte before the value of a line. Returns false if the byte belongs to the value. */
  #take(byte: number): boolean {
    if (this.#part === "before value") {
      this.#part = "value";
      if (byte !== SPACE) return false;
    } else if (this.#marks < BYTE_ORDER_MARK.length && byte === BYTE_ORDER_MARK[this.#marks]) {
      this.#marks += 1;
      this.#isLineEmpty = true;
      return true;
    } else {
      const isCutMark = this.#marks > 0 && this.#marks < BYTE_ORDER_MARK.length;
      this.#marks = BYTE_ORDER_MARK.length;
      this.#takeName(isCutMark ? 0 : byte);
    }
    this.#eventBytes += 1;
    return true;
  }

  #takeName(byte: number): void {
    if (byte === COLON && this.#nameLength === DATA.length) {
      this.#part = "before value";
      this.#beginData();
    } else if (byte === DATA[this.#nameLength]) this.#nameLength += 1;
    else this.#part = "other";
  }

  /** Reads up to the end of the line, or of the bytes. */
  #readRest(bytes: Uint8Array, from: number): number {
    const at = this.#lineEnd(bytes, from);
    this.#eventBytes += at - from;
    if (this.#part === "value" && !this.#isTooLong) this.#json.read(bytes, from, at);
    return at;
  }

  /** The place of the next CR or LF, or the end of the bytes. */
  #lineEnd(bytes: Uint8Array, from: number): number {
    if (this.#nextCr < from) this.#nextCr = placeOf(CR, bytes, from);
    if (this.#nextLf < from) this.#nextLf = placeOf(LF, bytes, from);
    return Math.min(this.#nextCr, this.#nextLf);
  }

  /** The lines of data of an event are joined by line ends. */
  #beginData(): void {
    if (this.#hasData) this.#json.read(LINE_END);
    this.#hasData = true;
  }

  #endLine(byte: number): void {
    const isRestOfEnd = byte === LF && this.#isAfterCr;
    this.#isAfterCr = byte === CR;
    if (isRestOfEnd) return;
    if (this.#isLineEmpty) this.#endEvent();
    else if (this.#part === "name" && this.#nameLength === DATA.length) this.#beginData();
    this.#part = "name";
    this.#nameLength = 0;
    this.#isLineEmpty = true;
    this.#marks = BYTE_ORDER_MARK.length;
  }

  #endEvent(): void {
    const { isWhole, isThere, used } = this.#json;
    if (this.#hasData && !this.#isTooLong && isWhole && isThere) this.#used = used;
    this.#json.reset();
    this.#hasData = false;
    this.#eventBytes = 0;
  }

  get #isTooLong(): boolean {
    return this.#eventBytes > this.#eventBytesMax;
  }
}

function placeOf(byte: number, bytes: Uint8Array, from: number): number {
  const at = bytes.indexOf(byte, from);
  return at === -1 ? bytes.length : at;
}
