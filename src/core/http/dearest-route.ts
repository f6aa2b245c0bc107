import { memoize } from "../../base/memoize.ts";
import { NO_METERS } from "../quota/meters.ts";
import { type Demands, demandsOf, whatItAsksMore } from "./demands.ts";
import {
  bySpecificity,
  comparablePath,
  fitsPattern,
  fitsSegment,
  parsePattern,
} from "./path-pattern.ts";
import {
  findRoute,
  isRuleFor,
  type Operation,
  type RouteMatch,
  type RouteRule,
  type RouteTable,
} from "./route.ts";

/**
 * Finds the route as `findRoute`. With `loose` a path in another spelling than its template also
 * matches wider templates, which routers find that heed the difference: few ignore case, a slash and
 * ";" alike. The route is that which asks for most (docs/reference/edge.md#spellings).
 */
export function findDearestRoute(
  table: RouteTable,
  asked: { readonly method: string; readonly path: string; readonly hasPublicPlan: boolean },
  found = findRoute(table, asked.method, asked.path),
): RouteMatch {
  if (table.paths !== "loose") return found;
  const asksMore = (one: RouteMatch, other: RouteMatch) =>
    whatItAsksMore(demandsOf(one), demandsOf(other), asked.hasPublicPlan) !== undefined;
  const others = widerRules(table, asked, found).map((rule) => matchOf(found, rule));
  if (others.length === 0) return found;
  const dearest = others.reduce((most, one) => (asksMore(one, most) ? one : most), found);
  const isContested = [found, ...others].some((one) => asksMore(one, dearest));
  return isContested ? { ...dearest, isContested } : dearest;
}

type Rule = RouteRule & Partial<Demands>;

/** The rules that a router may find for the path if it heeds how the path is spelled. */
function widerRules(
  table: RouteTable,
  { method, path }: { readonly method: string; readonly path: string },
  { operation, allowedMethods }: RouteMatch,
): readonly Rule[] {
  const rules: readonly Rule[] = table.operations ?? table.costs ?? [];
  if (allowedMethods === undefined || rules.length === 0) return [];
  if (operation !== undefined && operation.template === path) return [];
  const segments = comparablePath(path, "loose").split("/");
  const isFound = (rule: Rule) => isRuleFor(rule, method) && fitsPattern(rule.segments, segments);
  const rule = table.operations === undefined ? rules.find(isFound) : operation;
  if (rule === undefined) return [];
  const spelled = spelledOtherwise(rule, path);
  if (spelled.length === 0) return [];
  const wider = rules.filter((other) => {
    return (
      other.template !== rule.template &&
      isFound(other) &&
      spelled.some((i) => typeof other.segments[i] !== "string")
    );
  });
  // As `findRoute`: the first of the costs, and of the operations the most specific, HEAD before GET.
  if (table.operations !== undefined) {
    const isOwn = (one: Rule) => Number(one.method === method);
    wider.sort((a, b) => bySpecificity(a.segments, b.segments) || isOwn(b) - isOwn(a));
  }
  const hides = (one: Rule, other: Rule) =>
    one.template === other.template ||
    spelled.every((i) => typeof other.segments[i] === "string" || one.segments[i] === undefined);
  return wider.filter((other, at) => !wider.slice(0, at).some((one) => hides(one, other)));
}

const exactPatternOf = memoize(({ template }: RouteRule) => parsePattern(template));

/** The literal segments of a rule that the path has in another spelling. */
function spelledOtherwise(rule: RouteRule, path: string): readonly number[] {
  const pattern = exactPatternOf(rule);
  const segments = comparablePath(path).split("/");
  if (fitsPattern(pattern, segments)) return [];
  const last = rule.segments.length - 1;
  return rule.segments.flatMap((part, i) => {
    if (part === undefined) return [];
    // A slash at the end is part of how the last segment is spelled.
    const isAlike =
      i === last
        ? fitsPattern(pattern.slice(i), segments.slice(i))
        : fitsSegment(pattern[i], segments[i] as string);
    return isAlike ? [] : [i];
  });
}

function matchOf(found: RouteMatch, rule: Rule): RouteMatch {
  const { isPublic = found.isPublic, cost = found.cost, meters = NO_METERS, template } = rule;
  const other = { ...found, isPublic, cost, meters };
  return found.operation === undefined
    ? other
    : { ...other, operation: rule as Operation, template };
}
