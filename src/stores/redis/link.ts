import { isIP } from "node:net";
import type { Command, Redis, RedisOptions } from "ioredis";
import type { HostPort } from "../../core/address.ts";
import { ShortLivedCommand } from "./short-lived-command.ts";
import { type StoreFailure, toStoreFailure } from "./store-failure.ts";

/** Options of a connection. A link here leaves replies in the shapes of RESP 2. */
export type LinkOptions = RedisOptions & { replyMapping: "legacy" };

/** The options for one server. Over TLS, a host that has a name is requested by that name (SNI). */
export function atHost(options: LinkOptions, { host, port }: HostPort): LinkOptions {
  const { tls } = options;
  if (tls === undefined || isIP(host) !== 0) return { ...options, host, port };
  return { ...options, host, port, tls: { servername: host, ...tls } };
}

export type RedisArgument = string | number;

/** Turns a reply into a value. Throws if the reply is not the one of its command. */
export type ReplyReader = (reply: unknown) => unknown;

/** Some buckets of a Cluster, and the node that owns them, as `host:port`. */
export type ClusterPart = { readonly node: string; readonly buckets: readonly number[] };

/** One node that takes writes. `send` rejects with StoreFailure. */
export type RedisNode = {
  send(name: string, args: readonly RedisArgument[]): Promise<unknown>;
  /** Undefined without a Cluster. */
  readonly part?: ClusterPart;
};

export type Subscriber = {
  /** Called when a message came over the channel. */
  message(text: string): void;
  /** Called when the subscription is in force. Earlier messages are lost. */
  up(): void;
  /** Called each time that the server refuses the subscription. It is asked for again. */
  refused(failure: StoreFailure): void;
};

export type LinkHealth =
  | { readonly ok: true }
  | { readonly ok: false; readonly failure: StoreFailure };

/**
 * The link to Redis: alone, through Sentinel, or a Cluster. Never queues while there is no
 * connection. Never resends a command that may have been executed. Reconnects by itself, without
 * limit.
 */
export type Link = {
  /** Whether keys of different buckets cannot go in one call. */
  readonly clustered: boolean;
  /**
   * Sends a command to the node that owns the key, `prefix:{bucket}:...`, following MOVED and ASK.
   * Rejects with StoreFailure, also if the reply is not the one of this command (sendProven).
   */
  send(
    key: string,
    name: string,
    args: readonly RedisArgument[],
    read?: ReplyReader,
  ): Promise<unknown>;
  /** Every node that takes writes, including nodes that cannot be reached. */
  masters(): Promise<readonly RedisNode[]>;
  /** The part of a Cluster that has a bucket; undefined without a Cluster. */
  partOf(bucket: number): ClusterPart | undefined;
  /**
   * The node that has a bucket now, as far as is known: the same object for all of its buckets.
   * Without a Cluster there is only one.
   */
  nodeOf(bucket: number): object;
  /**
   * Names the master that writes go to now. Waits for the end of a failover. If the name is the
   * same before and after a write, that write went to the master. Without Sentinels it is always
   * the same. Rejects with StoreFailure while it cannot be known.
   */
  master(): Promise<string>;
  /** Why there may not be one master, in the words of the Sentinels; undefined if there is. */
  split(): string | undefined;
  /** Subscribes on a separate connection. `restart` subscribes again on a new one. */
  subscribe(channel: string, subscriber: Subscriber): { restart(): void };
  /** Whether every node is connected; of a bucket, the node that has it. */
  health(bucket?: number): LinkHealth;
  /** Settles when connected, or when the first attempt failed. */
  readonly tried: Promise<void>;
  close(): Promise<void>;
};

/** Sends one command on one connection. An error that it throws never holds the arguments. */
export function sendOn(
  redis: Redis & { readonly refused?: StoreFailure | undefined },
  name: string,
  args: readonly RedisArgument[],
): Promise<unknown> {
  if (redis.refused !== undefined) return Promise.reject(redis.refused);
  const command = new ShortLivedCommand(name, args as RedisArgument[], { replyEncoding: "utf8" });
  return redis.sendCommand(command as unknown as Command) as Promise<unknown>;
}

const REFUSED_PAUSE_MS = 1_000;

/**
 * Subscribes each time the connection is ready. A server that refuses is asked again at a pace: a new
 * connection would be refused too, many times a second.
 */
export function subscribeOn(
  redis: Redis,
  channels: readonly string[],
  subscriber: Subscriber,
): void {
  let again: NodeJS.Timeout | undefined;
  const onRefusal = (error: unknown) => {
    const failure = toStoreFailure(error);
    if (failure.code === "unreachable") return redis.disconnect(true);
    subscriber.refused(failure);
    again = setTimeout(ask, REFUSED_PAUSE_MS).unref();
  };
  const ask = () => void redis.subscribe(...channels).then(() => subscriber.up(), onRefusal);
  redis.on("error", () => undefined);
  redis.on("close", () => clearTimeout(again));
  redis.on("message", (_channel: string, text: string) => subscriber.message(text));
  redis.on("ready", ask);
  redis.connect().catch(() => undefined);
}

/** A link that counts the commands that are sent by it. */
export type CountedLink = Link & { readonly sent: number };

/** The same link, which counts. */
export function countingLink(link: Link): CountedLink {
  let sent = 0;
  return {
    ...link,
    send: (key, name, args, read) => {
      sent += 1;
      return link.send(key, name, args, read);
    },
    get sent() {
      return sent;
    },
  };
}
