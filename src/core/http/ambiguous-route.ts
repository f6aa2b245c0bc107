import { type Demands, whatItAsksMore } from "./demands.ts";
import {
  comparablePath,
  fitsPattern,
  fitsSegment,
  haveCommonPath,
  isLiteral,
  type PatternSegment,
} from "./path-pattern.ts";
import {
  findRoute,
  type PatternMatcher,
  type RouteMatch,
  type RouteRule,
  type RouteTable,
} from "./route.ts";

type AskedRoute = {
  readonly method: string;
  /** In its normal form. */
  readonly path: string;
  /** The route of that path. */
  readonly match: RouteMatch;
  readonly hasPublicPlan: boolean;
};

/**
 * Whether some routers find another route for the path, one that asks for something else
 * (docs/reference/edge.md#target).
 */
export function isAmbiguousRoute(table: RouteTable, asked: AskedRoute): boolean {
  const { method, path, match, hasPublicPlan } = asked;
  const isServed = ({ allowedMethods, operation }: RouteMatch) =>
    table.operations === undefined ? allowedMethods !== undefined : operation !== undefined;
  if (!isServed(match)) return false;
  return readingsOf(table, path).some((fits) => {
    const other = findRoute(table, method, path, fits);
    return isServed(other) && asksForAnother(demandsOf(match), demandsOf(other), hasPublicPlan);
  });
}

function readingsOf(table: RouteTable, path: string): readonly PatternMatcher[] {
  const readings = [];
  const hasParameters = table.paths === "loose" && path.includes(";");
  if (hasParameters || hasPartialRivals(table)) readings.push(fitsWidely(table, path));
  if (path.includes("%") && LINE_END_ESCAPE.test(path)) readings.push(fitsWithinLines);
  return readings;
}

/**
 * Express takes what follows ";" for a part of the segment, and Fastify matches an empty name beside
 * a literal.
 */
function fitsWidely({ paths }: RouteTable, path: string): PatternMatcher {
  const whole = comparablePath(path.replaceAll(";", "%3B"), paths).split("/");
  return (pattern, segments) =>
    pattern.length === segments.length &&
    pattern.every((part, i) => {
      return (
        fitsSegment(part, segments[i] as string, 0) || fitsSegment(part, whole[i] as string, 0)
      );
    });
}

const LINE_END_ESCAPE = /%(?:0A|0D|C2%85|E2%80%A8|E2%80%A9)/;
const LINE_END = /[\n\r\u0085\u2028\u2029]/;

/** Fastify makes a regular expression of a name beside a literal, whose "." matches no line end. */
function fitsWithinLines(pattern: readonly PatternSegment[], segments: readonly string[]): boolean {
  return (
    fitsPattern(pattern, segments) &&
    !pattern.some((part, i) => isPartial(part) && LINE_END.test(segments[i] as string))
  );
}

/** Whether a segment has a literal beside a name. */
function isPartial(part: PatternSegment): boolean {
  return typeof part === "object";
}

const known = new WeakMap<RouteTable, boolean>();

function hasPartialRivals(table: RouteTable): boolean {
  const hasRivals = known.get(table) ?? findPartialRivals(table);
  known.set(table, hasRivals);
  return hasRivals;
}

/**
 * Whether a template with a literal beside a name has paths of another template that asks for
 * something else. Without a description that other one is everything under basePath.
 */
function findPartialRivals({ operations, costs = [], publicRoutes = [] }: RouteTable): boolean {
  const hasPartial = ({ segments }: RouteRule) => segments.some(isPartial);
  if (operations === undefined) return [...costs, ...publicRoutes].some(hasPartial);
  const templates = operations.filter(({ segments }) => !isLiteral(segments));
  return templates.filter(hasPartial).some((one) => {
    return templates.some((other) => {
      return areAlternatives(one, other) && asksForAnother(one, other, true);
    });
  });
}

/** Whether a request may match both: a HEAD may be served as a GET. */
function areAlternatives(one: RouteRule, other: RouteRule): boolean {
  return methodOf(one) === methodOf(other) && haveCommonPath(one.segments, other.segments);
}

function methodOf({ method }: RouteRule): string {
  return method === "HEAD" ? "GET" : method;
}

function asksForAnother(one: Demands, other: Demands, hasPublicPlan: boolean): boolean {
  return (
    one !== other &&
    (whatItAsksMore(one, other, hasPublicPlan) !== undefined ||
      whatItAsksMore(other, one, hasPublicPlan) !== undefined)
  );
}

function demandsOf({ operation, isPublic, cost, meters }: RouteMatch): Demands {
  if (operation !== undefined) return operation;
  const none = { requiresScope: false, scopes: [], limits: undefined };
  return { ...none, isPublic, cost, meters, lifecycle: { deprecated: false } };
}
