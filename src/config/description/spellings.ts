import { fitsSegment, isLiteral, type PatternSegment } from "../../core/http/path-pattern.ts";
import type { Operation } from "../../core/http/route.ts";
import type { AccessRules } from "./access.ts";
import type { PlacedOperation } from "./operation.ts";

/**
 * Warns of operations that ask for more than a template that has their paths in another spelling: a
 * backend whose router reads them as the same would serve them for less
 * (docs/reference/edge.md#spellings).
 */
export function warnOfSpellings(
  operations: readonly PlacedOperation[],
  { hasPublicPlan }: AccessRules,
): void {
  const templates = operations.filter(({ operation }) => !isLiteral(operation.segments));
  for (const { operation, findings, path } of operations) {
    for (const { operation: other, ...at } of templates) {
      if (!isAskedAlike(operation, other) || !covers(other.segments, operation.segments)) continue;
      const more = whatItAsksMore(operation, other, hasPublicPlan);
      if (more === undefined) continue;
      const { line, column } = at.findings.tree.placeOfKey(at.path);
      findings.warning(
        path,
        `${operation.method} ${operation.template} asks for more (${more}) than ${other.method} ${other.template} at ${at.findings.file}:${line}:${column}, which has its other spellings: if the backend's router ignores case, a slash at the end or what follows ;, say paths: loose, else ask for the same there`,
      );
      break;
    }
  }
}

/** HEAD is asked for wherever GET is. */
function isAskedAlike(one: Operation, other: Operation): boolean {
  const reads = (method: string) => (method === "HEAD" ? "GET" : method);
  return one !== other && reads(one.method) === reads(other.method);
}

/** Whether the template has the paths of the other pattern, letters in whatever case. */
function covers(template: Operation["segments"], other: Operation["segments"]): boolean {
  const [wide, narrow] = [withoutSlash(template), withoutSlash(other)];
  return (
    wide.length === narrow.length &&
    wide.every((part, i) => coversSegment(folded(part), folded(narrow[i]))) &&
    JSON.stringify(wide.map(folded)) !== JSON.stringify(narrow.map(folded))
  );
}

function withoutSlash(segments: Operation["segments"]): Operation["segments"] {
  return segments.at(-1) === "" ? segments.slice(0, -1) : segments;
}

function folded(part: PatternSegment): PatternSegment {
  if (part === undefined) return part;
  return typeof part === "string"
    ? part.toLowerCase()
    : part.map((literal) => literal.toLowerCase());
}

function coversSegment(wide: PatternSegment, narrow: PatternSegment): boolean {
  if (typeof narrow === "string") return fitsSegment(wide, narrow);
  if (wide === undefined) return true;
  if (narrow === undefined || typeof wide === "string") return false;
  return (
    (narrow[0] as string).startsWith(wide[0] as string) &&
    (narrow.at(-1) as string).endsWith(wide.at(-1) as string)
  );
}

function whatItAsksMore(
  one: Operation,
  other: Operation,
  hasPublicPlan: boolean,
): string | undefined {
  const stability = (operation: Operation) =>
    operation.requiresScope ? operation.lifecycle.stability : undefined;
  const sunset = ({ lifecycle }: Operation) => lifecycle.sunsetMs ?? Number.POSITIVE_INFINITY;
  if (hasPublicPlan && other.isPublic && !one.isPublic) return "a key";
  if (stability(one) !== undefined && stability(one) !== stability(other)) return "a scope";
  if (!areMetWith(one.scopes, other.scopes)) return "a scope";
  if (one.cost > other.cost) return `a cost of ${one.cost}`;
  if (!areLimitedAs(one, other)) return "a limit of its own";
  if (sunset(one) < sunset(other)) return "its sunset";
  if (one.lifecycle.brownouts !== undefined) return "its brownouts";
  return undefined;
}

/** Whether every key that has the scopes of the other has those of this one, too. */
function areMetWith(scopes: Operation["scopes"], others: Operation["scopes"]): boolean {
  if (scopes.length === 0) return true;
  if (others.length === 0) return false;
  return others.every((has) => scopes.some((all) => all.every((one) => has.includes(one))));
}

function areLimitedAs({ limits }: Operation, other: Operation): boolean {
  return (limits?.windows ?? []).every(({ window, limit }) => {
    return other.limits?.windows.some((one) => one.window === window && one.limit <= limit);
  });
}
