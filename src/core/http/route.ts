import { memoize } from "../../base/memoize.ts";
import { NO_METERS, type OperationMeter } from "../quota/meters.ts";
import { roundUpToSeconds } from "../quota/whole-seconds.ts";
import type { Limit, OperationLimits } from "../quota/windows.ts";
import { accept, type Result, refuse } from "../refusal.ts";
import { type Lifecycle, successorLink } from "./lifecycle.ts";
import {
  bySpecificity,
  comparablePath,
  fitsPattern,
  isLiteral,
  isUnder,
  type PathMatching,
  type PatternSegment,
} from "./path-pattern.ts";

/** One operation of an environment's description. */
export type Operation = {
  readonly method: string;
  readonly operationId: string;
  /** The whole path with the base path, as in the description: "/v1/pets/{petId}". */
  readonly template: string;
  /** The segments of the template as `parsePattern` makes them, by the `paths` of its service. */
  readonly segments: readonly PatternSegment[];
  readonly hasRequestBody: boolean;
  readonly requiresScope: boolean;
  /** The key needs all scopes of one of these lists. If there is no list, it needs none. */
  readonly scopes: readonly (readonly string[])[];
  /** Whether no credentials are needed, if the environment has a plan for such requests. */
  readonly isPublic: boolean;
  /** Units of one request, from 0. */
  readonly cost: number;
  /** Windows of each account for this operation, in addition to those of its plan. */
  readonly limits: OperationLimits | undefined;
  /** The meters that the answer to a request is counted by; absent: none. */
  readonly meters?: readonly OperationMeter[];
  readonly lifecycle: Lifecycle;
};

/** Without a description `operations` is undefined: every path under basePath passes. */
export type RouteTable = {
  readonly basePath: string;
  /** How paths are compared; absent: "exact". */
  readonly paths?: PathMatching;
  readonly operations: readonly Operation[] | undefined;
  /** Without a description: cost and meters of a request are those of the first rule that matches. */
  readonly costs?: readonly (RouteRule & Pick<Operation, "cost" | "meters">)[];
  /** Without a description: the routes that need no credentials. */
  readonly publicRoutes?: readonly RouteRule[];
};

/** The windows of operations (docs/reference/plans.md#limits-of-an-operation). */
export function operationWindows(tables: readonly RouteTable[]): readonly Limit[] {
  return tables.flatMap(({ operations = [] }) => {
    return operations.flatMap(({ limits }) => limits?.windows ?? []);
  });
}

/** The path of the first operation that needs only a GET and is not deprecated. */
export function examplePath(
  operations: readonly Pick<Operation, "method" | "template" | "lifecycle">[],
): string | undefined {
  return operations.find(({ method, template, lifecycle }) => {
    return method === "GET" && !template.includes("{") && !lifecycle.deprecated;
  })?.template;
}

/** Requests of a method to the paths of a template. */
export type RouteRule = Pick<Operation, "method" | "template" | "segments">;

/**
 * The route that was found for a path and a method. It is checked later, after key and quota
 * (docs/reference/http.md#routes).
 */
export type RouteMatch = {
  readonly operation: Operation | undefined;
  /** The template for the log: the path as sent never becomes a label. */
  readonly template: string | undefined;
  /** Methods of the path, for Allow; undefined if there is no such path. */
  readonly allowedMethods: readonly string[] | undefined;
  /** Whether no credentials are needed, if the environment has a plan for such requests. */
  readonly isPublic: boolean;
  /** Units of the request (docs/reference/plans.md#cost). */
  readonly cost: number;
  /** The meters that the answer to the request is counted by. */
  readonly meters: readonly OperationMeter[];
  /** Set if other routers may find another route, and each asks for something the other does not. */
  readonly isContested?: boolean;
};

/** Whether a pattern matches the segments of a comparable path. */
type PatternMatcher = typeof fitsPattern;

const COST = 1;

/** A segment that begins with ";" and a slash after it. */
const NAMELESS = /\/;[^/]*\//;

/** The result if there is no such path. */
export const NO_ROUTE: RouteMatch = {
  ...{ operation: undefined, template: undefined, allowedMethods: undefined },
  isPublic: false,
  cost: COST,
  meters: NO_METERS,
};

/**
 * Finds a route by the path in its normal form. The same bytes are forwarded
 * (docs/reference/edge.md#target). `fits` tells which patterns match its segments.
 */
export function findRoute(
  table: RouteTable,
  method: string,
  target: string,
  fits: PatternMatcher = fitsPattern,
): RouteMatch {
  const { basePath, operations, paths } = table;
  const path = comparablePath(target, paths);
  if (paths === "loose") {
    // A segment that begins with ";" has no name: before others, some routers leave it out.
    if (NAMELESS.test(target) || !isUnder(comparablePath(basePath, paths), path)) return NO_ROUTE;
  } else if (!isUnder(basePath, path)) return NO_ROUTE;
  if (operations === undefined) {
    const rule = ruleFor(table.costs, method, path, fits);
    return {
      operation: undefined,
      template: `${basePath === "/" ? "" : basePath}/*`,
      allowedMethods: METHODS,
      isPublic: ruleFor(table.publicRoutes, method, path, fits) !== undefined,
      cost: rule?.cost ?? COST,
      meters: rule?.meters ?? NO_METERS,
    };
  }
  const { literal, templated } = indexOf(operations);
  const found = literal.get(path) ?? fitting(templated, path, fits);
  if (found === undefined) return NO_ROUTE;
  const { template, methods, allow } = found;
  const operation = methods.get(method) ?? (method === "HEAD" ? methods.get("GET") : undefined);
  const { isPublic = false, cost = COST, meters = NO_METERS } = operation ?? {};
  return { operation, template, allowedMethods: allow, isPublic, cost, meters };
}

/** The first rule that matches the request. */
function ruleFor<R extends RouteRule>(
  rules: readonly R[] | undefined,
  method: string,
  path: string,
  fits: PatternMatcher,
): R | undefined {
  if (rules === undefined || rules.length === 0) return undefined;
  const segments = path.split("/");
  return rules.find((rule) => isRuleFor(rule, method) && fits(rule.segments, segments));
}

/** A rule for GET also applies to HEAD. */
export function isRuleFor({ method }: RouteRule, asked: string): boolean {
  return method === asked || (asked === "HEAD" && method === "GET");
}

/** All operations of one path. */
type Path = {
  readonly template: string;
  readonly segments: Operation["segments"];
  readonly methods: Map<string, Operation>;
  readonly allow: string[];
};

type Index = { readonly literal: Map<string, Path>; readonly templated: Path[] };

/** Paths without names by their text, and the other paths in the order in which they are tried. */
const indexOf = memoize((operations: readonly Operation[]): Index => {
  const paths = new Map<string, Path>();
  for (const operation of operations) {
    const { template, segments, method } = operation;
    const path = paths.get(template) ?? { template, segments, methods: new Map(), allow: [] };
    paths.set(template, path);
    path.methods.set(method, operation);
  }
  for (const path of paths.values()) path.allow.push(...allowed([...path.methods.keys()]));
  const all = [...paths.values()];
  const literals = all.filter(({ segments }) => isLiteral(segments));
  const templated = all.filter((path) => !literals.includes(path));
  return {
    literal: new Map(literals.map((path) => [path.segments.join("/"), path])),
    templated: templated.sort((a, b) => bySpecificity(a.segments, b.segments)),
  };
});

function fitting(paths: readonly Path[], path: string, fits: PatternMatcher): Path | undefined {
  const segments = path.split("/");
  return paths.find((candidate) => fits(candidate.segments, segments));
}

/**
 * Refuses an unknown path with 404, another method of a known path with 405, a request past the
 * sunset or in a brownout with 410, and a key without the scopes with 403.
 */
export function checkRoute(
  found: RouteMatch,
  { method, scopes, nowMs }: { method: string; scopes: readonly string[]; nowMs: number },
): Result<RouteMatch> {
  const { operation, allowedMethods: allow } = found;
  if (allow === undefined) return refuse("not_found");
  if (operation === undefined) {
    return allow === METHODS && METHODS.includes(method)
      ? accept(found)
      : refuse("method_not_allowed");
  }
  const { sunsetMs = Number.POSITIVE_INFINITY, stability, brownouts } = operation.lifecycle;
  if (sunsetMs <= nowMs) return refuseGone(operation.lifecycle);
  const brownout = brownouts?.find(({ fromMs, toMs }) => fromMs <= nowMs && nowMs < toMs);
  if (brownout !== undefined) {
    // An operation that is off until its sunset never returns.
    if (brownout.toMs >= sunsetMs) return refuse("brownout");
    const retryAfterSeconds = Math.ceil((brownout.toMs - nowMs) / 1_000);
    const until = roundUpToSeconds(brownout.toMs);
    return refuse("brownout", undefined, { retryAfterSeconds, until });
  }
  if (operation.requiresScope && stability !== undefined && !scopes.includes(stability)) {
    return refuseScopes([[stability]]);
  }
  const needed = operation.scopes;
  const isMet = (all: readonly string[]) => all.every((one) => scopes.includes(one));
  return needed.length === 0 || needed.some(isMet) ? accept(found) : refuseScopes(needed);
}

function refuseGone(lifecycle: Lifecycle): Result<never> {
  if (successorLink(lifecycle) === undefined) return refuse("gone");
  const message = "This operation has been removed: see the Link field for its successor";
  return refuse("gone", undefined, { message });
}

/**
 * The message names every sufficient set of scopes. The challenge has room for one: the first (RFC
 * 6750 3, docs/reference/plans.md#scopes).
 */
function refuseScopes(needed: Operation["scopes"]): Result<never> {
  const named = needed.map((all) => all.join(" and ")).join(", or ");
  const isOne = needed.length === 1 && needed[0]?.length === 1;
  const words = `the scope${isOne ? "" : "s"} ${named}`;
  return refuse("scope_required", `needs ${words}`, {
    message: `The API key needs ${words} for this operation`,
    scope: needed[0]?.join(" ") ?? "",
  });
}

/** The methods for Allow. HEAD is allowed wherever GET is. */
function allowed(methods: string[]): readonly string[] {
  const get = methods.indexOf("GET");
  if (get !== -1 && !methods.includes("HEAD")) methods.splice(get + 1, 0, "HEAD");
  return methods;
}

/** The methods that this gateway knows, in the order in which `Allow` lists them (RFC 9110 9.3). */
export const METHODS: readonly string[] = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
];

const KNOWN: ReadonlySet<string> = new Set(METHODS);

/** Whether the method is known. `get` is not `GET` (RFC 9110 9.1). */
export function isMethod(method: string): boolean {
  return KNOWN.has(method);
}
