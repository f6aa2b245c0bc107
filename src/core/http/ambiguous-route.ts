import { memoize } from "../../base/memoize.ts";
import { NO_METERS } from "../quota/meters.ts";
import { findDearestRoute } from "./dearest-route.ts";
import { type Demands, demandsOf, whatItAsksMore } from "./demands.ts";
import { foldPath, foldTable, hasCasedLetters } from "./letter-case.ts";
import { comparablePath, fitsPattern, fitsSegment, type PatternSegment } from "./path-pattern.ts";
import { mayBeReadOtherwise, otherReadings } from "./path-readings.ts";
import {
  findRoute,
  isRuleFor,
  type Operation,
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
  /** The prefix that is removed from the path before it is forwarded. */
  readonly stripPrefix: string;
};

/**
 * Whether some routers find another route for the path, one that asks for something else
 * (docs/reference/edge.md#target). With `exact` they do so only for templates with a literal beside
 * a name, and for an escaped "?" or "#".
 */
export function isAmbiguousRoute(table: RouteTable, asked: AskedRoute): boolean {
  const { path, match, hasPublicPlan } = asked;
  if (!isServed(table, match)) return false;
  const demands = demandsOf(match);
  const isOther = (other: Demands) => asksForAnother(demands, other, hasPublicPlan);
  const { paths = "exact" } = table;
  if (!mayBeReadOtherwise(path, paths)) return demandsElsewhere(table, asked).some(isOther);
  const hasNameless = paths === "loose" && path.includes("/;");
  const isFoundByOthers = hasNameless
    ? namelessReadings(path).some((read) => demandsOfReading(table, asked, read).some(isOther))
    : demandsElsewhere(table, asked).some(isOther);
  return isFoundByOthers || isReadAsMore(table, asked);
}

/**
 * Whether another reading of the path asks for more. One that asks for less passes, because paths
 * with parameters are common with servlets, and so are letters of any alphabet.
 */
function isReadAsMore(table: RouteTable, asked: AskedRoute): boolean {
  const { path, match, hasPublicPlan, stripPrefix } = asked;
  const { paths = "exact" } = table;
  const isCased = paths === "loose" && hasCasedLetters(path);
  const reads = otherReadings(path, { paths, stripPrefix });
  if (!isCased && reads.length === 0) return false;
  const demands = demandsOf(match);
  const asksMore = (other: Demands) => whatItAsksMore(other, demands, hasPublicPlan) !== undefined;
  const isMore = (of: RouteTable, read: string) => demandsOfReading(of, asked, read).some(asksMore);
  if (reads.some((read) => isMore(table, read))) return true;
  return isCased && [path, ...reads].some((read) => isMore(foldTable(table), foldPath(read)));
}

/**
 * The demands on what a path is read as, here and by other routers, with those that heed how it is
 * spelled.
 */
function demandsOfReading(table: RouteTable, asked: AskedRoute, path: string): readonly Demands[] {
  const match = findRoute(table, asked.method, path);
  const elsewhere = demandsElsewhere(table, { ...asked, path, match });
  const found = new Set([match, findDearestRoute(table, { ...asked, path }, match)]);
  const served = [...found].filter((one) => isServed(table, one));
  return [...served.map(demandsOf), ...elsewhere];
}

/** A last segment that begins with ";" is nothing to servlets, and a name to Express. */
function namelessReadings(path: string): readonly string[] {
  const start = path.lastIndexOf("/;");
  const before = path.slice(0, start);
  return [before, before + path.slice(start).replaceAll(";", "%3B")];
}

/** The demands on a path of the routes that some routers find for it. */
function demandsElsewhere(table: RouteTable, asked: AskedRoute): readonly Demands[] {
  const partial = partialRulesOf(table);
  if (partial.rules.length === 0) return [];
  const demands = demandsOf(asked.match);
  const others = alsoRead(partial, table, asked).map((rule) => ({ ...demands, ...rule }));
  return [...others, ...demandsWithinLines(table, asked)];
}

function isServed({ operations }: RouteTable, { allowedMethods, operation }: RouteMatch): boolean {
  return operations === undefined ? allowedMethods !== undefined : operation !== undefined;
}

/** An operation, or a rule with what it changes of the demands on a request. */
type PartialRule = RouteRule & Partial<Demands>;

/** The rules of a table whose templates have a literal beside a name. */
type PartialRules = {
  readonly rules: readonly PartialRule[];
  /** How many segments they have. */
  readonly lengths: ReadonlySet<number>;
  /** The text of a segment with one name, if the name is empty. */
  readonly nameless: ReadonlySet<string>;
  /** The segments with several names. */
  readonly multiple: readonly PatternSegment[];
};

const partialRulesOf = memoize((table: RouteTable): PartialRules => {
  const rules = rulesOf(table).filter(({ segments }) => segments.some(isPartial));
  const parts = rules.flatMap(({ segments }) => segments.filter(isPartial));
  const nameless = parts.filter(({ length }) => length === 2).map((part) => part.join(""));
  const multiple = new Map(parts.map((part) => [JSON.stringify(part), part]));
  return {
    rules,
    lengths: new Set(rules.map(({ segments }) => segments.length)),
    nameless: new Set(nameless),
    multiple: [...multiple.values()].filter(({ length }) => length > 2),
  };
});

/** A rule without meters takes those of another rule away. */
function rulesOf({ operations, costs = [], publicRoutes = [] }: RouteTable): PartialRule[] {
  const priced = (operations ?? costs).map((rule) => ({
    ...rule,
    meters: rule.meters ?? NO_METERS,
  }));
  return operations === undefined
    ? [...priced, ...publicRoutes.map((rule) => ({ ...rule, isPublic: true }))]
    : priced;
}

/** Whether a segment has a literal beside a name. */
function isPartial(part: PatternSegment): part is readonly string[] {
  return typeof part === "object";
}

/**
 * The rules that the path matches to other routers, and not here: Express takes what follows ";" for
 * a part of the segment, and Fastify matches an empty name beside a literal.
 */
function alsoRead(
  { rules, lengths, nameless, multiple }: PartialRules,
  table: RouteTable,
  { method, path, match }: AskedRoute,
): readonly PartialRule[] {
  const segments = comparablePath(path, table.paths).split("/");
  if (!lengths.has(segments.length)) return [];
  const mayLackName = (text: string) =>
    nameless.has(text) || multiple.some((part) => fitsSegment(part, text, 0));
  const hasParameters = table.paths === "loose" && path.includes(";");
  if (!hasParameters && !segments.some(mayLackName)) return [];
  const whole = hasParameters
    ? comparablePath(path.replaceAll(";", "%3B"), table.paths).split("/")
    : segments;
  const isAsked = (rule: RouteRule) => isRuleFor(rule, method);
  const isFound = (rule: RouteRule) => isAsked(rule) && fitsPattern(rule.segments, segments);
  const found = match.operation ?? rulesOf(table).find(isFound);
  const fitsElsewhere = (part: PatternSegment, i: number) => {
    const [text, all] = [segments[i] as string, whole[i] as string];
    if (fitsSegment(part, text)) return true;
    if (!isPartial(part)) return false;
    // A literal comes before names to every router.
    if (all === text && found?.segments[i] === text) return false;
    return fitsSegment(part, text, 0) || fitsSegment(part, all, 0);
  };
  return rules.filter(
    (rule) =>
      isAsked(rule) &&
      rule.segments.length === segments.length &&
      !fitsPattern(rule.segments, segments) &&
      rule.segments.every(fitsElsewhere),
  );
}

const LINE_END_ESCAPE = /%(?:0A|0D|C2%85|E2%80%A8|E2%80%A9)/;
const LINE_END = /[\n\r\u0085\u2028\u2029]/;

/** The demands on a path with a line end, to Fastify; none if there is none, or no such path. */
function demandsWithinLines(table: RouteTable, { method, path }: AskedRoute): readonly Demands[] {
  if (!path.includes("%") || !LINE_END_ESCAPE.test(path)) return [];
  const other = findRoute(table, method, path, fitsWithinLines);
  return isServed(table, other) ? [demandsOf(other)] : [];
}

/** Fastify makes a regular expression of a name beside a literal, whose "." matches no line end. */
function fitsWithinLines(pattern: Operation["segments"], segments: readonly string[]): boolean {
  return (
    fitsPattern(pattern, segments) &&
    !pattern.some((part, i) => isPartial(part) && LINE_END.test(segments[i] as string))
  );
}

function asksForAnother(one: Demands, other: Demands, hasPublicPlan: boolean): boolean {
  return (
    one !== other &&
    (whatItAsksMore(one, other, hasPublicPlan) !== undefined ||
      whatItAsksMore(other, one, hasPublicPlan) !== undefined)
  );
}
