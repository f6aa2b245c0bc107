const ARRAY_INDEX = /^(?:0|[1-9]\d*)$/;

/** A token of a JSON Pointer, as the name of a member and as the index of an element. */
type Token = {
  readonly name: string;
  /** The UTF-8 of the name; undefined if other bytes are read as the same name. */
  readonly bytes: Uint8Array | undefined;
  /** -1 if it is no index (RFC 6901 4). */
  readonly index: number;
};

/**
 * The place that a JSON Pointer names (RFC 6901), and the way to it in a JSON text: the open
 * containers that the pointer leads through. What is in other containers is not told to it. Of a
 * member's name it keeps as many bytes as the pointer's own name can take.
 */
export class PointerPosition {
  readonly #tokens: readonly Token[];
  /** How many of the open containers are on the way. They are the outermost ones. */
  level = 0;
  /** Whether the pointer leads through the value that begins next, or began last, on the way. */
  #isNext = true;
  /** The index of the next element of each open array on the way, by its level. */
  readonly #indexes: number[];
  /** The bytes of a name that came in earlier pieces. The length is -1 if there are too many. */
  readonly #name: Buffer;
  #nameLength = 0;
  #nameIsEscaped = false;
  /** Whether the text has a value at the place so far. Of a repeated member the last one counts. */
  isThere = false;
  /** The number at the place; undefined if there is none. */
  used: number | undefined;

  /** `tokens` are those of the pointer (RFC 6901 4), at least one. */
  constructor(tokens: readonly string[]) {
    this.#tokens = tokens.map((name) => ({
      name,
      // Bytes that are no UTF-8 are read as U+FFFD, and U+FFFD is written for half a surrogate pair.
      bytes: name.isWellFormed() && !name.includes("\ufffd") ? Buffer.from(name) : undefined,
      index: ARRAY_INDEX.test(name) ? Number(name) : -1,
    }));
    this.#indexes = tokens.map(() => 0);
    // A UTF-16 unit takes six bytes at most, as in \u0041.
    this.#name = Buffer.alloc(6 * Math.max(...tokens.map(({ length }) => length)));
  }

  /** Begins another text. */
  reset(): void {
    this.level = 0;
    this.#isNext = true;
    this.isThere = false;
    this.used = undefined;
  }

  /** A value begins in the innermost container of the way. Returns whether it is at the place. */
  beginValue(isElement: boolean): boolean {
    if (isElement) {
      const at = this.level - 1;
      const index = this.#indexes[at] as number;
      this.#indexes[at] = index + 1;
      this.#follow(index === (this.#tokens[at] as Token).index);
    }
    const isAtPlace = this.#isNext && this.level === this.#tokens.length;
    if (isAtPlace) this.isThere = true;
    return isAtPlace;
  }

  /** A container begins there. Returns the level. */
  open(isObject: boolean, isElement: boolean): number {
    if (this.beginValue(isElement) || !this.#isNext) return this.level;
    // No element of an array is at a name.
    if (!isObject && (this.#tokens[this.level] as Token).index === -1) return this.level;
    this.#indexes[this.level] = 0;
    this.level += 1;
    return this.level;
  }

  /** The innermost container of the way ends. Returns the level. */
  close(): number {
    this.level -= 1;
    return this.level;
  }

  /** The name of a member of the innermost container of the way begins. */
  beginName(): void {
    this.#nameLength = 0;
    this.#nameIsEscaped = false;
  }

  /** The name has an escape. */
  escapeName(): void {
    this.#nameIsEscaped = true;
  }

  /** Bytes of the name as they are written, escapes included. The name goes on in another piece. */
  addName(bytes: Uint8Array, from: number, to: number): void {
    if (this.#nameLength === -1) return;
    const length = this.#nameLength + to - from;
    if (length > this.#name.length) this.#nameLength = -1;
    else {
      this.#name.set(bytes.subarray(from, to), this.#nameLength);
      this.#nameLength = length;
    }
  }

  /** The name ends with these bytes. */
  endName(bytes: Uint8Array, from: number, to: number): void {
    const token = this.#tokens[this.level - 1] as Token;
    const isPlain = !this.#nameIsEscaped && this.#nameLength === 0 && token.bytes !== undefined;
    if (isPlain) this.#follow(isEqual(token.bytes, bytes, from, to));
    else {
      this.addName(bytes, from, to);
      this.#follow(this.#nameLength !== -1 && this.#readName() === token.name);
    }
  }

  #readName(): string {
    const text = this.#name.toString("utf8", 0, this.#nameLength);
    return this.#nameIsEscaped ? JSON.parse(`"${text}"`) : text;
  }

  /** A value that the pointer leads through replaces what a member of its name had before. */
  #follow(isNext: boolean): void {
    this.#isNext = isNext;
    if (!isNext) return;
    this.isThere = false;
    this.used = undefined;
  }
}

function isEqual(name: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from !== name.length) return false;
  for (let i = 0; i < name.length; i++) if (name[i] !== bytes[from + i]) return false;
  return true;
}
