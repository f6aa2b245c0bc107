import { memoize } from "../../base/memoize.ts";
import type { PatternSegment } from "./path-pattern.ts";
import type { RouteRule, RouteTable } from "./route.ts";

/** The first octet of an escaped letter that ASCII lacks. */
const BEYOND_ASCII = /%[C-F]/;
const ESCAPED_LETTERS = /(?:%[89A-F][0-9A-F])+/g;
/** The text of a template outside of its names, in which a "%" is no escape. */
const LITERAL = /[^{}]+(?![^{}]*\})/g;

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
  const { template, segments } = rule;
  return {
    ...rule,
    template: template.replace(LITERAL, foldPath),
    segments: segments.map(foldSegment),
  };
}

function foldSegment(part: PatternSegment): PatternSegment {
  if (part === undefined) return part;
  return typeof part === "string" ? foldText(part) : part.map(foldText);
}

function foldText(text: string): string {
  return text.replace(/\P{ASCII}/gu, foldLetter);
}

/**
 * Lower case alone would keep letters apart that are one in upper case. A letter that is two in upper
 * case stays, because routers compare letter by letter. The dotted capital I is an "i" to most, and
 * two characters in JavaScript.
 */
function foldLetter(letter: string): string {
  const lower = letter === "\u0130" ? "i" : letter.toLowerCase();
  const upper = lower.toUpperCase();
  return upper.length > lower.length ? lower : upper.toLowerCase();
}
