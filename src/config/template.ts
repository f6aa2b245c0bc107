/** Characters of a path that arrive as they are written; others would never match (edge.md). */
const SEGMENT = /^[A-Za-z0-9._~!$&'()*+,;=:@-]*$/;

/** Why a path template of a description cannot be served, or undefined where it can. */
export function mistakeInTemplate(template: string): string | undefined {
  if (!template.startsWith("/")) return "a path starts with /";
  for (const part of template.slice(1).split("/")) {
    if (/^\{[^{}]+\}$/.test(part)) continue;
    if (/[{}]/.test(part)) return "a parameter must be a whole segment, as in /pets/{petId}";
    if (part === "." || part === "..") return "dot segments never arrive";
    if (!SEGMENT.test(part)) {
      return "it has characters that never arrive as they are: only letters, digits and -._~!$&'()*+,;=:@ do";
    }
  }
  if (template.includes("//")) return "empty segments never arrive";
  const names = template.match(/\{[^{}]+\}/g) ?? [];
  return new Set(names).size < names.length
    ? "a parameter has the same name as another"
    : undefined;
}
