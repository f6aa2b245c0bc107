import { once } from "node:events";
import type { ConnectionOptions } from "node:tls";
import {
  parseRedisUrl,
  type RedisAddress,
  type RedisUrl,
} from "../../../config/schema/addresses.ts";
import type { HostPort } from "../../../core/address.ts";
import { sendProven } from "../connection/proven-reply.ts";
import { StrictRedis } from "../connection/strict-redis.ts";
import {
  atHost,
  type Link,
  type LinkOptions,
  type RedisArgument,
  type ReplyReader,
  subscribeOn,
} from "../link.ts";
import {
  lostFailure,
  NOT_YET,
  type StoreFailure,
  toCommandFailure,
  toStoreFailure,
  unreachableFailure,
} from "../store-failure.ts";
import { createClusterLink } from "./cluster-link.ts";
import type { FailoverOutcome } from "./planned-failover.ts";
import { SentinelRoute } from "./sentinel-route.ts";

export type ConnectOptions = {
  readonly address: RedisAddress;
  /** For `rediss://`: additions to the default authorities (NODE_EXTRA_CA_CERTS). */
  readonly tls?: ConnectionOptions;
};

/** Opens the link that the address names. Redis need not answer yet. The message has no secret. */
export function connectRedis(wanted: ConnectOptions): Link {
  const { url, options } = readAddress(wanted);
  switch (url.kind) {
    case "cluster":
      return createClusterLink(url.hosts, options);
    case "sentinel":
      return createSingleLink(options, new SentinelRoute(url, options));
    case "redis": {
      const [host] = url.hosts;
      return createSingleLink({ ...atHost(options, host as HostPort), db: url.database });
    }
  }
}

/**
 * Has Sentinel or a Cluster replace a healthy master, as an operator does for maintenance. Resolves
 * when the old master is a replica. Never rejects because of what a server does.
 */
export async function failOver(wanted: ConnectOptions): Promise<FailoverOutcome> {
  const { url, options } = readAddress(wanted);
  const { failOverCluster, failOverSentinel } = await import("./planned-failover.ts");
  if (url.kind === "sentinel") return failOverSentinel(url, options);
  if (url.kind === "cluster") return failOverCluster(url.hosts, options);
  return { ok: false, why: "the store is one server, and has no other to fail over to" };
}

function readAddress({ address, tls }: ConnectOptions) {
  const read = parseRedisUrl(address.url);
  if (!("value" in read)) {
    throw new Error(`Cannot use ${address.shown} as the address of the store: ${read.why}`);
  }
  restoreStringMethods();
  return { url: read.value, options: safeOptions(read.value, tls) };
}

/**
 * Options that keep ioredis from waiting, queueing and charging twice, all of which it does by
 * default. The callers enforce the deadline of a command (`withTimeout`): `commandTimeout` would
 * report an answer as lost that only waits to be read.
 */
function safeOptions(url: RedisUrl, tls?: ConnectionOptions): LinkOptions {
  const { username, password } = url;
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
    connectTimeout: 1_000,
    socketTimeout: 1_000,
    retryStrategy: retryDelay,
    reconnectOnError: (error) => (error.message.includes("READONLY") ? 1 : false),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(url.tls ? { tls: { ...tls } } : {}),
  };
}

/** 50 ms, doubling to half a second, and up to half of it more, so that not all come at once. */
function retryDelay(times: number): number {
  const delayMs = Math.min(50 * 2 ** Math.min(times - 1, 10), 500);
  return delayMs + Math.floor(Math.random() * delayMs * 0.5);
}

/** Keeps why there is no connection, between two attempts too: by what the last of them said. */
function watchReason(redis: StrictRedis) {
  let isTold = false;
  const reason = {
    failure: undefined as StoreFailure | undefined,
    /** Called with what the connection that ends next has said. */
    tell: (failure: StoreFailure) => {
      reason.failure = failure;
      isTold = true;
    },
  };
  redis.on("error", (error) => reason.tell(redis.refused ?? toStoreFailure(error)));
  redis.on("close", () => {
    if (!isTold) reason.failure = redis.refused ?? lostFailure();
    isTold = false;
  });
  redis.on("ready", () => {
    reason.failure = undefined;
  });
  return reason;
}

/**
 * With Sentinels (`route`), the Sentinels and the master that they name are either all reached with
 * TLS or all without. A certificate has to hold the address by which the server was reached. For
 * the master that is the address that the Sentinels report.
 */
function createSingleLink(options: LinkOptions, route?: SentinelRoute): Link {
  const open = () => route?.open() ?? new StrictRedis(options);
  const redis = open();
  const others: StrictRedis[] = [];
  const reason = watchReason(redis);
  // If the Sentinels are unreachable, `connect` keeps trying and does not settle; it emits an
  // error.
  const tried = Promise.race([redis.connect(), once(redis, "ready")]).then(
    () => undefined,
    (error) => {
      if (reason.failure === undefined) reason.tell(toStoreFailure(error));
    },
  );
  const send = (name: string, args: readonly RedisArgument[], read?: ReplyReader) => {
    const refusal = route?.refusal(redis);
    if (refusal !== undefined) return Promise.reject(refusal);
    return sendProven(redis, name, args, read).catch((error) => {
      // A connection that is ready and takes nothing more is about to close.
      const ending = redis.status === "ready" ? lostFailure() : undefined;
      const failure = toCommandFailure(error, reason.failure ?? ending);
      // The client then opens a new connection.
      if (failure.code === "READONLY") reason.tell(failure);
      return Promise.reject(failure);
    });
  };
  return {
    clustered: false,
    send: (_key, name, args, read) => send(name, args, read),
    masters: async () => [{ send }],
    partOf: () => undefined,
    nodeOf: () => redis,
    subscribe: (channel, subscriber) => {
      const listener = open();
      others.push(listener);
      subscribeOn(listener, [channel], subscriber);
      return { restart: () => listener.disconnect(true) };
    },
    master: async () => (await route?.master()) ?? "",
    split: () => route?.split(),
    health: () => {
      const refusal = route?.refusal(redis);
      if (refusal !== undefined) return { ok: false, failure: refusal };
      if (redis.status === "ready") return { ok: true };
      return { ok: false, failure: reason.failure ?? unreachableFailure(NOT_YET) };
    },
    tried,
    close: async () => {
      route?.close();
      for (const each of [redis, ...others]) each.disconnect();
    },
  };
}

/** More than V8 needs to notice that the same place is asked again and again. */
const ASKED = 1_000;

/**
 * Makes the methods of strings fast again. ioredis has a class that extends String, and V8 turns a
 * prototype that is extended into a dictionary, in which each `text.length` and `text.slice` of the
 * process is looked up again. V8 undoes that when an object asks for a member of the prototype;
 * strings are not objects and never cause it (docs/decisions/hot-path.md).
 */
export function restoreStringMethods(): void {
  const text = Object("x") as string;
  for (let i = 0; i < ASKED; i++) text.charCodeAt(0);
}
