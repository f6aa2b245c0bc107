import { COLON, CR, FIELD_VALUE_BYTES, hexValue, LF, TOKEN_BYTES } from "./octets.ts";

/**
 * Why bytes are no body. `chunk`: not the chunked coding; `extension_overflow`: too many chunk
 * extensions; `trailer`: no field line, or one that would change the framing; `trailer_overflow`:
 * more trailers than the limits allow.
 */
export type BodyError = "chunk" | "extension_overflow" | "trailer" | "trailer_overflow";

/** Limits of the trailers of one body: the bytes of their lines, and their number. */
export type TrailerLimits = {
  readonly trailerBytesMax: number;
  readonly trailerCountMax: number;
};

/** The most bytes of chunk extensions in one chunk, or in all chunks of one body. */
const EXTENSION_BYTES_MAX = 16_384;
/** Includes leading zeros. The size stays a safe integer. */
const SIZE_DIGITS_MAX = 13;
const SEMICOLON = 0x3b;
const EQUALS = 0x3d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** RFC 9110 6.5.1: these decide where a message ends, so as trailers they are an attack. */
const FRAMING_FIELDS = new Set(["content-length", "transfer-encoding"]);
const NAME_BYTES_KEPT = 18;
/** Fewer bytes than this are cheaper to move one by one than with a call. */
const MOVED_SINGLY_MAX = 16;

const DONE = 0;
const LENGTH = 1;
const UNTIL_CLOSE = 2;
const DATA = 3;
const DATA_CR = 4;
const DATA_LF = 5;
const SIZE_FIRST = 6;
const SIZE = 7;
const SIZE_LF = 8;
const NAME_FIRST = 9;
const NAME = 10;
const PART_FIRST = 11;
const PART = 12;
const QUOTED = 13;
const ESCAPED = 14;
const QUOTED_END = 15;
const LINE = 16;
const TRAILER_NAME = 17;
const TRAILER_VALUE = 18;
const TRAILER_LF = 19;
const LAST_LF = 20;
const WRONG = 21;

/**
 * Parses one body after another, however the bytes are split into pieces. It follows RFC 9112 7.1
 * strictly: sizes are only hexadecimal digits, lines end only with CRLF, extensions are skipped.
 * Trailers are counted and dropped.
 */
export class BodyParser {
  #state = DONE;
  #bytesLeft = 0;
  #sizeDigits = 0;
  #extensionBytes = 0;
  #sumsExtensions = true;
  #trailerName = "";
  #trailerBytes = 0;
  #trailerCount = 0;
  #limits: TrailerLimits = { trailerBytesMax: 0, trailerCountMax: 0 };
  /** Final: after an error nothing more is read. */
  error: BodyError | undefined;
  /** The position of the data that `read` found in the bytes that it was given. */
  dataFrom = 0;
  dataTo = 0;

  /** Whether the last byte of the body was read. */
  get done(): boolean {
    return this.#state === DONE;
  }

  /** The bytes that are still to come of a body of known length; 0 for any other. */
  get bytesLeft(): number {
    return this.#state === LENGTH ? this.#bytesLeft : 0;
  }

  /** Whether the body ends when the connection ends. */
  get untilClose(): boolean {
    return this.#state === UNTIL_CLOSE;
  }

  startLength(bytes: number): void {
    this.#state = bytes === 0 ? DONE : LENGTH;
    this.#bytesLeft = bytes;
  }

  startUntilClose(): void {
    this.#state = UNTIL_CLOSE;
  }

  /**
   * `limitExtensionsOf`: RFC 9112 7.1.1 asks for a limit over the whole of a request. A response may
   * be a stream without an end, each chunk of which is signed, so its chunks are limited one by one.
   */
  startChunked(limits: TrailerLimits, limitExtensionsOf: "body" | "chunk" = "body"): void {
    this.#state = SIZE_FIRST;
    this.#limits = limits;
    this.#sumsExtensions = limitExtensionsOf === "body";
    this.#extensionBytes = 0;
    this.#trailerBytes = 0;
    this.#trailerCount = 0;
  }

  /** Replaces the limits, before any trailer was read. */
  limitTrailers(limits: TrailerLimits): void {
    this.#limits = limits;
  }

  /**
   * Reads from `at`. Returns the position where it stopped: after the body, at the malformed byte,
   * or at `to`. All data found on the way, also before a malformed byte, is in one piece from
   * `dataFrom` to `dataTo`: the data of small chunks is moved together within `bytes`.
   */
  read(bytes: Buffer, at: number, to: number): number {
    this.dataFrom = at;
    this.dataTo = at;
    switch (this.#state) {
      case DONE:
      case WRONG:
        return at;
      case UNTIL_CLOSE:
        this.dataTo = to;
        return to;
      case LENGTH: {
        const size = Math.min(this.#bytesLeft, to - at);
        this.#bytesLeft -= size;
        if (this.#bytesLeft === 0) this.#state = DONE;
        this.dataTo = at + size;
        return this.dataTo;
      }
      default:
        return this.#readChunks(bytes, at, to);
    }
  }

  #readChunks(bytes: Buffer, at: number, to: number): number {
    let i = at;
    while (i < to && this.#state !== DONE) {
      if (this.#state !== DATA) {
        if (!this.#take(bytes[i] as number)) return i;
        i += 1;
        continue;
      }
      const size = Math.min(this.#bytesLeft, to - i);
      this.#collect(bytes, i, size);
      this.#bytesLeft -= size;
      if (this.#bytesLeft === 0) this.#state = DATA_CR;
      i += size;
    }
    return i;
  }

  #collect(bytes: Buffer, at: number, size: number): void {
    if (this.dataFrom === this.dataTo) {
      this.dataFrom = at;
    } else if (size < MOVED_SINGLY_MAX) {
      for (let i = 0; i < size; i++) bytes[this.dataTo + i] = bytes[at + i] as number;
    } else {
      bytes.copyWithin(this.dataTo, at, at + size);
    }
    this.dataTo = this.dataFrom === at ? at + size : this.dataTo + size;
  }

  /** Takes one byte that is no data. Returns false if it is malformed. */
  #take(byte: number): boolean {
    switch (this.#state) {
      case DATA_CR:
        return this.#expect(byte, CR, DATA_LF);
      case DATA_LF:
        return this.#expect(byte, LF, SIZE_FIRST);
      case SIZE_FIRST:
        this.#bytesLeft = 0;
        this.#sizeDigits = 0;
        if (!this.#sumsExtensions) this.#extensionBytes = 0;
        return this.#size(byte);
      case SIZE:
        if (byte === CR) return this.#enter(SIZE_LF);
        if (byte === SEMICOLON) return this.#extension(NAME_FIRST);
        return this.#size(byte);
      case SIZE_LF:
        return this.#expect(byte, LF, this.#bytesLeft === 0 ? LINE : DATA);
      case LINE:
      case TRAILER_NAME:
      case TRAILER_VALUE:
      case TRAILER_LF:
      case LAST_LF:
        return this.#trailer(byte);
      default:
        return this.#extensionByte(byte);
    }
  }

  #size(byte: number): boolean {
    const digit = hexValue(byte);
    this.#sizeDigits += 1;
    if (digit === -1 || this.#sizeDigits > SIZE_DIGITS_MAX) return this.#fail("chunk");
    this.#bytesLeft = this.#bytesLeft * 16 + digit;
    return this.#enter(SIZE);
  }

  /** RFC 9112 7.1.1, without whitespace: `;name`, `;name=token`, `;name="quoted"`. */
  #extensionByte(byte: number): boolean {
    switch (this.#state) {
      case NAME_FIRST:
        return TOKEN_BYTES[byte] === 1 ? this.#extension(NAME) : this.#fail("chunk");
      case NAME:
        if (byte === EQUALS) return this.#extension(PART_FIRST);
        return TOKEN_BYTES[byte] === 1 ? this.#extension(NAME) : this.#extensionEnd(byte);
      case PART_FIRST:
        if (byte === QUOTE) return this.#extension(QUOTED);
        return TOKEN_BYTES[byte] === 1 ? this.#extension(PART) : this.#fail("chunk");
      case PART:
        return TOKEN_BYTES[byte] === 1 ? this.#extension(PART) : this.#extensionEnd(byte);
      case QUOTED:
        if (byte === QUOTE) return this.#extension(QUOTED_END);
        if (byte === BACKSLASH) return this.#extension(ESCAPED);
        return FIELD_VALUE_BYTES[byte] === 1 ? this.#extension(QUOTED) : this.#fail("chunk");
      case ESCAPED:
        return FIELD_VALUE_BYTES[byte] === 1 ? this.#extension(QUOTED) : this.#fail("chunk");
      default:
        return this.#extensionEnd(byte);
    }
  }

  #extensionEnd(byte: number): boolean {
    if (byte === SEMICOLON) return this.#extension(NAME_FIRST);
    return this.#expect(byte, CR, SIZE_LF);
  }

  #extension(state: number): boolean {
    this.#extensionBytes += 1;
    if (this.#extensionBytes > EXTENSION_BYTES_MAX) return this.#fail("extension_overflow");
    return this.#enter(state);
  }

  #trailer(byte: number): boolean {
    if (this.#state === LAST_LF) return this.#expect(byte, LF, DONE);
    if (this.#state === LINE && byte === CR) return this.#enter(LAST_LF);
    this.#trailerBytes += 1;
    if (this.#trailerBytes > this.#limits.trailerBytesMax) return this.#fail("trailer_overflow");
    switch (this.#state) {
      case LINE:
        this.#trailerCount += 1;
        if (this.#trailerCount > this.#limits.trailerCountMax) {
          return this.#fail("trailer_overflow");
        }
        this.#trailerName = "";
        return this.#trailerNameByte(byte);
      case TRAILER_NAME:
        if (byte !== COLON) return this.#trailerNameByte(byte);
        if (FRAMING_FIELDS.has(this.#trailerName.toLowerCase())) return this.#fail("trailer");
        return this.#enter(TRAILER_VALUE);
      case TRAILER_VALUE:
        if (byte === CR) return this.#enter(TRAILER_LF);
        return FIELD_VALUE_BYTES[byte] === 1 || this.#fail("trailer");
      default:
        return byte === LF ? this.#enter(LINE) : this.#fail("trailer");
    }
  }

  #trailerNameByte(byte: number): boolean {
    if (TOKEN_BYTES[byte] !== 1) return this.#fail("trailer");
    if (this.#trailerName.length < NAME_BYTES_KEPT) this.#trailerName += String.fromCharCode(byte);
    return this.#enter(TRAILER_NAME);
  }

  #expect(byte: number, expected: number, state: number): boolean {
    return byte === expected ? this.#enter(state) : this.#fail("chunk");
  }

  #enter(state: number): true {
    this.#state = state;
    return true;
  }

  #fail(error: BodyError): false {
    this.error = error;
    this.#state = WRONG;
    return false;
  }
}
