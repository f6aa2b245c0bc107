import { ENDED, isCompleteNumber, isNumberState, MINUS, nextNumberState } from "./json-number.ts";
import { PointerPosition } from "./pointer-position.ts";

/** The states of a reader, by what the next byte belongs to. The states of a number are those of json-number.ts. */
const VALUE = 0;
const FIRST_VALUE = 1;
const FIRST_NAME = 2;
const NAME = 3;
const COLON = 4;
const COMMA = 5;
const STRING = 6;
const ESCAPE = 7;
const HEX = 8;
const LITERAL = 9;
/** Only white space may follow. */
const WHOLE = 10;
const MALFORMED = 11;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ESCAPED: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt', "latin1"));
const WORDS: ReadonlyMap<number, Uint8Array> = new Map(
  ["true", "false", "null"].map((word) => [word.charCodeAt(0), Buffer.from(word, "latin1")]),
);
const BYTE_ORDER_MARK: readonly number[] = [0xef, 0xbb, 0xbf];

/** The most units that an answer may tell (docs/reference/meters.md#used). */
export const USED_MAX = 1e12;

/**
 * Reads a JSON text (RFC 8259) in pieces of any size, and finds the number that a JSON Pointer
 * leads to. It keeps nothing of the text but its position.
 */
export class JsonPointerReader {
  readonly #position: PointerPosition;
  #state = VALUE;
  #isName = false;
  #word: Uint8Array | undefined;
  /** The bytes of a word or of four hexadecimal digits that were read. */
  #taken = 0;
  /** The value of the number under way; -1 if it is not at the place, or not from 0 to USED_MAX. */
  #digits = -1;
  /** The bytes of a byte order mark that were read. */
  #marks = 0;

  /** `tokens` are those of the pointer (RFC 6901 4), at least one. */
  constructor(tokens: readonly string[]) {
    this.#position = new PointerPosition(tokens);
  }

  /** Whether the bytes so far are a JSON text. */
  get isWhole(): boolean {
    return this.#state === WHOLE;
  }

  /** Whether the bytes so far begin no JSON text. */
  get isMalformed(): boolean {
    return this.#state === MALFORMED;
  }

  /** Whether there is a value at the place, of any type. */
  get isThere(): boolean {
    return this.#position.isThere;
  }

  /** The number at the place, from 0 to USED_MAX and written in digits alone. */
  get used(): number | undefined {
    return this.#state === MALFORMED ? undefined : this.#position.used;
  }

  /** Begins another text. */
  reset(): void {
    this.#position.reset();
    this.#state = VALUE;
    this.#marks = 0;
  }

  /** Reads the bytes from `from` up to `to`. */
  read(bytes: Uint8Array, from = 0, to = bytes.length): void {
    let at = from;
    while (at < to && this.#state !== MALFORMED) {
      if (this.#state === STRING) at = this.#readString(bytes, at, to);
      else if (isNumberState(this.#state)) at = this.#readNumber(bytes, at, to);
      else {
        this.#take(bytes, at);
        at += 1;
      }
    }
  }

  #take(bytes: Uint8Array, at: number): void {
    const byte = bytes[at] as number;
    if (this.#state === LITERAL) this.#spell(byte);
    else if (this.#state === ESCAPE || this.#state === HEX) {
      if (this.#isName) this.#position.addName(bytes, at, at + 1);
      if (this.#state === ESCAPE) this.#escape(byte);
      else this.#takeHex(byte);
    } else if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) this.#token(byte);
  }

  #token(byte: number): void {
    const state = this.#state;
    if (state === VALUE) this.#value(byte);
    else if (state === FIRST_VALUE && byte !== 0x5d) this.#value(byte);
    else if (state === FIRST_VALUE) this.#close(false);
    else if (state === FIRST_NAME && byte === 0x7d) this.#close(true);
    else if (state === COMMA) this.#separate(byte);
    else if (state === COLON && byte === 0x3a) this.#state = VALUE;
    else if ((state === NAME || state === FIRST_NAME) && byte === QUOTE) {
      this.#position.beginName();
      this.#isName = true;
      this.#state = STRING;
    } else this.#state = MALFORMED;
  }

  #value(byte: number): void {
    if (this.#isMark(byte)) return;
    const isAtPlace = this.#position.beginValue();
    const word = WORDS.get(byte);
    if (byte === QUOTE) {
      this.#isName = false;
      this.#state = STRING;
    } else if (byte === 0x7b || byte === 0x5b) {
      this.#position.open(byte === 0x7b);
      this.#state = byte === 0x7b ? FIRST_NAME : FIRST_VALUE;
    } else if (word !== undefined) {
      this.#word = word;
      this.#taken = 1;
      this.#state = LITERAL;
    } else this.#beginNumber(byte, isAtPlace);
  }

  /** RFC 8259 8.1: a byte order mark before a text may be ignored. */
  #isMark(byte: number): boolean {
    if (this.#marks === BYTE_ORDER_MARK.length || !this.#position.isOutside) return false;
    const isMark = byte === BYTE_ORDER_MARK[this.#marks];
    if (isMark) this.#marks += 1;
    else if (this.#marks > 0) this.#state = MALFORMED;
    else this.#marks = BYTE_ORDER_MARK.length;
    return isMark || this.#state === MALFORMED;
  }

  #separate(byte: number): void {
    if (byte === 0x2c) this.#state = this.#position.isInObject ? NAME : VALUE;
    else if (byte === 0x7d || byte === 0x5d) this.#close(byte === 0x7d);
    else this.#state = MALFORMED;
  }

  #close(isObject: boolean): void {
    if (this.#position.isInObject !== isObject) {
      this.#state = MALFORMED;
      return;
    }
    this.#position.close();
    this.#state = this.#position.isOutside ? WHOLE : COMMA;
  }

  #endScalar(): void {
    this.#position.endValue();
    this.#state = this.#position.isOutside ? WHOLE : COMMA;
  }

  #readString(bytes: Uint8Array, from: number, to: number): number {
    let at = from;
    let byte = 0x20;
    for (; at < to; at++) {
      byte = bytes[at] as number;
      if (byte === QUOTE || byte === BACKSLASH || byte < 0x20) break;
    }
    const isEscape = at < to && byte === BACKSLASH;
    if (this.#isName) this.#position.addName(bytes, from, isEscape ? at + 1 : at);
    if (at === to) return to;
    if (isEscape) this.#state = ESCAPE;
    else if (byte !== QUOTE) this.#state = MALFORMED;
    else if (this.#isName) {
      this.#position.endName();
      this.#state = COLON;
    } else this.#endScalar();
    return at + 1;
  }

  #escape(byte: number): void {
    if (this.#isName) this.#position.escapeName();
    this.#taken = 0;
    if (byte === 0x75) this.#state = HEX;
    else this.#state = ESCAPED.has(byte) ? STRING : MALFORMED;
  }

  #takeHex(byte: number): void {
    const letter = byte | 0x20;
    const isHex = isDigit(byte) || (letter >= 0x61 && letter <= 0x66);
    this.#taken += 1;
    if (!isHex) this.#state = MALFORMED;
    else if (this.#taken === 4) this.#state = STRING;
  }

  #spell(byte: number): void {
    const word = this.#word as Uint8Array;
    if (byte !== word[this.#taken]) {
      this.#state = MALFORMED;
      return;
    }
    this.#taken += 1;
    if (this.#taken === word.length) this.#endScalar();
  }

  #beginNumber(byte: number, isAtPlace: boolean): void {
    this.#digits = isAtPlace && byte !== 0x2d ? 0 : -1;
    const state = byte === 0x2d ? MINUS : nextNumberState(MINUS, byte);
    this.#state = state === ENDED ? MALFORMED : state;
    this.#addDigit(byte);
  }

  #readNumber(bytes: Uint8Array, from: number, to: number): number {
    for (let at = from; at < to; at++) {
      const byte = bytes[at] as number;
      const state = nextNumberState(this.#state, byte);
      if (state === ENDED) {
        this.#endNumber();
        return at;
      }
      this.#state = state;
      this.#addDigit(byte);
    }
    return to;
  }

  #addDigit(byte: number): void {
    if (this.#digits === -1) return;
    const value = this.#digits * 10 + byte - 0x30;
    this.#digits = isDigit(byte) && value <= USED_MAX ? value : -1;
  }

  /** A byte has come that is no part of the number. It is read next. */
  #endNumber(): void {
    if (!isCompleteNumber(this.#state)) {
      this.#state = MALFORMED;
      return;
    }
    if (this.#digits !== -1) this.#position.used = this.#digits;
    this.#endScalar();
  }
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}
