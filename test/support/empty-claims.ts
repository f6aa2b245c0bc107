import { codeOf } from "./source.ts";

/** A claim that also holds of nothing, and the list that it is about. */
export type EmptyClaim = { readonly line: number; readonly list: string };

const CHECKS = /\b(?:assert|expect)\b|\bassert[A-Z]\w*\(/;
/** Lists that depend on what happened, or on what was found. */
const FOUND =
  /\.(?:filter|flatMap|matchAll|match|all)\(|\.(?:lines|seen|said|told|late)\b(?!\()|\bglobSync\(|\breaddir/;

/**
 * Claims of a test file that also hold of nothing: `every` of a list that may be empty, and checks in
 * a loop over a list that was filtered, matched or recorded. A list is never empty where it is written
 * out, where `each` (test/support/each.ts) has refused an empty one, and where its length is asserted.
 */
export function emptyClaims(text: string): readonly EmptyClaim[] {
  const code = codeOf(text);
  const found = [...everyOf(code), ...loopsOf(code)];
  return found
    .sort((a, b) => a.at - b.at)
    .map(({ at, list }) => {
      return { line: text.slice(0, at).split("\n").length, list: list.replaceAll(/\s+/g, " ") };
    });
}

type Found = { readonly at: number; readonly list: string };

function everyOf(code: string): Found[] {
  return [...code.matchAll(/\s*\.every\(/g)].flatMap(({ index: at }) => {
    const list = receiverBefore(code, at);
    return isNeverEmpty(list, code) ? [] : [{ at, list }];
  });
}

function loopsOf(code: string): Found[] {
  return [...code.matchAll(/\bfor (?:await )?\(const [^;]*? of /g)].flatMap(
    ({ index: at, 0: start }) => {
      const end = closing(code, code.indexOf("(", at));
      const list = code.slice(at + start.length, end).trim();
      const isHarmless = !CHECKS.test(bodyAfter(code, end + 1)) || !mayBeEmpty(list, code);
      return isHarmless ? [] : [{ at, list }];
    },
  );
}

function mayBeEmpty(list: string, code: string): boolean {
  if (isNeverEmpty(list, code)) return false;
  return FOUND.test(/^\w+$/.test(list) ? declarationOf(list, code) : list);
}

function isNeverEmpty(list: string, code: string): boolean {
  if (/^(?:each|Object\.(?:keys|values|entries))\(|^\[(?!\.\.\.|\])|^[A-Z][A-Z_0-9]*$/.test(list))
    return true;
  if (!/^[\w.]+$/.test(list)) return false;
  const name = list.replaceAll(".", "\\.");
  if (new RegExp(`\\b(?:equal|ok)\\(${name}\\.(?:length|size)\\b`).test(code)) return true;
  const declared = declarationOf(list, code);
  return declared !== "" && isNeverEmpty(declared, code.replace(declared, ""));
}

/** The expression that a constant was declared with, or nothing. */
function declarationOf(name: string, code: string): string {
  const start = new RegExp(`\\bconst ${name}(?:: [^=;]*)? = (?:await )?`).exec(code);
  if (start === null) return "";
  const from = start.index + start[0].length;
  let at = from;
  while (at < code.length && code[at] !== ";") at = afterGroup(code, at);
  return code.slice(from, at).trim();
}

/** The expression that ends at an index: names, dots, calls and brackets, back to its beginning. */
function receiverBefore(code: string, end: number): string {
  let at = end;
  for (;;) {
    const before = code.slice(0, at);
    // The formatter breaks a long chain ahead of its dots.
    const to = code[at] === "." ? before.trimEnd().length : at;
    const word = /[\w$.?]+$/.exec(code.slice(0, to))?.[0].length ?? 0;
    const next = ")]".includes(code[to - 1] ?? " ") ? opening(code, to - 1) : to - word;
    if (next === to) return code.slice(at, end).trim();
    at = next;
  }
}

function afterGroup(code: string, at: number): number {
  return "([{".includes(code[at] ?? "") ? closing(code, at) + 1 : at + 1;
}

function closing(code: string, open: number): number {
  let depth = 0;
  for (let at = open; at < code.length; at++) {
    if ("([{".includes(code[at] ?? "")) depth += 1;
    if (")]}".includes(code[at] ?? "")) depth -= 1;
    if (depth === 0) return at;
  }
  return code.length;
}

function opening(code: string, close: number): number {
  let depth = 0;
  for (let at = close; at >= 0; at--) {
    if (")]}".includes(code[at] ?? "")) depth += 1;
    if ("([{".includes(code[at] ?? "")) depth -= 1;
    if (depth === 0) return at;
  }
  return 0;
}

/** The block or the single statement after the head of a loop. */
function bodyAfter(code: string, from: number): string {
  const start = from + (/^\s*/.exec(code.slice(from))?.[0].length ?? 0);
  const end = code[start] === "{" ? closing(code, start) : code.indexOf(";", start);
  return code.slice(start, end);
}
