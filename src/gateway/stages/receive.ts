import { isAmbiguousRoute } from "../../core/http/ambiguous-route.ts";
import { findDearestRoute } from "../../core/http/dearest-route.ts";
import { isLoop } from "../../core/http/forwarded-fields.ts";
import {
  normalizeHost,
  type RequestHead,
  validateBody,
  validateHead,
  validateHeadSize,
} from "../../core/http/head.ts";
import { NO_ROUTE, type RouteMatch } from "../../core/http/route.ts";
import { type Target, validateTarget, withoutStrippedSlash } from "../../core/http/target.ts";
import { accept, type Result, refuse } from "../../core/refusal.ts";
import {
  type Environment,
  findService,
  type GatewayContext,
  isStandingPath,
  loosestLimits,
  type Service,
  STANDING_METHODS,
  schemeOf,
} from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { RouteFacts } from "../exchange/exchange-record.ts";
import type { Upgrade } from "../exchange/open-tunnel.ts";

const NEWLINE = "%0A";

export type RoutedRequest = {
  readonly environment: Environment;
  readonly head: RequestHead;
  readonly target: Target;
  readonly found: RouteMatch;
  /** The service that has the path, if there is one. */
  readonly service: Service | undefined;
  /** Set if the client sent a valid WebSocket handshake. */
  readonly upgrade: Upgrade | undefined;
};

/**
 * Judges framing, target and size, and finds the route (docs/reference/http.md#order). Records all
 * known facts in the exchange, for its log entry and for the fields of a refusal.
 */
export function receive(
  gateway: GatewayContext,
  environments: readonly Environment[],
  exchange: Exchange,
): Result<RoutedRequest> {
  const received = judge(gateway, environments, exchange);
  if (!received.ok && exchange.found === undefined) findAnyway(environments, exchange);
  return received;
}

function judge(
  gateway: GatewayContext,
  environments: readonly Environment[],
  exchange: Exchange,
): Result<RoutedRequest> {
  if (gateway.draining === "closed" && !exchange.connection.isKept) return refuse("draining");
  const { request, arrival } = exchange;
  const judged = validateHead(request, loosestLimits(environments));
  if (!judged.ok) return judged;
  const head = judged.value;
  exchange.readHead(head);
  const { upgrade } = arrival;
  if (upgrade !== undefined && !upgrade.ok) return upgrade;
  if (isLoop(head)) return refuse("loop_detected");
  const environment = servedAt(environments, head.host);
  if (environment === undefined) return refuse("misdirected", "a host that is not configured");
  exchange.setEnvironment(environment);
  // The limits of the request's environment are known only now, because its host is.
  if (environments.length > 1) {
    request.limits = environment.requestLimits;
    const sized = validateHeadSize(request, environment.limits);
    if (!sized.ok) return sized;
  }

  const target = validateTarget(head, schemeOf(environment));
  if (!target.ok) return target;
  const route = routeOf(environment, head.method, target.value.path);
  const { match: found, service } = route;
  exchange.setRoute(route);
  if (found.isContested === true) return refuse("bad_request", "ambiguous path", IN_ITS_SPELLING);
  if (isReadAsAnother(environment, head.method, route))
    return refuse("bad_request", "ambiguous path");

  const undescribed = service?.routes.operations === undefined;
  const { bodyBytes } = (service ?? environment).limits;
  const deleteBody = undescribed || found.operation?.hasRequestBody === true;
  const body = validateBody(head, { bodyBytes, deleteBody });
  if (!body.ok) return body;
  return accept({
    environment,
    head,
    target: target.value,
    found,
    service,
    upgrade: upgrade?.value,
  });
}

/** The service that has the path, and the route in its description. */
function routeOf(environment: Environment, method: string, path: string): RouteFacts {
  const service = findService(environment, path);
  const match = service === undefined ? NO_ROUTE : matchOf(environment, service, method, path);
  const isOurs = match.allowedMethods === undefined && isStandingPath(environment, path);
  return { path, match: isOurs ? { ...match, allowedMethods: STANDING_METHODS } : match, service };
}

/**
 * A description has at most one of two paths that are forwarded as the same target. Without a
 * description both are found, so both are judged by the rules of the one that rules can name.
 */
function matchOf(
  environment: Environment,
  service: Service,
  method: string,
  target: string,
): RouteMatch {
  const { routes } = service;
  const path = routes.operations === undefined ? withoutStrippedSlash(target, service) : target;
  return findDearestRoute(routes, { method, path, hasPublicPlan: hasPublicPlan(environment) });
}

/**
 * Whether a backend may read the path as that of another operation, or with another cost, than the
 * gateway (docs/reference/edge.md#target).
 */
function isReadAsAnother(environment: Environment, method: string, route: RouteFacts): boolean {
  const { path, match, service } = route;
  if (match.allowedMethods === undefined || service === undefined) return false;
  const { routes, stripPrefix } = service;
  const facts = { method, hasPublicPlan: hasPublicPlan(environment), stripPrefix };
  if (isAmbiguousRoute(routes, { ...facts, path, match })) return true;
  // Routers that match up to "$" read a path without the newline at its end.
  const end = routes.paths === "loose" ? withoutLooseEnd(path) : path;
  if (!end.endsWith(NEWLINE)) return false;
  const other = routeOf(environment, method, end.slice(0, -NEWLINE.length));
  if (other.match.allowedMethods === undefined) return false;
  const { operation, cost, meters, isPublic } = other.match;
  const isSame = operation === match.operation && cost === match.cost && meters === match.meters;
  if (!isSame || isPublic !== match.isPublic || other.service !== service) return true;
  // Some of these routers also read the rest in another way.
  return routes.paths === "loose" && isAmbiguousRoute(routes, { ...facts, ...other });
}

const IN_ITS_SPELLING = {
  message: "The path is ambiguous in this spelling: write it as the description of the API does",
};

function hasPublicPlan({ publicPlan }: Environment): boolean {
  return publicPlan !== undefined;
}

/** Removes the text after ";" in the last segment, and a slash before and after it. */
function withoutLooseEnd(path: string): string {
  const plain = withoutSlash(path);
  const parameters = plain.indexOf(";", plain.lastIndexOf("/") + 1);
  return parameters === -1 ? plain : withoutSlash(plain.slice(0, parameters));
}

function withoutSlash(path: string): string {
  return path.endsWith("/") ? path.slice(0, -1) : path;
}

/**
 * Finds the route of a request that was refused early, if its host and target can be read at all.
 * Its refusal then announces the end of the operation and lists the methods of the target like any
 * other refusal (docs/reference/http.md#deprecation).
 */
function findAnyway(environments: readonly Environment[], exchange: Exchange): void {
  const { method, target: named, rawHeaders } = exchange.request;
  const hosts = rawHeaders.filter((_, i) => rawHeaders[i - 1]?.toLowerCase() === "host" && i % 2);
  const [host = ""] = hosts;
  const environment = hosts.length > 1 ? undefined : servedAt(environments, host);
  if (environment === undefined) return;
  const target = validateTarget({ method, target: named, host }, schemeOf(environment));
  if (!target.ok) return;
  exchange.setEnvironment(environment);
  exchange.setRoute(routeOf(environment, method, target.value.path));
}

/**
 * The environment that names the host, or else the one that answers to any
 * (docs/reference/http.md#environments).
 */
function servedAt(environments: readonly Environment[], host: string): Environment | undefined {
  const [first] = environments;
  if (environments.length === 1 && first?.hosts.length === 0) return first;
  const name = normalizeHost(host);
  const named = environments.find(({ hosts }) => hosts.includes(name));
  return named ?? environments.find(({ hosts }) => hosts.length === 0);
}

/**
 * Checks the client's address against `deny` and `allow`, before the gateway answers anything and
 * without a charge (docs/reference/plans.md#admission).
 */
export function checkAddress(
  { isAddressAllowed }: Environment,
  { arrival }: Exchange,
): Result<void> {
  return isAddressAllowed(arrival.client) ? accept(undefined) : refuse("address_refused");
}

/** Refuses every request of an environment under maintenance, before its key and uncharged. */
export function checkMaintenance({ maintenance }: Environment): Result<void> {
  if (maintenance === undefined) return accept(undefined);
  const { retryAfterSeconds } = maintenance;
  return refuse("maintenance", undefined, { retryAfterSeconds });
}
