import { isIP, isIPv4, isIPv6 } from "node:net";
import { canonicalHost, type HostPort } from "../../core/address.ts";

/**
 * A parsed value, or the reason that it could not be parsed. The reason follows the value's name in
 * a sentence and never holds the value.
 */
export type ParseResult<T> = { readonly value: T } | { readonly why: string };

const HOST_NAME = /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$/;

/** `HOST:PORT`, IPv6 in brackets. Port 0 requests any free port. */
export function parseListen(text: string): ParseResult<HostPort> {
  const match = /^(?:\[([^\]]*)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  if (match === null) return { why: "write HOST:PORT; 0.0.0.0:PORT stands for every address" };
  const [, bracketed, bare = "", digits] = match;
  const port = Number(digits);
  if (port > 65_535) return { why: "a port is at most 65535" };
  if (bracketed !== undefined) {
    const isPlain = isIPv6(bracketed) && !bracketed.includes("%");
    return isPlain
      ? { value: { host: canonicalHost(bracketed), port } }
      : { why: "what stands in the brackets is not an IPv6 address" };
  }
  const isHost = /^[\d.]+$/.test(bare) ? isIPv4(bare) : HOST_NAME.test(bare);
  return isHost
    ? { value: { host: bare.toLowerCase(), port } }
    : { why: "its host is neither a name nor an IP address" };
}

export const NO_PORT = "no server has port 0";

/** An origin: http or https, a host, an optional port, nothing else. */
export function parseOrigin(text: string): ParseResult<string> {
  const url = /^https?:\/\//i.test(text) ? URL.parse(text) : null;
  if (url === null) return { why: "write http://HOST:PORT or https://HOST:PORT" };
  if (url.username !== "" || url.password !== "") {
    return { why: "an upstream takes no user name or password here" };
  }
  const rest = text.slice(text.indexOf("//") + 2);
  if (/[/?#\\\s]/.test(rest)) return { why: "remove everything after the host and port" };
  if (url.port === "0") return { why: NO_PORT };
  return { value: url.origin };
}

/** A URL that something is sent to: http or https, a host, an optional port, path and query. */
export function parseHttpUrl(text: string): ParseResult<string> {
  const url = /^https?:\/\/[^/\\\s]/i.test(text) && !/\s/.test(text) ? URL.parse(text) : null;
  if (url === null || url.hash !== "")
    return { why: "write http://HOST:PORT/PATH or https://HOST/PATH" };
  if (url.username !== "" || url.password !== "") {
    return { why: "it takes no user name or password" };
  }
  if (url.port === "0") return { why: NO_PORT };
  return { value: url.href };
}

/** The address of a page that other pages are below. */
export function parsePageUrl(text: string): ParseResult<string> {
  return withoutQuery(text, "the pages are below its path");
}

/** The address of an OpenTelemetry collector. More is appended to its path. */
export function parseCollector(text: string): ParseResult<string> {
  return withoutQuery(text, "headers go into OTEL_EXPORTER_OTLP_HEADERS");
}

function withoutQuery(text: string, because: string): ParseResult<string> {
  const read = parseHttpUrl(text);
  const hasQuery = "value" in read && new URL(read.value).search !== "";
  return hasQuery ? { why: `it takes no query: ${because}` } : read;
}

/** A network as `address/bits`; a bare address is a network of one. */
export function parseNetwork(text: string): ParseResult<string> {
  const match = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text);
  const version = isIP(match?.[1] ?? "");
  if (match === null || version === 0)
    return { why: "write 10.0.0.0/8, 2001:db8::/32 or an IP address" };
  const most = version === 6 ? 128 : 32;
  const bits = Number(match[2] ?? most);
  if (bits > most) return { why: `an IPv${version} network has at most ${most} bits` };
  return { value: `${match[1]}/${bits}` };
}

const REDIS =
  /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^/?#\s]*)@)?([^/?#@\s]+)(?:\/([^?#\s]*))?$/;
/** A character that ends the host of an address, in front of the `@` that ends the login. */
const RAW_IN_LOGIN = /^rediss?(?:\+\w+)?:\/\/[^/?#]*([/?#]).*@/;
const NODE =
  /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?))(?::(\d{1,5}))?$/;

/**
 * Parses the address of a store: memory, redis://, redis+sentinel:// and redis+cluster://, with
 * rediss instead of redis for TLS (docs/configuration.md#the-file).
 */
export function parseStoreAddress(text: string): ParseResult<StoreAddress> {
  if (text === "memory") return { value: { kind: text, shown: text } };
  const read = parseRedisUrl(text);
  if (!("value" in read)) return read;
  const { kind } = read.value;
  const [, secret = ""] = /^[^/]*\/\/(?:([^/]*)@)?/.exec(text) ?? [];
  const name = secret.includes(":") ? `${secret.slice(0, secret.indexOf(":"))}:` : "";
  const shown = text.replace(/^([^/]*\/\/)[^/]*@/, (_, scheme) => `${scheme}${name}***@`);
  return { value: { kind, url: text, shown: shown.replace(/\/$/, "") } };
}

/** The address of a Redis and the login there. User name and password are decoded. */
export type RedisUrl = {
  readonly kind: "redis" | "sentinel" | "cluster";
  readonly tls: boolean;
  /** The server, the Sentinels, or some nodes of the Cluster. */
  readonly hosts: readonly HostPort[];
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** The number of a database; 0 on a Cluster, which has no other. */
  readonly database: number;
  /** The Sentinels' name for the master; "" without Sentinels. */
  readonly master: string;
};

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26_379;

/**
 * The only parser of a Redis URL: the configuration checks with it, and the store connects with it.
 * If no port is written, it is 6379, or 26379 for a Sentinel.
 */
export function parseRedisUrl(text: string): ParseResult<RedisUrl> {
  const [, raw] = RAW_IN_LOGIN.exec(text) ?? [];
  if (raw !== undefined) return { why: unencodedLogin(raw) };
  const match = REDIS.exec(text);
  if (match === null)
    return {
      why: "write redis://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT",
    };
  const [, scheme, engine, login, authority = "", path = ""] = match;
  const kind = (engine ?? "redis") as RedisUrl["kind"];
  const port = kind === "sentinel" ? SENTINEL_PORT : REDIS_PORT;
  const hosts = authority.split(",").map((node) => nodeOf(node, port));
  if (hosts.includes(undefined)) return { why: "each of its hosts must be HOST or HOST:PORT" };
  const [username, password] = loginOf(login ?? "") ?? [];
  if (username === undefined) return { why: unencodedLogin("%") };
  const why = misfit(kind, hosts.length, path);
  if (why !== undefined) return { why };
  return {
    value: {
      kind,
      tls: scheme === "rediss",
      hosts: hosts as HostPort[],
      username: username === "" ? undefined : username,
      password,
      database: kind === "redis" ? Number(path) : 0,
      master: kind === "sentinel" ? path : "",
    },
  };
}

function unencodedLogin(raw: string): string {
  return `its user name or password is not percent-encoded; write ${raw} as ${encodeURIComponent(raw)}`;
}

function misfit(kind: RedisUrl["kind"], nodes: number, path: string): string | undefined {
  if (kind === "sentinel") {
    return /^[A-Za-z0-9._-]+$/.test(path)
      ? undefined
      : "a Sentinel address ends in /NAME, the name of the master";
  }
  if (kind === "cluster") {
    return /^0?$/.test(path) ? undefined : "a Cluster has no numbered databases: remove the path";
  }
  if (nodes > 1) return "several hosts need redis+sentinel:// or redis+cluster://";
  return /^\d{0,5}$/.test(path) ? undefined : "its path must be the number of a database";
}

function nodeOf(text: string, fallback: number): HostPort | undefined {
  const [, bracketed, name, digits] = NODE.exec(text) ?? [];
  const host = bracketed ?? name;
  const port = digits === undefined ? fallback : Number(digits);
  if (host === undefined || port < 1 || port > 65_535) return undefined;
  return bracketed === undefined || isIPv6(bracketed) ? { host, port } : undefined;
}

/** The user name ("" for none) and the password; undefined if they are not percent-encoded. */
function loginOf(text: string): readonly [string, string | undefined] | undefined {
  const colon = text.indexOf(":");
  const [name, password] =
    colon === -1 ? [text, undefined] : [text.slice(0, colon), text.slice(colon + 1)];
  try {
    return [
      decodeURIComponent(name),
      password === undefined ? undefined : decodeURIComponent(password),
    ];
  } catch {
    return undefined;
  }
}

/** Secrets are only in `url`; `shown` is the same without them, for people and logs. */
export type RedisAddress = {
  readonly kind: "redis" | "sentinel" | "cluster";
  readonly url: string;
  readonly shown: string;
};

export type StoreAddress = { readonly kind: "memory"; readonly shown: "memory" } | RedisAddress;
