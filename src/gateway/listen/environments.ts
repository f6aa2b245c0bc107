import type { Config, Environment, Service } from "../../config/config.ts";
import { type Address, formatAddress } from "../../core/http/address.ts";
import { trustProxies } from "../client/client-address.ts";
import type { Backend, Served } from "../exchange/served.ts";
import { Certificate } from "../node/certificate.ts";
import { Upstreams } from "../upstreams/upstreams.ts";

/** The environments behind one listening address. */
export type Listening = {
  readonly key: string;
  readonly listen: Address;
  readonly serves: readonly Served[];
};

/**
 * The environments that a configuration serves, by listening address. Backends that stay the same
 * keep their connections: they are taken over from `previous`. Throws in words when a certificate
 * is no good.
 */
export function environmentsOf(
  config: Config,
  elapsed: () => number,
  previous: readonly Listening[] = [],
): Listening[] {
  const before = new Map(previous.flatMap(({ serves }) => serves).map((one) => [one.name, one]));
  const listening = new Map<string, { key: string; listen: Address; serves: Served[] }>();
  for (const environment of config.environments) {
    const key = listenKey(environment);
    const entry = listening.get(key) ?? { key, listen: environment.listen, serves: [] };
    listening.set(key, entry);
    entry.serves.push(servedOf(config, environment, elapsed, before.get(environment.name)));
  }
  return [...listening.values()];
}

/** Port 0 is any free port, so it is never shared. */
function listenKey({ name, listen }: Environment): string {
  const address = formatAddress(listen);
  return listen.port === 0 ? `${address} for ${name}` : address;
}

function servedOf(
  config: Config,
  environment: Environment,
  elapsed: () => number,
  before: Served | undefined,
): Served {
  const { limits } = environment;
  return {
    name: environment.name,
    hosts: environment.hosts,
    keyPrefix: config.keyPrefix,
    keyTag: environment.keyTag,
    keyHeaders: config.keyHeaders,
    logMeta: config.log.meta,
    foreignKeys: config.foreignKeys,
    backends: backendsOf(environment, elapsed, before),
    limits,
    config: config.hash.slice(0, HASH_DIGITS),
    upstreamHost: environment.upstreamHost,
    cors: environment.cors,
    takesAddress: admissionOf(environment),
    maintenance: maintenanceOf(environment),
    certificate: certificateOf(environment, before),
    plans: config.plans,
    planBounds: config.planBounds,
    bans: config.bans,
    publicTerms: publicTermsOf(config, environment),
    standing: environment.standing,
    rateLimitFields: config.rateLimitFields,
  };
}

function publicTermsOf({ plans }: Config, { name, publicPlan }: Environment) {
  const limits = publicPlan === undefined ? undefined : plans.get(publicPlan);
  if (publicPlan === undefined || limits === undefined || limits === "custom") return undefined;
  return { environment: name, plan: publicPlan, limits };
}

/** Each request line tells so many digits of the configuration's hash. */
const HASH_DIGITS = 8;

/** The services under paths of their own, and last the one that has what none of them has. */
function backendsOf(
  environment: Environment,
  elapsed: () => number,
  before: Served | undefined,
): readonly Backend[] {
  const own = { ...environment, path: undefined, stripPrefix: "", addPrefix: "" };
  return [...environment.backends, own]
    .filter(({ upstreams }) => upstreams.length > 0)
    .map((backend) => backendOf(backend, elapsed, before));
}

type Configured = Service & Pick<Backend, "path" | "stripPrefix" | "addPrefix">;

function backendOf(
  { path, stripPrefix, addPrefix, routes, limits, ...service }: Configured,
  elapsed: () => number,
  before: Served | undefined,
): Backend {
  const options = {
    origins: service.upstreams,
    connectionsMax: limits.upstreamConnections,
    connectTimeoutMs: limits.connectTimeoutMs,
    headerBytesMax: limits.headerBytes,
    ca: service.upstreamTls.ca?.text,
    serverName: service.upstreamTls.serverName,
    healthCheck: service.healthCheck,
    elapsed,
  };
  const kept = before?.backends.find((backend) => backend.path === path)?.upstreams;
  const upstreams =
    kept !== undefined && sameOptions(kept, options) ? kept : new Upstreams(options);
  return { path, routes, upstreams, limits, stripPrefix, addPrefix };
}

/** `deny` wins; an empty `allow` takes all that `deny` leaves (docs/reference/plans.md#admission). */
function admissionOf({ allow, deny }: Environment): (address: string) => boolean {
  const isAllowed = allow.length === 0 ? () => true : trustProxies(allow);
  const isDenied = trustProxies(deny);
  return (address) => !isDenied(address) && isAllowed(address);
}

function maintenanceOf({ maintenance }: Environment): Served["maintenance"] {
  if (maintenance === undefined) return undefined;
  return { retryAfterSeconds: Math.max(1, Math.ceil(maintenance.retryAfterMs / 1_000)) };
}

function certificateOf({ name, tls }: Environment, before: Served | undefined) {
  if (tls === undefined) return undefined;
  const kept = before?.certificate;
  if (kept?.files.cert === tls.cert && kept.files.key === tls.key) return kept;
  try {
    return new Certificate(tls);
  } catch (error) {
    throw new Error(`Cannot use environments.${name}.tls: ${(error as Error).message}`);
  }
}

function sameOptions({ options }: Upstreams, next: Upstreams["options"]): boolean {
  return JSON.stringify(options) === JSON.stringify(next);
}

/** The backends that were served and are no longer. */
export function retired(previous: readonly Listening[], next: readonly Listening[]): Upstreams[] {
  const kept = new Set(upstreamsOf(next));
  return upstreamsOf(previous).filter((upstreams) => !kept.has(upstreams));
}

function upstreamsOf(listening: readonly Listening[]): Upstreams[] {
  const backends = listening.flatMap(({ serves }) => serves.flatMap((served) => served.backends));
  return backends.map(({ upstreams }) => upstreams);
}
