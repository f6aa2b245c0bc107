import { type Demands, whatItAsksMore } from "./demands.ts";
import { comparablePath, fitsSegment } from "./path-pattern.ts";
import { findRoute, type PatternMatcher, type RouteMatch, type RouteTable } from "./route.ts";

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
    return isServed(other) && asksForAnother(match, other, hasPublicPlan);
  });
}

function readingsOf({ paths }: RouteTable, path: string): readonly PatternMatcher[] {
  return paths === "loose" && path.includes(";") ? [fitsWithParameters(path)] : [];
}

/** Express takes what follows ";" for a part of the segment. */
function fitsWithParameters(path: string): PatternMatcher {
  const whole = comparablePath(path.replaceAll(";", "%3B"), "loose").split("/");
  return (pattern, segments) =>
    pattern.length === segments.length &&
    pattern.every((part, i) => {
      return fitsSegment(part, segments[i] as string) || fitsSegment(part, whole[i] as string);
    });
}

function asksForAnother(one: RouteMatch, other: RouteMatch, hasPublicPlan: boolean): boolean {
  const [demands, others] = [demandsOf(one), demandsOf(other)];
  return (
    whatItAsksMore(demands, others, hasPublicPlan) !== undefined ||
    whatItAsksMore(others, demands, hasPublicPlan) !== undefined
  );
}

function demandsOf({ operation, isPublic, cost, meters }: RouteMatch): Demands {
  if (operation !== undefined) return operation;
  const none = { requiresScope: false, scopes: [], limits: undefined };
  return { ...none, isPublic, cost, meters, lifecycle: { deprecated: false } };
}
