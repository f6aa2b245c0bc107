import { resolve } from "node:path";
import type { CorsPolicy } from "../../core/http/cors.ts";
import type { EdgeLimits } from "../../core/http/edge-limits.ts";
import { type PathMatching, parsePattern } from "../../core/http/path-pattern.ts";
import type { Operation, RouteRule, RouteTable } from "../../core/http/route.ts";
import type { BanPolicy } from "../../core/quota/bans.ts";
import type { Limit, PlanOptions, WindowName } from "../../core/quota/windows.ts";
import type { CertificateFiles, Config, EnvironmentConfig, PathServiceConfig } from "../config.ts";
import type { Draft, EnvironmentDraft } from "../draft/draft.ts";
import { type BackendDraft, serviceKey } from "../draft/service-drafts.ts";
import type { LimitOverrides } from "../schema/limits.ts";
import { buildOperationMeters, buildPlanMeters } from "../schema/meters.ts";
import { QUOTA_WINDOWS } from "../schema/observability.ts";
import { limitsByLength } from "../schema/plan-windows.ts";
import type { UpstreamPems } from "./pem.ts";

type BuildInputs = {
  /** Paths in the file are relative to it. Absolute. */
  readonly folder: string;
  /** By the key of the service; services without a description have no entry. */
  readonly operations: ReadonlyMap<string, readonly Operation[]>;
  /** By the key of the service. */
  readonly pems: ReadonlyMap<string, UpstreamPems>;
  readonly telemetry: Config["telemetry"];
};

/** A configuration, but for the file that it is of. */
export type BuiltConfig = Omit<Config, "file" | "hash">;

/** The configuration of a sound draft: units in names, absolute paths, all defaults filled in. */
export function buildConfig(draft: Draft, rest: BuildInputs): BuiltConfig {
  const { folder } = rest;
  const keys = sound(draft.keys);
  const environments = [...draft.environments].map(([name, environment]) => {
    const limits = { ...sound(draft.limits), ...sound(environment.limits) };
    const keyHeaders = sound(draft.keyHeaders);
    return environmentOf(environment, { name, limits: limits as Limits, rest, keyHeaders });
  });
  const [unauthenticated] = limitsByLength(sound(draft.unauthenticated));
  return {
    store: sound(draft.store),
    storePrefix: sound(draft.storePrefix),
    onStoreFailure: sound(draft.onStoreFailure),
    expectedGateways: sound(draft.expectedGateways),
    storeTimeoutMs: sound(draft.storeTimeout),
    keys: keys === "redis" ? { in: "redis" } : { in: "file", path: resolve(folder, keys) },
    stateFile: resolve(folder, sound(draft.stateFile)),
    workers: sound(draft.workers),
    environments,
    ...buildPlans(draft),
    unauthenticated: sound(unauthenticated),
    keyPrefix: sound(draft.keyPrefix),
    rateLimitFields: draft.rateLimitFields ?? "off",
    errors: draft.errors === "problem" ? { typesUrl: draft.errorsUrl } : "plain",
    trustedProxies: sound(draft.trustedProxies),
    admin: draft.admin,
    log: sound(draft.log),
    metrics: sound(draft.metrics),
    historyMs: draft.history,
    keyHeaders: sound(draft.keyHeaders),
    foreignKeys: draft.foreignKeys ?? [],
    events: draft.events,
    quotaEventWindows: (draft.events?.quota as readonly WindowName[] | undefined) ?? QUOTA_WINDOWS,
    telemetry: rest.telemetry,
  };
}

/** The parts of the configuration that decide about an account. */
export type PlanSettings = Pick<Config, "plans" | "planBounds" | "bans">;

export function buildPlans(draft: Pick<Draft, "plans" | "bans">): PlanSettings {
  const plans = Object.entries(sound(draft.plans));
  return {
    plans: new Map(plans.map(([name, plan]) => [name, windowsOf(plan)])),
    planBounds: new Map(plans.map(([name, plan]) => [name, boundsOf(plan)])),
    bans: banPolicyOf(draft.bans),
  };
}

type Limits = Required<LimitOverrides>;

type BuildContext = {
  readonly name: string;
  readonly limits: Limits;
  readonly rest: BuildInputs;
  readonly keyHeaders: readonly string[];
};

function environmentOf(draft: EnvironmentDraft, context: BuildContext): EnvironmentConfig {
  const { name, rest, limits } = context;
  const key = serviceKey(name);
  const maintenance = draft.maintenance;
  return {
    name,
    listen: sound(draft.listen),
    hosts: sound(draft.hosts),
    keyTag: sound(draft.keyTag),
    routes: routesOf(
      draft,
      { basePath: sound(draft.basePath), paths: sound(draft.paths) },
      rest.operations.get(key),
    ),
    upstreams: draft.upstreams ?? [],
    services: sound(draft.backends)
      .map((backend, i) => backendOf(draft, backend, i, context))
      .sort((one, other) => other.path.length - one.path.length),
    upstreamHost: sound(draft.upstreamHost),
    upstreamTls: {
      ...(rest.pems.get(key) ?? NO_PEMS),
      serverName: sound(draft.upstreamTls).serverName,
    },
    healthCheck: healthCheckOf(draft.healthCheck),
    tls: certificateOf(draft.tls, rest.folder),
    cors: corsPolicyOf(draft.cors, context.keyHeaders),
    limits: edgeLimitsOf(limits),
    publicPlan: draft.public,
    standing: draft.standing,
    maintenance: maintenance === undefined ? undefined : { retryAfterMs: maintenance.retryAfter },
    allow: sound(draft.allow),
    deny: sound(draft.deny),
  };
}

const NO_PEMS: UpstreamPems = { ca: undefined, clientCertificate: undefined };

function backendOf(
  environment: EnvironmentDraft,
  backend: BackendDraft,
  index: number,
  { name, limits, rest }: BuildContext,
): PathServiceConfig {
  const key = serviceKey(name, index);
  return {
    path: backend.path,
    stripPrefix: backend.stripPrefix ?? "",
    addPrefix: backend.addPrefix ?? "",
    routes: routesOf(
      environment,
      { basePath: backend.path, paths: backend.paths ?? sound(environment.paths) },
      rest.operations.get(key),
    ),
    upstreams: backend.upstreams,
    upstreamTls: { ...(rest.pems.get(key) ?? NO_PEMS), serverName: backend.upstreamTls.serverName },
    healthCheck: healthCheckOf(backend.healthCheck),
    limits: edgeLimitsOf({ ...limits, ...backend.limits } as Limits),
  };
}

/** `costs` and `publicRoutes` are for paths that are in no description. */
function routesOf(
  { costs = [], publicRoutes = [] }: EnvironmentDraft,
  of: { readonly basePath: string; readonly paths: PathMatching },
  operations: readonly Operation[] | undefined,
): RouteTable {
  if (operations !== undefined) return { ...of, operations };
  const ruleOf = (match: Omit<RouteRule, "segments">): RouteRule => {
    return { ...match, segments: parsePattern(match.template, of.paths) };
  };
  return {
    ...of,
    operations,
    costs: costs.map(({ match, cost = 1, meters }) => {
      return { ...ruleOf(match), cost, ...(meters && { meters: buildOperationMeters(meters) }) };
    }),
    publicRoutes: publicRoutes.map(ruleOf),
  };
}

function healthCheckOf(check: EnvironmentDraft["healthCheck"]): EnvironmentConfig["healthCheck"] {
  return check === undefined ? undefined : { path: check.path, everyMs: check.every };
}

function certificateOf(tls: EnvironmentDraft["tls"], folder: string): CertificateFiles | undefined {
  if (tls === undefined) return undefined;
  return { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key) };
}

/** Pages may set every field that may carry a key. */
function corsPolicyOf(
  cors: EnvironmentDraft["cors"],
  keyHeaders: readonly string[],
): CorsPolicy | undefined {
  if (cors === undefined) return undefined;
  const { maxAge, headers, ...rest } = cors;
  const given = new Set(headers.map((name) => name.toLowerCase()));
  const further = keyHeaders.filter((name) => !given.has(name));
  const maxAgeSeconds = Math.floor(maxAge / 1000);
  return { ...rest, headers: [...headers, ...further], maxAgeSeconds };
}

function edgeLimitsOf(limits: Limits): EdgeLimits {
  return {
    headerBytes: limits.headerBytes,
    headerCount: limits.headerCount,
    urlBytes: limits.urlBytes,
    bodyBytes: limits.bodyBytes,
    connections: limits.connections,
    connectionsPerAddress: limits.connectionsPerAddress,
    meteredBytes: limits.meteredBytes,
    upstreamConnections: limits.upstreamConnections,
    // A head cannot take longer than the whole request. node:http refuses such a pair of timeouts.
    headersTimeoutMs: Math.min(limits.headersTimeout, limits.requestTimeout),
    requestTimeoutMs: limits.requestTimeout,
    connectTimeoutMs: limits.connectTimeout,
    responseTimeoutMs: limits.responseTimeout,
    idleTimeoutMs: limits.idleTimeout,
    upstreamIdleMs: limits.upstreamIdle,
    connectRetryMs: limits.connectRetry,
    tunnelsPerKey: limits.tunnelsPerKey,
    tunnelIdleMs: limits.tunnelIdle,
    drainDelayMs: limits.drainDelay,
    drainMs: limits.drain,
  };
}

function banPolicyOf(bans: Draft["bans"]): BanPolicy | undefined {
  if (bans === undefined) return undefined;
  return {
    strikes: bans.strikes,
    withinMs: bans.within,
    graceMs: bans.grace,
    durationMs: bans.duration,
    factor: bans.factor,
    maxMs: bans.max,
    forgetAfterMs: bans.forgetAfter,
    ...(bans.observe ? { observe: true } : {}),
  };
}

type PlanDraft = NonNullable<Draft["plans"]>[string];

function windowsOf(plan: PlanDraft): readonly Limit[] | "custom" {
  return plan === "custom" || plan.custom === true ? "custom" : limitsByLength(plan);
}

function boundsOf(plan: PlanDraft): PlanOptions {
  if (plan === "custom") return { concurrent: undefined, observe: [], included: [], meters: [] };
  const { concurrent, observe, included, meters } = plan;
  return {
    concurrent,
    observe: limitsByLength(observe),
    included: limitsByLength(included),
    meters: buildPlanMeters(meters),
  };
}

function sound<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError("Cannot complete a draft that has a mistake");
  return value;
}
