/** What a segment may be made of to arrive byte for byte as it is written (edge.md, Request in). */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*$/;
const REFUSED_ESCAPE = /%(?:2E|2F|5C|25|00)/;

/** Why a path template of a description cannot be served, or undefined where it can. */
export function mistakeInTemplate(template: string): string | undefined {
  if (!template.startsWith("/")) return "a path starts with /";
  for (const part of template.slice(1).split("/")) {
    if (/^\{[^{}]+\}$/.test(part)) continue;
    if (/[{}]/.test(part)) return "a parameter must be a whole segment, as in /pets/{petId}";
    if (part === "." || part === "..") return "dot segments never arrive";
    if (!SEGMENT.test(part)) {
      return "percent-encode, in upper case, all but letters, digits and -._~!$&'()*+,;=:@";
    }
    if (REFUSED_ESCAPE.test(part) || !decodes(part)) return "such an escape never arrives";
  }
  if (template.includes("//")) return "empty segments never arrive";
  const names = template.match(/\{[^{}]+\}/g) ?? [];
  return new Set(names).size < names.length
    ? "a parameter has the same name as another"
    : undefined;
}

function decodes(part: string): boolean {
  try {
    decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}
