import { type Demands, whatItAsksMore } from "../../core/http/demands.ts";
import {
  bySpecificity,
  fitsSegment,
  haveCommonPath,
  isLiteral,
  type PathMatching,
  type PatternSegment,
} from "../../core/http/path-pattern.ts";
import type { Operation } from "../../core/http/route.ts";
import { formatPlace } from "../file/mistake.ts";
import type { AccessRules } from "./access.ts";
import type { PlacedOperation } from "./operation.ts";

/**
 * Warns of operations of which routers may read spellings in another way than the gateway
 * (docs/reference/edge.md#spellings). With `exact` a template has the other spellings of a dearer
 * operation, which a backend may serve for less. With `loose` the other spellings of a cheaper
 * operation ask for as much as the template.
 */
export function warnOfSpellings(
  operations: readonly PlacedOperation[],
  paths: PathMatching,
  { hasPublicPlan }: AccessRules,
): void {
  const compared = operations.map(foldOperation);
  const templates = compared.filter(({ operation }) => !isLiteral(operation.segments));
  const alike = Map.groupBy(templates, groupOf);
  const isLoose = paths === "loose";
  const cheapest = cheapestOf(isLoose ? compared : templates);
  const isDear = ({ operation }: ComparedOperation) =>
    whatItAsksMore(operation, cheapest, hasPublicPlan) !== undefined;
  for (const one of compared) {
    if (!isLoose && !isDear(one)) continue;
    for (const other of alike.get(groupOf(one)) ?? []) {
      if ((isLoose && !isDear(other)) || !covers(other, one)) continue;
      const [dear, cheap] = isLoose ? [other, one] : [one, other];
      const more = whatItAsksMore(dear.operation, cheap.operation, hasPublicPlan);
      if (more === undefined) continue;
      one.findings.warning(
        one.path,
        isLoose ? wordLoose(one, other, more) : wordExact(one, other, more),
      );
      break;
    }
  }
}

/**
 * Warns of templates that cross: each has paths of the other, and paths of its own. Routers disagree
 * on which one has the paths of both (docs/reference/edge.md#spellings).
 */
export function warnOfCrossings(
  operations: readonly PlacedOperation[],
  { hasPublicPlan }: AccessRules,
): void {
  const templates = operations
    .filter(({ operation }) => !isLiteral(operation.segments))
    .map((placed) => withPattern(placed, placed.operation.segments));
  const alike = new Map(
    [...Map.groupBy(templates, groupOf)].map(([name, group]) => [name, byLiteral(group)]),
  );
  const cheapest = cheapestOf(templates);
  for (const one of templates) {
    if (whatItAsksMore(one.operation, cheapest, hasPublicPlan) === undefined) continue;
    for (const other of alike.get(groupOf(one))?.(one) ?? []) {
      if (!cross(one, other)) continue;
      const more = whatItAsksMore(one.operation, other.operation, hasPublicPlan);
      if (more === undefined) continue;
      const both = templates.filter((each) => each === one || each === other);
      both.sort((a, b) => bySpecificity(a.segments, b.segments));
      one.findings.warning(one.path, wordCrossing(one, other, more, both[0] as PlacedOperation));
      break;
    }
  }
}

/**
 * Finds those of a group that may have a path of an operation, by the segment in which most of them
 * differ: thousands of templates are not compared each with each.
 */
function byLiteral(
  group: readonly ComparedOperation[],
): (one: ComparedOperation) => readonly ComparedOperation[] {
  const literalAt = (i: number) => (one: ComparedOperation) => {
    const part = one.segments[i];
    return typeof part === "string" ? part : undefined;
  };
  const sorted = (group[0]?.segments ?? []).map((_, i) => Map.groupBy(group, literalAt(i)));
  const most = Math.max(...sorted.map(({ size }) => size));
  const at = sorted.findIndex(({ size }) => size === most);
  const named = sorted[at]?.get(undefined) ?? [];
  return (one) => {
    const text = literalAt(at)(one);
    return text === undefined ? group : [...(sorted[at]?.get(text) ?? []), ...named];
  };
}

function cross(one: ComparedOperation, other: ComparedOperation): boolean {
  return (
    one.text !== other.text &&
    haveCommonPath(one.segments, other.segments) &&
    covers(one, other) === covers(other, one)
  );
}

function wordCrossing(
  one: PlacedOperation,
  other: PlacedOperation,
  more: string,
  { operation: found }: PlacedOperation,
): string {
  return `${nameOf(one)} asks for more (${more}) than ${nameOf(other)} at ${placeOf(other)}, and some paths match both, which the gateway finds as ${found.template}: if the backend's router finds the other one there, ask for the same in both`;
}

function wordExact(one: PlacedOperation, other: PlacedOperation, more: string): string {
  return `${nameOf(one)} asks for more (${more}) than ${nameOf(other)} at ${placeOf(other)}, which has its other spellings: if the backend's router ignores case, a slash at the end or what follows ;, say paths: loose, else ask for the same there; if it also serves the path with a suffix such as .json, describe that too`;
}

function wordLoose(one: PlacedOperation, other: PlacedOperation, more: string): string {
  return `${nameOf(one)} asks for less than its other spellings, which a router that heeds case, a slash at the end or what follows ; finds as ${nameOf(other)} at ${placeOf(other)}, with more to ask (${more}): if clients use them, ask for the same here`;
}

function nameOf({ operation: { method, template } }: PlacedOperation): string {
  return `${method} ${template}`;
}

function placeOf({ findings, path }: PlacedOperation): string {
  return formatPlace({ file: findings.file, ...findings.tree.placeOfKey(path) });
}

/** An operation with the pattern that it is compared by, and that pattern as one text. */
type ComparedOperation = PlacedOperation & {
  readonly segments: Operation["segments"];
  readonly text: string;
};

/** The pattern is in the form common to all spellings of the path. */
function foldOperation(placed: PlacedOperation): ComparedOperation {
  const { segments: written } = placed.operation;
  return withPattern(placed, (written.at(-1) === "" ? written.slice(0, -1) : written).map(folded));
}

function withPattern(placed: PlacedOperation, segments: Operation["segments"]): ComparedOperation {
  return { ...placed, segments, text: JSON.stringify(segments) };
}

/** Names the group of operations that may share a path. HEAD and GET are in the same group. */
function groupOf({ operation: { method }, segments }: ComparedOperation): string {
  return `${method === "HEAD" ? "GET" : method} ${segments.length}`;
}

/** The lowest requirements of these operations, taken together. */
function cheapestOf(operations: readonly ComparedOperation[]): Demands {
  return {
    isPublic: operations.some(({ operation }) => operation.isPublic),
    requiresScope: false,
    scopes: [],
    cost: Math.min(...operations.map(({ operation }) => operation.cost)),
    limits: undefined,
    lifecycle: { deprecated: false },
  };
}

/** Whether the template matches the paths of the other pattern in another spelling. */
function covers(wide: ComparedOperation, narrow: ComparedOperation): boolean {
  return (
    wide.text !== narrow.text &&
    wide.segments.every((part, i) => coversSegment(part, narrow.segments[i]))
  );
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
