import { COLON, CR, FIELD_VALUE_BYTES, HTAB, LF, runEnd, SP, TOKEN_BYTES } from "./octets.ts";

const FIELD = 0;
const NAME = 1;
const FIELD_VALUE = 2;
const FIELD_LF = 3;
const END_LF = 4;
const DONE = 5;
const WRONG = 6;

/** The positions of the colon and the end of each field in the head that is being read. */
const marks: number[] = [];

/** Parses the field lines of one head after another, up to the empty line (RFC 9112 5). */
export class FieldParser {
  #state = FIELD;
  #from = 0;
  #marked = 0;

  /** Whether the empty line after the fields was read. */
  get done(): boolean {
    return this.#state === DONE;
  }

  /** Whether the byte that `read` stopped at can be no part of a field line. */
  get failed(): boolean {
    return this.#state === WRONG;
  }

  /** The first field begins at `at`. */
  begin(at: number): void {
    this.#state = FIELD;
    this.#from = at;
    this.#marked = 0;
  }

  /** Returns where it stopped: after the fields, at a malformed byte, or at `to`. */
  read(bytes: Buffer, at: number, to: number): number {
    let i = at;
    let state = this.#state;
    while (i < to && state < DONE) {
      const byte = bytes[i] as number;
      if (state === FIELD) {
        if (byte === CR) state = END_LF;
        else state = TOKEN_BYTES[byte] === 1 ? NAME : WRONG;
      } else if (state === NAME) {
        i = runEnd(bytes, i, to, TOKEN_BYTES);
        if (i === to) break;
        marks[this.#marked] = i;
        state = bytes[i] === COLON ? FIELD_VALUE : WRONG;
      } else if (state === FIELD_VALUE) {
        i = runEnd(bytes, i, to, FIELD_VALUE_BYTES);
        if (i === to) break;
        marks[this.#marked + 1] = i;
        this.#marked += 2;
        state = bytes[i] === CR ? FIELD_LF : WRONG;
      } else if (byte === LF) {
        state = state === END_LF ? DONE : FIELD;
      } else {
        state = WRONG;
      }
      if (state !== WRONG) i++;
    }
    this.#state = state;
    return i;
  }

  /**
   * Names and values in turn, from `text`: the head, whose first byte was at `at`. Only if all of
   * the fields were read at once.
   */
  decode(text: string, at: number): string[] {
    const fields: string[] = [];
    let from = this.#from - at;
    for (let i = 0; i < this.#marked; i += 2) {
      const colon = (marks[i] as number) - at;
      const end = (marks[i + 1] as number) - at;
      const name = text.slice(from, colon);
      fields.push(name, fieldValue(text, colon + 1, end));
      from = end + 2;
    }
    return fields;
  }
}

/** The field value without surrounding white space (RFC 9110 5.6.3). */
function fieldValue(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isSpace(text.charCodeAt(start))) start++;
  while (end > start && isSpace(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === SP || code === HTAB;
}
