import type { Config, Environment } from "../../config/config.ts";
import { type Address, formatAddress } from "../../core/http/address.ts";
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
    backends: [backendOf(environment, elapsed, before)],
    limits,
    config: config.hash.slice(0, HASH_DIGITS),
    upstreamHost: environment.upstreamHost,
    cors: environment.cors,
    certificate: certificateOf(environment, before),
    plans: config.plans,
    bans: config.bans,
    rateLimitFields: config.rateLimitFields,
  };
}

/** Each request line tells so many digits of the configuration's hash. */
const HASH_DIGITS = 8;

/** The service that has what no other has. */
function backendOf(
  { routes, limits, upstreams: origins, upstreamTls, healthCheck }: Environment,
  elapsed: () => number,
  before: Served | undefined,
): Backend {
  const options = {
    origins,
    connectionsMax: limits.upstreamConnections,
    connectTimeoutMs: limits.connectTimeoutMs,
    headerBytesMax: limits.headerBytes,
    ca: upstreamTls.ca?.text,
    serverName: upstreamTls.serverName,
    healthCheck,
    elapsed,
  };
  const path = undefined;
  const kept = before?.backends.find((backend) => backend.path === path)?.upstreams;
  const upstreams =
    kept !== undefined && sameOptions(kept, options) ? kept : new Upstreams(options);
  return { path, routes, upstreams, limits, stripPrefix: "", addPrefix: "" };
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
