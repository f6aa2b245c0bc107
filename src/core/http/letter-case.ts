import { memoize } from "../../base/memoize.ts";
import type { PatternSegment } from "./path-pattern.ts";
import type { RouteRule, RouteTable } from "./route.ts";

/** The first octet of an escaped letter that ASCII lacks. */
const BEYOND_ASCII = /%[C-F]/;
const ESCAPED_LETTERS = /(?:%[89A-F][0-9A-F])+/g;

/** Whether a path in its normal form has letters whose case `paths: loose` heeds. */
export function hasCasedLetters(path: string): boolean {
  return path.includes("%") && BEYOND_ASCII.test(path);
}

/**
 * The path with all of its letters in one case. Routers fold a few of them into ASCII, such as the
 * Kelvin sign into "k".
 */
export function foldPath(path: string): string {
  return path.replace(ESCAPED_LETTERS, (escaped) => {
    return encodeURIComponent(foldText(decodeURIComponent(escaped)));
  });
}

/** The table with the letters of all literals in one case. */
export const foldTable = memoize((table: RouteTable): RouteTable => {
  const { basePath, operations, costs, publicRoutes } = table;
  return {
    ...{ ...table, basePath: foldPath(basePath) },
    operations: operations?.map(foldRule),
    ...(costs && { costs: costs.map(foldRule) }),
    ...(publicRoutes && { publicRoutes: publicRoutes.map(foldRule) }),
  };
});

function foldRule<Rule extends RouteRule>(rule: Rule): Rule {
  return { ...rule, segments: rule.segments.map(foldSegment) };
}

function foldSegment(part: PatternSegment): PatternSegment {
  if (part === undefined) return part;
  return typeof part === "string" ? foldText(part) : part.map(foldText);
}

/**
 * Lower case alone would keep letters apart that are one in upper case. The dotted capital I has a
 * plain "i" as its lower case in most languages, and two characters in JavaScript; the lower case of
 * a sigma depends on its place.
 */
function foldText(text: string): string {
  const upper = text.replaceAll("\u0130", "i").toLowerCase().toUpperCase();
  return upper.toLowerCase().replaceAll("\u03c2", "\u03c3");
}
