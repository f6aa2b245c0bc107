import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { Redis } from "ioredis";
import type { StoreAddress } from "../../config/schema/addresses.ts";
import type { StoreFailure } from "../interface/store-failure.ts";
import { createClusterLink } from "./cluster-link.ts";
import { type Argument, type Link, type LinkOptions, listen, sendOn } from "./link.ts";
import { translate } from "./reply-errors.ts";

export type RedisAddress = Exclude<StoreAddress, { kind: "memory" }>;
export type ConnectOptions = {
  readonly address: RedisAddress;
  /** For `rediss://`: beyond what Node trusts by itself (NODE_EXTRA_CA_CERTS). */
  readonly tls?: ConnectionOptions;
};

type Parsed = {
  readonly scheme: string;
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly path: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
};

/**
 * Reads the address of a store, with several hosts where there may be
 * (docs/configuration.md#the-file). The message has no secret.
 */
export function parseAddress({ kind, url, shown }: RedisAddress): Parsed {
  const found =
    /^(rediss?|redis\+sentinel|redis\+cluster):\/\/(?:(.*)@)?([^/@]+)(?:\/([^?]*))?$/.exec(url);
  const [, scheme = "", userinfo, authority = "", path = ""] = found ?? [];
  const port = kind === "sentinel" ? 26379 : 6379;
  const hosts = authority.split(",").map((each) => {
    const [, v6, name, digits] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(each) ?? [];
    return { host: v6 ?? name ?? "", port: digits === undefined ? port : Number(digits) };
  });
  if (found === null || hosts.some(({ host }) => host === "")) {
    throw new Error(
      `Cannot use ${shown} as the address of the store: it must look like redis://host:6379`,
    );
  }
  const [user = "", ...rest] = (userinfo ?? "").split(":");
  const password = rest.length === 0 ? undefined : decodeURIComponent(rest.join(":"));
  return {
    scheme,
    hosts,
    path,
    username: user === "" ? undefined : decodeURIComponent(user),
    password,
  };
}

/** Opens the link that the address names; it need not answer yet. */
export function connectRedis({ address, tls }: ConnectOptions): Link {
  const parsed = parseAddress(address);
  const options = safeOptions(parsed, tls);
  if (address.kind === "cluster") return createClusterLink(parsed.hosts, options);
  if (address.kind === "sentinel") {
    const { password } = parsed;
    return createSingleLink({
      ...options,
      sentinels: [...parsed.hosts],
      name: parsed.path,
      // A Sentinel without a password lets its default user in with any.
      ...(password === undefined
        ? {}
        : { sentinelUsername: "default", sentinelPassword: password }),
      sentinelRetryStrategy: retryDelay,
      sentinelCommandTimeout: 1_000,
    });
  }
  const db = /^\d+$/.test(parsed.path) ? Number(parsed.path) : 0;
  return createSingleLink({ ...options, ...parsed.hosts[0], db });
}

/**
 * Options that keep ioredis from waiting, queueing and charging twice: it does all three by
 * default. The deadline of a command is ours, `orLate`: `commandTimeout` would call an answer lost
 * that only waits to be read.
 */
function safeOptions(
  { scheme, hosts, username, password }: Parsed,
  tls?: ConnectionOptions,
): LinkOptions {
  const host = hosts[0]?.host ?? "";
  return {
    lazyConnect: true,
    protocol: 2,
    replyMapping: "legacy",
    disableClientInfo: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    enableReadyCheck: true,
    maxLoadingRetryTime: 500,
    connectTimeout: 1_000,
    socketTimeout: 1_000,
    retryStrategy: retryDelay,
    reconnectOnError: (error) => (error.message.includes("READONLY") ? 1 : false),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(scheme === "rediss"
      ? { tls: { ...(isIP(host) ? {} : { servername: host }), ...tls } }
      : {}),
  };
}

/** 50 ms, doubling up to half a second, and up to as much again by chance: no herd comes back at once. */
function retryDelay(times: number): number {
  const delayMs = Math.min(50 * 2 ** Math.min(times - 1, 10), 500);
  return delayMs + Math.floor(Math.random() * delayMs * 0.5);
}

function createSingleLink(options: LinkOptions): Link {
  const redis = new Redis(options);
  const others: Redis[] = [];
  let why: StoreFailure | undefined;
  redis.on("error", (error) => {
    why = translate(error);
  });
  redis.on("ready", () => {
    why = undefined;
  });
  const tried = redis.connect().catch((error) => {
    why = translate(error);
  });
  const send = (name: string, args: readonly Argument[]) =>
    sendOn(redis, name, args).catch((error) => Promise.reject(translate(error)));
  return {
    clustered: false,
    send: (_key, name, args) => send(name, args),
    masters: async () => [{ send }],
    subscribe: (channel, subscriber) => {
      const listener = new Redis(options);
      others.push(listener);
      listen(listener, channel, subscriber);
      return { restart: () => listener.disconnect(true) };
    },
    health: () => {
      if (redis.status === "ready") return { ok: true };
      return { ok: false, why: why?.message ?? "Redis cannot be reached: not connected yet" };
    },
    tried,
    close: async () => {
      for (const each of [redis, ...others]) each.disconnect();
    },
  };
}
