import { type CorsPolicy, dependsOnOrigin } from "./cors.ts";

/** The facts of an exchange from which the gateway's part of Vary follows. */
export type VaryFacts = { readonly cors: CorsPolicy | undefined };

/**
 * Merges the gateway's Vary with that of the backend among `fields`, a flat list. The result is one
 * line, because some caches read the last one alone (docs/reference/edge.md#response-fields).
 */
export function mergeVary(fields: string[], { cors }: VaryFacts): void {
  const own = cors !== undefined && dependsOnOrigin(cors) ? ["Origin"] : [];
  const first = findVary(fields, 0);
  if (first === -1) {
    if (own.length > 0) fields.push("Vary", own.join(", "));
    return;
  }
  const values = [fields[first + 1] as string];
  for (;;) {
    const next = findVary(fields, first + 2);
    if (next === -1) break;
    values.push(fields[next + 1] as string);
    fields.splice(next, 2);
  }
  if (values.length + own.length > 1) fields[first + 1] = joinNames([...values, ...own]);
}

function findVary(fields: readonly string[], from: number): number {
  for (let i = from; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (name.length === 4 && name.toLowerCase() === "vary") return i;
  }
  return -1;
}

/** Each name once, as it is spelled first. `*` stands for all others. */
function joinNames(lists: readonly string[]): string {
  const names = new Map<string, string>();
  for (const member of lists.join(",").split(",")) {
    const name = member.trim();
    const key = name.toLowerCase();
    if (name !== "" && !names.has(key)) names.set(key, name);
  }
  return names.has("*") ? "*" : [...names.values()].join(", ");
}
