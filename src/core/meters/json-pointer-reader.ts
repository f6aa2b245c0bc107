import { PointerPosition } from "./pointer-position.ts";

/** The most units that an answer may tell (docs/reference/meters.md#used). */
export const USED_MAX = 1e12;

/** The states of a JSON text (RFC 8259), by what the next byte belongs to. */
const START = 0;
const VALUE = 1;
const FIRST_VALUE = 2;
const FIRST_NAME = 3;
const NAME = 4;
const COLON = 5;
/** A value of an object has ended, or one of an array. */
const AFTER_MEMBER = 6;
const AFTER_ELEMENT = 7;
/** Only white space may follow. */
const WHOLE = 8;
/** The first byte of a string, a number or a word is looked up in this state as well. */
const SCALAR = 9;
const STRING = 10;
const ESCAPE = 11;
const HEX = 12;
/** The states of a name are those of a string, moved up. */
const NAME_STRING = 16;
const NAME_ESCAPE = 17;
const NAME_HEX_LAST = 21;
const MINUS = 22;
const ZERO = 23;
const DIGITS = 24;
/** The same two for the number at the place. */
const WANTED_ZERO = 25;
const WANTED_DIGITS = 26;
const POINT = 27;
const FRACTION = 28;
const EXPONENT = 29;
const EXPONENT_SIGN = 30;
const EXPONENT_DIGITS = 31;
/** One byte of a byte order mark was read, or two. */
const MARK = 32;
/** One letter of a word was read, or more. */
const TRUE = 34;
const FALSE = 37;
const NULL = 41;
const STATES = 44;

/** The meanings of bytes that do more than lead to the next state. */
const OPEN_OBJECT = 64;
const OPEN_ARRAY = 65;
const CLOSE = 66;
const BEGIN_SCALAR = 67;
/** It is the last byte of a string or of a word. */
const END_VALUE = 68;
/** It comes behind a number, and is no part of it. */
const END_NUMBER = 69;
const END_WANTED = 70;
const BEGIN_NAME = 71;
const END_NAME = 72;
const ESCAPE_NAME = 73;
/** It is part of a string, and neither ends it nor begins an escape. */
const IN_STRING = 74;
const WANTED_DIGIT = 75;
const MALFORMED = 76;

const BYTE_ORDER_MARK = "\xef\xbb\xbf";

/**
 * The next state, or the meaning, of each byte in each state: at `state * 256 + byte`. The numbers
 * above are in one file with the loop that compares them, because V8 takes them for constants only
 * there.
 */
const NEXT = table();

const DIGIT_ZERO = 0x30;

/**
 * Reads a JSON text (RFC 8259) in pieces of any size, and finds the number that a JSON Pointer
 * leads to. It keeps nothing of the text but its position: one bit for each open container.
 */
export class JsonPointerReader {
  readonly #position: PointerPosition;
  #state = START;
  /** How many containers are open. */
  #depth = 0;
  /**
   * Whether each of the innermost ones, up to 32, is an object: one bit each, that of the innermost
   * one lowest. The text itself is in none, and no element of one.
   */
  #kinds = 1;
  /** The kinds that were there before the 1st, the 33rd, the 65th container was opened. */
  #outerKinds = new Int32Array(2);
  /** The digits so far of the number at the place. */
  #wanted = 0;

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
    return this.isMalformed ? undefined : this.#position.used;
  }

  /** Begins another text. */
  reset(): void {
    this.#position.reset();
    this.#state = START;
    this.#depth = 0;
    this.#kinds = 1;
  }

  /**
   * Reads the bytes from `from` up to `to`. An answer may consist of nothing but brackets, so
   * the loop has its state in variables, and only the way to the place has calls.
   */
  read(bytes: Uint8Array, from = 0, to = bytes.length): void {
    const position = this.#position;
    const next = NEXT;
    let state = this.#state;
    let depth = this.#depth;
    let kinds = this.#kinds;
    let level = position.level;
    let nameFrom = from;
    let at = from;
    while (at < to && state !== MALFORMED) {
      const byte = bytes[at] as number;
      const step = next[(state << 8) | byte] as number;
      at += 1;
      if (step < OPEN_OBJECT) state = step;
      else if (step === IN_STRING) {
        while (at < to && next[(state << 8) | (bytes[at] as number)] === IN_STRING) at += 1;
      } else if (step <= OPEN_ARRAY) {
        const isObject = step === OPEN_OBJECT;
        if (depth === level) level = position.open(isObject, (kinds & 1) === 0);
        if ((depth & 31) === 0) this.#keepKinds(depth >> 5, kinds);
        depth += 1;
        kinds = (kinds << 1) | (isObject ? 1 : 0);
        state = isObject ? FIRST_NAME : FIRST_VALUE;
      } else if (step === CLOSE) {
        if (depth === level) level = position.close();
        depth -= 1;
        kinds = (depth & 31) === 0 ? (this.#outerKinds[depth >> 5] as number) : kinds >> 1;
        state = depth === 0 ? WHOLE : AFTER_ELEMENT - (kinds & 1);
      } else if (step === BEGIN_SCALAR) {
        state = next[(SCALAR << 8) | byte] as number;
        const isOnWay = depth === level;
        if (isOnWay && position.beginValue((kinds & 1) === 0)) state = this.#want(byte);
      } else if (step <= END_WANTED) {
        if (step === END_WANTED) position.used = this.#wanted;
        // The byte behind a number is read again.
        if (step !== END_VALUE) at -= 1;
        state = depth === 0 ? WHOLE : AFTER_ELEMENT - (kinds & 1);
      } else if (step === BEGIN_NAME) {
        if (depth === level) position.beginName();
        nameFrom = at;
        state = NAME_STRING;
      } else if (step === END_NAME) {
        if (depth === level) position.endName(bytes, nameFrom, at - 1);
        state = COLON;
      } else state = this.#takeRare(step, byte, depth === level);
    }
    const isInName = state >= NAME_STRING && state <= NAME_HEX_LAST;
    if (isInName && depth === level) position.addName(bytes, nameFrom, to);
    this.#keepState(state, depth, kinds);
  }

  #takeRare(step: number, byte: number, isOnWay: boolean): number {
    if (step === ESCAPE_NAME) {
      if (isOnWay) this.#position.escapeName();
      return NAME_ESCAPE;
    }
    if (step !== WANTED_DIGIT) return MALFORMED;
    this.#wanted = this.#wanted * 10 + byte - DIGIT_ZERO;
    return this.#wanted <= USED_MAX ? WANTED_DIGITS : DIGITS;
  }

  /** A value begins at the place. Only of a number without a sign the digits are wanted. */
  #want(byte: number): number {
    const state = NEXT[(SCALAR << 8) | byte] as number;
    this.#wanted = byte - DIGIT_ZERO;
    if (state === ZERO) return WANTED_ZERO;
    return state === DIGITS ? WANTED_DIGITS : state;
  }

  #keepState(state: number, depth: number, kinds: number): void {
    this.#state = state;
    this.#depth = depth;
    this.#kinds = kinds;
  }

  /** Another container opens, and its bit pushes one of these out. */
  #keepKinds(at: number, kinds: number): void {
    if (at === this.#outerKinds.length) {
      const wider = new Int32Array(2 * at);
      wider.set(this.#outerKinds);
      this.#outerKinds = wider;
    }
    this.#outerKinds[at] = kinds;
  }
}

function table(): Uint8Array {
  const next = new Uint8Array(STATES * 256).fill(MALFORMED);
  const on = (state: number, text: string, to: number) => {
    for (const byte of Buffer.from(text, "latin1")) next[state * 256 + byte] = to;
  };
  for (const state of [START, VALUE, FIRST_VALUE]) {
    on(state, '"-0123456789tfn', BEGIN_SCALAR);
    on(state, "{", OPEN_OBJECT);
    on(state, "[", OPEN_ARRAY);
  }
  // RFC 8259 8.1: a byte order mark before a text may be ignored.
  spell(on, START, { word: BYTE_ORDER_MARK, by: MARK, last: VALUE });
  on(FIRST_VALUE, "]", CLOSE);
  on(FIRST_NAME, '"', BEGIN_NAME);
  on(FIRST_NAME, "}", CLOSE);
  on(NAME, '"', BEGIN_NAME);
  on(COLON, ":", VALUE);
  on(AFTER_MEMBER, ",", NAME);
  on(AFTER_MEMBER, "}", CLOSE);
  on(AFTER_ELEMENT, ",", VALUE);
  on(AFTER_ELEMENT, "]", CLOSE);
  for (let state = START; state <= WHOLE; state++) on(state, " \t\r\n", state);
  on(SCALAR, '"', STRING);
  spell(on, SCALAR, { word: "true", by: TRUE, last: END_VALUE });
  spell(on, SCALAR, { word: "false", by: FALSE, last: END_VALUE });
  spell(on, SCALAR, { word: "null", by: NULL, last: END_VALUE });
  strings(on, next);
  numbers(on, next);
  return next;
}

type Rows = (state: number, text: string, to: number) => void;

/** `by` is the state after the first byte of the word. */
function spell(on: Rows, from: number, way: { word: string; by: number; last: number }): void {
  const { word, by, last } = way;
  for (let i = 0; i < word.length; i++) {
    const to = i === word.length - 1 ? last : by + i;
    on(i === 0 ? from : by + i - 1, word[i] as string, to);
  }
}

function strings(on: Rows, next: Uint8Array): void {
  for (const moved of [0, NAME_STRING - STRING]) {
    const string = STRING + moved;
    next.fill(IN_STRING, string * 256 + 0x20, string * 256 + 256);
    on(string, '"', moved === 0 ? END_VALUE : END_NAME);
    on(string, "\\", moved === 0 ? ESCAPE : ESCAPE_NAME);
    on(ESCAPE + moved, '"\\/bfnrt', string);
    on(ESCAPE + moved, "u", HEX + moved);
    for (let digit = 0; digit < 4; digit++) {
      const to = digit === 3 ? string : HEX + moved + digit + 1;
      on(HEX + moved + digit, "0123456789abcdefABCDEF", to);
    }
  }
}

function numbers(on: Rows, next: Uint8Array): void {
  for (const state of [ZERO, DIGITS, FRACTION, EXPONENT_DIGITS, WANTED_ZERO, WANTED_DIGITS]) {
    const isWanted = state === WANTED_ZERO || state === WANTED_DIGITS;
    next.fill(isWanted ? END_WANTED : END_NUMBER, state * 256, state * 256 + 256);
    if (state !== EXPONENT_DIGITS) on(state, "eE", EXPONENT);
    if (state !== EXPONENT_DIGITS && state !== FRACTION) on(state, ".", POINT);
  }
  on(SCALAR, "-", MINUS);
  for (const state of [SCALAR, MINUS]) {
    on(state, "0", ZERO);
    on(state, "123456789", DIGITS);
  }
  const digits = "0123456789";
  on(DIGITS, digits, DIGITS);
  on(WANTED_DIGITS, digits, WANTED_DIGIT);
  on(POINT, digits, FRACTION);
  on(FRACTION, digits, FRACTION);
  on(EXPONENT, "+-", EXPONENT_SIGN);
  for (const state of [EXPONENT, EXPONENT_SIGN, EXPONENT_DIGITS])
    on(state, digits, EXPONENT_DIGITS);
}
