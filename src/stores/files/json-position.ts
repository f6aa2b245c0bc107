import { positionAt, type TextPosition } from "../../base/text-position.ts";

/** The path to a member: names of objects and indexes of arrays, from the outside in. */
export type JsonPath = readonly (string | number)[];

/** Tollgate writes no file that nests deeper than this. */
const DEPTH_MAX = 64;

/**
 * Finds the first place at which `text` is not JSON, and why; undefined if it is JSON. JSON.parse
 * reports no place for many mistakes. It is fast, so it runs first, and this function runs only if
 * JSON.parse has refused.
 */
export function findSyntaxMistake(
  text: string,
): (TextPosition & { readonly why: string }) | undefined {
  if (text.trim() === "") return { line: 1, column: 1, why: "the file is empty" };
  const walk = new Walk(text, undefined);
  if (walk.value([])) walk.end();
  return walk.why === undefined ? undefined : { ...positionAt(text, walk.at), why: walk.why };
}

/**
 * Finds the start of the member at `path`, in a text that is JSON. If the member is missing, finds
 * the nearest member that would hold it.
 */
export function findPosition(text: string, path: JsonPath): TextPosition {
  for (let length = path.length; length > 0; length--) {
    const walk = new Walk(text, path.slice(0, length));
    walk.value([]);
    if (walk.found) return positionAt(text, walk.at);
  }
  return positionAt(text, text.search(/\S|$/));
}

const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** One pass over a text, up to a mistake or `wanted`. Each step returns whether to go on. */
class Walk {
  at = 0;
  why: string | undefined;
  found = false;
  readonly #text: string;
  readonly #wanted: JsonPath | undefined;

  constructor(text: string, wanted: JsonPath | undefined) {
    this.#text = text;
    this.#wanted = wanted;
  }

  value(path: JsonPath): boolean {
    this.#skip(SPACE);
    if (this.#isWanted(path)) {
      this.found = true;
      return false;
    }
    if (path.length > DEPTH_MAX) return this.#stop("it is nested too deeply");
    const first = this.#text[this.at];
    if (first === "{") return this.#members("}", () => this.#member(path));
    if (first === "[") return this.#members("]", (n) => this.value([...path, n]));
    if (first === '"') return this.#string();
    return this.#skip(SCALAR) || this.#stop("a value was expected");
  }

  end(): boolean {
    this.#skip(SPACE);
    return this.at === this.#text.length || this.#stop("nothing more was expected");
  }

  #members(close: string, member: (index: number) => boolean): boolean {
    this.at += 1;
    this.#skip(SPACE);
    if (this.#take(close)) return true;
    for (let index = 0; ; index++) {
      if (!member(index)) return false;
      this.#skip(SPACE);
      if (this.#take(close)) return true;
      if (!this.#take(",")) return this.#stop(`"," or "${close}" was expected`);
    }
  }

  #member(path: JsonPath): boolean {
    this.#skip(SPACE);
    const start = this.at;
    if (!this.#string()) return false;
    const name: string = JSON.parse(this.#text.slice(start, this.at));
    this.#skip(SPACE);
    if (!this.#take(":")) return this.#stop('":" was expected');
    return this.value([...path, name]);
  }

  #string(): boolean {
    if (this.#text[this.at] !== '"') return this.#stop("a name in double quotes was expected");
    return this.#skip(STRING) || this.#stop("this string has no end or a wrong escape");
  }

  #isWanted(path: JsonPath): boolean {
    const wanted = this.#wanted;
    return wanted?.length === path.length && wanted.every((step, depth) => step === path[depth]);
  }

  #take(char: string): boolean {
    if (this.#text[this.at] !== char) return false;
    this.at += 1;
    return true;
  }

  /** Moves past the text that matches here. Returns false if that is empty. */
  #skip(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    const { length } = pattern.exec(this.#text)?.[0] ?? "";
    this.at += length;
    return length > 0;
  }

  #stop(why: string): boolean {
    const ended = this.at >= this.#text.length;
    this.why = ended ? `the file ends too soon: ${why}` : why;
    return false;
  }
}
