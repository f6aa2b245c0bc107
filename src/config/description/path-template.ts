import { type PathMatching, parsePattern } from "../../core/http/path-pattern.ts";
import { decodes } from "../../core/http/target.ts";

/** The characters that arrive byte for byte as they are written (docs/reference/edge.md#target). */
const LITERAL = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*$/;
const REFUSED_ESCAPE = /%(?:2E|2F|5C|25|00)/;
const NAME = /\{[^{}]+\}/g;

/** Why a path template of a description cannot be served; undefined if it can. */
export function mistakeInTemplate(template: string, paths: PathMatching): string | undefined {
  if (!template.startsWith("/")) return "a path starts with /";
  for (const part of template.slice(1).split("/")) {
    const why = mistakeInSegment(part);
    if (why !== undefined) return why;
  }
  if (template.includes("//")) return "empty segments never arrive";
  if (parsePattern(template, paths).slice(1, -1).includes("")) {
    return "with paths: loose nothing is left of a segment that starts with ;";
  }
  const names = template.match(NAME) ?? [];
  return new Set(names).size < names.length
    ? "a parameter has the same name as another"
    : undefined;
}

function mistakeInSegment(part: string): string | undefined {
  const literals = part.split(NAME);
  if (literals.some((text) => /[{}]/.test(text))) return "a parameter is {name}, as in {petId}";
  if (literals.slice(1, -1).includes("")) {
    return "there must be text between two parameters of a segment, as in {from}-{to}";
  }
  if (part === "." || part === "..") return "dot segments never arrive";
  if (!literals.every((text) => LITERAL.test(text))) {
    return "percent-encode, in upper case, all but letters, digits and -._~!$&'()*+,;=:@";
  }
  const isRefused = literals.some((text) => REFUSED_ESCAPE.test(text) || !decodes(text));
  return isRefused ? "such an escape never arrives" : undefined;
}
