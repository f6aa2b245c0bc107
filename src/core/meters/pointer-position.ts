/**
 * The present position in a JSON text, beside the place that a JSON Pointer names (RFC 6901). It
 * keeps one bit for each open container, and of a member's name as many bytes as the pointer's own
 * name can take.
 */
export class PointerPosition {
  readonly #tokens: readonly string[];
  /** How many containers are open, and for each of them whether it is an object. */
  #depth = 0;
  #objects = new Uint8Array(8);
  /** How many tokens of the pointer lead to the present position. */
  #matched = 0;
  /** The index of the next element of each open array on the way, by its depth. */
  readonly #indexes: number[];
  /** The bytes of a member's name. The length is -1 if it cannot be the one looked for. */
  readonly #name: Buffer;
  #nameLength = -1;
  #nameIsEscaped = false;
  /** Whether the text has a value at the place so far. Of a repeated member the last one counts. */
  isThere = false;
  /** The number at the place; undefined if there is none. */
  used: number | undefined;

  /** `tokens` are those of the pointer (RFC 6901 4), at least one. */
  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
    this.#indexes = tokens.map(() => 0);
    // A UTF-16 unit takes six bytes at most, as in \u0041.
    this.#name = Buffer.alloc(6 * Math.max(...tokens.map(({ length }) => length)));
  }

  /** Begins another text. */
  reset(): void {
    this.#depth = 0;
    this.#matched = 0;
    this.isThere = false;
    this.used = undefined;
  }

  /** Whether no container is open. */
  get isOutside(): boolean {
    return this.#depth === 0;
  }

  /** Whether the innermost open container is an object. */
  get isInObject(): boolean {
    const at = this.#depth - 1;
    return ((this.#bits(at) >> (at & 7)) & 1) === 1;
  }

  /** A value begins. Returns whether it is at the place. */
  beginValue(): boolean {
    if (this.#isOnWay && !this.isInObject) {
      const at = this.#depth - 1;
      const index = this.#indexes[at] as number;
      if (String(index) === this.#tokens[at]) this.#enter();
      this.#indexes[at] = index + 1;
    }
    if (this.#matched !== this.#depth || this.#depth !== this.#tokens.length) return false;
    this.isThere = true;
    return true;
  }

  /** A value ended: the position is that of its container again. */
  endValue(): void {
    if (this.#depth > 0 && this.#matched === this.#depth) this.#matched -= 1;
  }

  open(isObject: boolean): void {
    const at = this.#depth;
    if (at >> 3 === this.#objects.length) {
      const wider = new Uint8Array(2 * this.#objects.length);
      wider.set(this.#objects);
      this.#objects = wider;
    }
    const bit = 1 << (at & 7);
    this.#objects[at >> 3] = isObject ? this.#bits(at) | bit : this.#bits(at) & ~bit;
    this.#depth += 1;
    if (this.#isOnWay) this.#indexes[at] = 0;
  }

  close(): void {
    this.#depth -= 1;
    this.endValue();
  }

  /** The name of a member begins. */
  beginName(): void {
    this.#nameLength = this.#isOnWay ? 0 : -1;
    this.#nameIsEscaped = false;
  }

  /** Bytes of the name as they are written, escapes included. */
  addName(bytes: Uint8Array, from: number, to: number): void {
    if (this.#nameLength === -1) return;
    const length = this.#nameLength + to - from;
    if (length > this.#name.length) this.#nameLength = -1;
    else {
      this.#name.set(bytes.subarray(from, to), this.#nameLength);
      this.#nameLength = length;
    }
  }

  /** An escape is part of the name. */
  escapeName(): void {
    this.#nameIsEscaped = true;
  }

  /** The name ended, without a mistake in it. */
  endName(): void {
    if (this.#nameLength === -1) return;
    const text = this.#name.toString("utf8", 0, this.#nameLength);
    const name = this.#nameIsEscaped ? JSON.parse(`"${text}"`) : text;
    if (name === this.#tokens[this.#depth - 1]) this.#enter();
  }

  /** Whether the innermost container is on the way to the place: its children may be as well. */
  get #isOnWay(): boolean {
    return this.#matched === this.#depth - 1 && this.#depth <= this.#tokens.length;
  }

  /** The value that comes replaces what a member of the same name had before. */
  #enter(): void {
    this.#matched = this.#depth;
    this.isThere = false;
    this.used = undefined;
  }

  #bits(at: number): number {
    return this.#objects[at >> 3] as number;
  }
}
