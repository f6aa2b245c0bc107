import type { Redis } from "ioredis";
import { startRedis } from "../../test/support/redis/redis.ts";

/** A Redis of the benchmark's own. */
export type Store = {
  readonly port: number;
  readonly pid: number;
  /** Commands that clients have sent so far. */
  commands(): Promise<number>;
  usedBytes(): Promise<number>;
  close(): Promise<void>;
};

/** Commands that only scripts send: they are of the call that runs the script. INFO is ours. */
const INSIDE =
  /^(?:info|hget|hgetall|hlen|hset|hdel|hmget|hmset|del|type|time|set|incr|incrby|decr|expire|pexpire|pttl|publish|zadd|zcard|zcount|zrem|zremrangebyscore|zscore)$/;

export async function openStore(): Promise<Store> {
  const redis = await startRedis();
  const client = await redis.client();
  return {
    port: redis.port,
    pid: Number(await figure(client, "server", "process_id")),
    commands: () => commandsOf(client),
    usedBytes: () => figure(client, "memory", "used_memory"),
    close: () => redis.close(),
  };
}

async function figure(client: Redis, section: string, name: string): Promise<number> {
  const text = await client.info(section);
  return Number(new RegExp(`^${name}:(\\d+)`, "m").exec(text)?.[1]);
}

async function commandsOf(client: Redis): Promise<number> {
  const stats = await client.info("commandstats");
  let commands = 0;
  for (const [, name = "", calls] of stats.matchAll(/^cmdstat_([^:|]+)\S*?:calls=(\d+)/gm)) {
    if (!INSIDE.test(name)) commands += Number(calls);
  }
  return commands;
}
