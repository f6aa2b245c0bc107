import { type CorsPolicy, dependsOnOrigin } from "./cors.ts";
import { isConsumerField } from "./forwarded-fields.ts";

/** The facts of an exchange from which the gateway's part of Vary follows. */
export type VaryFacts = {
  readonly cors: CorsPolicy | undefined;
  /** Names of the fields that may carry a key, in lower case. */
  readonly keyHeaders: readonly string[];
};

/**
 * Merges the gateway's Vary with that of the backend among `fields`, a flat list. The result is one
 * line, because some caches read the last one alone (docs/reference/edge.md#response-fields).
 */
export function mergeVary(fields: string[], { cors, keyHeaders }: VaryFacts): void {
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
  if (dependsOnKey(values, keyHeaders)) own.unshift(...keyHeaders);
  if (values.length + own.length > 1) fields[first + 1] = joinNames([...values, ...own]);
}

/**
 * Whether the answer depends on the key. The backend gets fields of the consumer in place of the
 * key's, but a cache in front of the gateway sees the key's alone (RFC 9110 12.5.5).
 */
function dependsOnKey(lists: readonly string[], keyHeaders: readonly string[]): boolean {
  return namesOf(lists).some((name) => {
    const key = name.toLowerCase();
    return isConsumerField(key) || keyHeaders.includes(key);
  });
}

function namesOf(lists: readonly string[]): string[] {
  return lists
    .join(",")
    .split(",")
    .map((name) => name.trim());
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
  for (const name of namesOf(lists)) {
    const key = name.toLowerCase();
    if (name !== "" && !names.has(key)) names.set(key, name);
  }
  return names.has("*") ? "*" : [...names.values()].join(", ");
}
