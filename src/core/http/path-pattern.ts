/** How the router of a backend reads paths (docs/reference/edge.md#spellings). */
export type PathMatching = "exact" | "loose";

/**
 * One segment of a pattern, in the form that `comparablePath` makes. Text is literal. Undefined is
 * a name that stands for a whole segment. A list has the literals around names: `["", ".json"]` for
 * `{id}.json`.
 */
export type PatternSegment = string | undefined | readonly string[];

/**
 * The text by which the path of a request is compared with patterns. `path` is in the normal form
 * that `validateTarget` makes. In it every escape is well-formed, and none encodes a letter, a
 * digit, "/" or "%", so decoding it adds no segment and no further escape.
 */
export function comparablePath(path: string, matching: PathMatching = "exact"): string {
  // Normal paths are ASCII before they are decoded, so only ASCII letters are lowered.
  const text = matching === "exact" ? path : withoutLooseParts(path).toLowerCase();
  return text.includes("%") ? decodeURIComponent(text) : text;
}

/** Removes the text after ";" in each segment, and one slash at the end. */
function withoutLooseParts(path: string): string {
  const plain = path.includes(";") ? path.replace(/;[^/]*/g, "") : path;
  return plain.length > 1 && plain.endsWith("/") ? plain.slice(0, -1) : plain;
}

const TOKEN = /\{[^{}]*\}|[^{}]+/g;

/** Parses a template such as `/v1/pets/{petId}`, whose literals are written like paths. */
export function parsePattern(
  template: string,
  matching: PathMatching = "exact",
): readonly PatternSegment[] {
  const segments = template.split("/").map((part) => parseSegment(part, matching));
  const isSlashed = segments.length > 2 && segments.at(-1) === "";
  return matching === "loose" && isSlashed ? segments.slice(0, -1) : segments;
}

function parseSegment(part: string, matching: PathMatching): PatternSegment {
  if (!part.includes("{")) return comparablePath(part, matching);
  const literals = [""];
  for (const token of part.match(TOKEN) ?? []) {
    if (token.startsWith("{")) literals.push("");
    else {
      literals[literals.length - 1] = comparablePath(token, matching);
      if (matching === "loose" && token.includes(";")) break;
    }
  }
  if (literals.length === 1) return literals[0];
  return literals.length === 2 && literals.every((text) => text === "") ? undefined : literals;
}

/** Whether a pattern matches one path only: it contains no name. */
export function isLiteral(pattern: readonly PatternSegment[]): boolean {
  return pattern.every((part) => typeof part === "string");
}

/** Whether the segments of a comparable path match. A name takes at least one character. */
export function fitsPattern(
  pattern: readonly PatternSegment[],
  segments: readonly string[],
): boolean {
  if (pattern.length !== segments.length) return false;
  for (let i = 0; i < pattern.length; i++) {
    if (!fitsSegment(pattern[i], segments[i] as string)) return false;
  }
  return true;
}

/** `least` is the fewest characters of a name beside a literal. */
export function fitsSegment(part: PatternSegment, text: string, least = 1): boolean {
  if (part === undefined) return text !== "";
  return typeof part === "string" ? part === text : fitsAround(part, text, least);
}

/** Matches each inner literal as early as possible, which leaves the most text for the rest. */
function fitsAround(literals: readonly string[], text: string, least: number): boolean {
  const first = literals[0] as string;
  const last = literals.at(-1) as string;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let end = first.length;
  for (const literal of literals.slice(1, -1)) {
    const found = text.indexOf(literal, end + least);
    if (found === -1) return false;
    end = found + literal.length;
  }
  return text.length - last.length >= end + least;
}

/** Whether a path may match both patterns. Literals between two names are not compared. */
export function haveCommonPath(
  one: readonly PatternSegment[],
  other: readonly PatternSegment[],
): boolean {
  return one.length === other.length && one.every((part, i) => haveCommonText(part, other[i]));
}

function haveCommonText(one: PatternSegment, other: PatternSegment): boolean {
  if (typeof one === "string") return fitsSegment(other, one);
  if (typeof other === "string") return fitsSegment(one, other);
  if (one === undefined || other === undefined) return true;
  const [first = "", otherFirst = ""] = [one[0], other[0]];
  const [last = "", otherLast = ""] = [one.at(-1), other.at(-1)];
  return (
    (first.startsWith(otherFirst) || otherFirst.startsWith(first)) &&
    (last.endsWith(otherLast) || otherLast.endsWith(last))
  );
}

/** Whether a pattern certainly matches all paths of another one. Literals around names are not compared. */
export function hasAllPaths(
  one: readonly PatternSegment[],
  other: readonly PatternSegment[],
): boolean {
  return one.length === other.length && one.every((part, i) => hasAllTexts(part, other[i]));
}

function hasAllTexts(one: PatternSegment, other: PatternSegment): boolean {
  if (one === undefined) return other !== "";
  if (typeof other === "string") return fitsSegment(one, other);
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * Orders patterns that may match the same path. The pattern with the fewest segments with names
 * comes first, because OpenAPI 3.1 matches a concrete path before a templated one. On a tie the
 * longer literal text comes first.
 */
export function bySpecificity(
  one: readonly PatternSegment[],
  other: readonly PatternSegment[],
): number {
  return namedSegments(one) - namedSegments(other) || literalLength(other) - literalLength(one);
}

function namedSegments(pattern: readonly PatternSegment[]): number {
  return pattern.filter((part) => typeof part !== "string").length;
}

function literalLength(pattern: readonly PatternSegment[]): number {
  return pattern.flatMap((part) => part ?? "").join("").length;
}

/** Whether the template is the path `base` or lies below it: `isUnder` for configured templates. */
export function isTemplateUnder(
  base: string,
  template: string,
  matching: PathMatching = "exact",
): boolean {
  const segments = parsePattern(template, matching);
  return base === "/" || parsePattern(base, matching).every((part, i) => part === segments[i]);
}

/** Whether some path that the template matches is `base`, a path without names, or lies below it. */
export function mayBeUnder(
  base: string,
  template: string,
  matching: PathMatching = "exact",
): boolean {
  if (base === "/") return true;
  const segments = parsePattern(base, matching).map(String);
  return fitsPattern(parsePattern(template, matching).slice(0, segments.length), segments);
}

/** Whether the path is `base` or lies below it, by whole segments. Both are comparable paths. */
export function isUnder(base: string, path: string): boolean {
  if (base === "/") return true;
  return path.startsWith(base) && (path.length === base.length || path[base.length] === "/");
}
