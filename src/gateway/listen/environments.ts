import type { Config, EnvironmentConfig, ServiceConfig } from "../../config/config.ts";
import { addressMatcher, formatHostPort, type HostPort } from "../../core/address.ts";
import { comparablePath } from "../../core/http/path-pattern.ts";
import type { Environment, Service } from "../exchange/environment.ts";
import { Certificate } from "../runtime/certificate.ts";
import { UpstreamPool } from "../upstreams/upstream-pool.ts";

/** The environments behind one listening address. */
export type ListenerSpec = {
  readonly key: string;
  readonly listen: HostPort;
  readonly environments: readonly Environment[];
};

/**
 * The environments that a configuration serves, by listening address. Upstreams that stay the same
 * are taken over from `previous` and keep their connections; equal origins whose options change keep
 * their health, and their connections and the requests for them count on. Throws a readable error if
 * a certificate cannot be used.
 */
export function listenerSpecs(
  config: Config,
  clocks: PoolClocks,
  previous: readonly ListenerSpec[] = [],
): ListenerSpec[] {
  const before = new Map(
    previous.flatMap(({ environments }) => environments).map((one) => [one.name, one]),
  );
  const listening = new Map<
    string,
    { key: string; listen: HostPort; environments: Environment[] }
  >();
  for (const environment of config.environments) {
    const key = listenKey(environment);
    const entry = listening.get(key) ?? { key, listen: environment.listen, environments: [] };
    listening.set(key, entry);
    entry.environments.push(
      environmentOf(config, environment, clocks, before.get(environment.name)),
    );
  }
  return [...listening.values()];
}

/** Port 0 means any free port, so environments never share it. */
function listenKey({ name, listen }: EnvironmentConfig): string {
  const address = formatHostPort(listen);
  return listen.port === 0 ? `${address} for ${name}` : address;
}

function environmentOf(
  config: Config,
  environment: EnvironmentConfig,
  clocks: PoolClocks,
  before: Environment | undefined,
): Environment {
  const { limits, standing, routes } = environment;
  return {
    name: environment.name,
    hosts: environment.hosts,
    keyPrefix: config.keyPrefix,
    keyTag: environment.keyTag,
    keyHeaders: config.keyHeaders,
    logMeta: config.log.meta,
    foreignKeys: config.foreignKeys,
    services: servicesOf(environment, clocks, before),
    limits,
    requestLimits: {
      fieldBytesMax: limits.headerBytes,
      fieldCountMax: limits.headerCount,
      requestTimeoutMs: limits.requestTimeoutMs,
    },
    config: config.hash.slice(0, HASH_DIGITS),
    upstreamHost: environment.upstreamHost,
    cors: environment.cors,
    isAddressAllowed: admissionOf(environment),
    maintenance: maintenanceOf(environment),
    certificate: certificateOf(environment, before),
    plans: config.plans,
    planBounds: config.planBounds,
    bans: config.bans,
    publicPlan: publicPlanOf(config, environment),
    standing: standing === undefined ? undefined : comparablePath(standing, routes.paths),
    paths: routes.paths ?? "exact",
  };
}

function publicPlanOf({ plans }: Config, { name, publicPlan }: EnvironmentConfig) {
  const limits = publicPlan === undefined ? undefined : plans.get(publicPlan);
  if (publicPlan === undefined || limits === undefined || limits === "custom") return undefined;
  return { environment: name, plan: publicPlan, limits };
}

/** The number of digits of the configuration's hash in each access log entry. */
const HASH_DIGITS = 8;

/** The services with a path of their own, followed by the default service for all other paths. */
function servicesOf(
  environment: EnvironmentConfig,
  clocks: PoolClocks,
  before: Environment | undefined,
): readonly Service[] {
  const own = { ...environment, path: undefined, stripPrefix: "", addPrefix: "" };
  return [...environment.services, own]
    .filter(({ upstreams }) => upstreams.length > 0)
    .map((service) => serviceOf(service, clocks, before));
}

type PoolClocks = Pick<UpstreamPool["options"], "elapsed" | "machineNow">;
type ConfiguredService = ServiceConfig & Pick<Service, "path" | "stripPrefix" | "addPrefix">;

function serviceOf(
  { path, stripPrefix, addPrefix, routes, limits, ...service }: ConfiguredService,
  clocks: PoolClocks,
  before: Environment | undefined,
): Service {
  const options = {
    origins: service.upstreams,
    connectionsMax: limits.upstreamConnections,
    connectTimeoutMs: limits.connectTimeoutMs,
    idleMsMax: limits.upstreamIdleMs,
    ca: service.upstreamTls.ca?.text,
    serverName: service.upstreamTls.serverName,
    clientCertificate: pairOf(service.upstreamTls.clientCertificate),
    healthCheck: service.healthCheck,
    elapsed: clocks.elapsed,
    machineNow: clocks.machineNow,
  };
  const known = before?.services.find((one) => one.path === path)?.upstreams;
  const upstreams =
    known !== undefined && sameOptions(known, options) ? known : new UpstreamPool(options, known);
  const comparable = path === undefined ? undefined : comparablePath(path, routes.paths);
  return { path, comparable, routes, upstreams, limits, stripPrefix, addPrefix };
}

function pairOf(
  pair: ServiceConfig["upstreamTls"]["clientCertificate"],
): UpstreamPool["options"]["clientCertificate"] {
  return pair && { cert: pair.cert.text, key: pair.key.text };
}

/**
 * `deny` wins; an empty `allow` allows everything that `deny` leaves
 * (docs/reference/plans.md#admission).
 */
function admissionOf({ allow, deny }: EnvironmentConfig): (address: string) => boolean {
  const isAllowed = allow.length === 0 ? () => true : addressMatcher(allow);
  const isDenied = addressMatcher(deny);
  return (address) => !isDenied(address) && isAllowed(address);
}

function maintenanceOf({ maintenance }: EnvironmentConfig): Environment["maintenance"] {
  if (maintenance === undefined) return undefined;
  return { retryAfterSeconds: Math.max(1, Math.ceil(maintenance.retryAfterMs / 1_000)) };
}

function certificateOf({ name, tls }: EnvironmentConfig, before: Environment | undefined) {
  if (tls === undefined) return undefined;
  const kept = before?.certificate;
  if (kept?.isOf(tls)) return kept;
  try {
    return new Certificate(tls);
  } catch (error) {
    throw new Error(`Cannot use environments.${name}.tls: ${(error as Error).message}`);
  }
}

function sameOptions({ options }: UpstreamPool, next: UpstreamPool["options"]): boolean {
  return JSON.stringify(options) === JSON.stringify(next);
}

/** The upstream pools that were served before and are no longer. */
export function retiredPools(
  previous: readonly ListenerSpec[],
  next: readonly ListenerSpec[],
): UpstreamPool[] {
  const kept = new Set(poolsOf(next));
  return poolsOf(previous).filter((upstreams) => !kept.has(upstreams));
}

/** The upstream pools that are served. */
export function poolsOf(listening: readonly ListenerSpec[]): UpstreamPool[] {
  const environments = listening.flatMap((one) => one.environments);
  return environments.flatMap(({ services }) => services.map(({ upstreams }) => upstreams));
}
