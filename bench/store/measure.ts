import { randomInt } from "node:crypto";
import type { Redis } from "ioredis";
import { formKey } from "../../src/core/keys/key.ts";
import { freePort, startRedis } from "../../test/support/redis/redis.ts";
import { type Flooded, flood, openFixedBackend } from "./flood.ts";
import { type Gateway, startGateway } from "./gateway.ts";

/** The cost of one kind of traffic. Times are microseconds of CPU a request. */
export type Row = {
  readonly what: string;
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly commands: number;
  readonly commandsPerRequest: number;
  readonly commandsPerSecond: number;
  readonly gatewayUs: number;
  readonly redisUs: number;
  readonly target: { readonly of: "request" | "second"; readonly max: number };
  readonly met: boolean;
};

const MANY = 1_000;
const PER_REQUEST_MAX = 0.1;
const PER_SECOND_MAX = 20;
/** Connections are made and code is warm before anything is counted. */
const WARM_SECONDS = 0.5;
/** One strike and the account is banned, for longer than a benchmark lasts. */
const SOON_BANNED = "{ strikes: 1, within: 1h, grace: 1s, duration: 1h, max: 1h }";
/** The default: a flood earns no ban in the first 20 s. */
const DEFAULT = "{ strikes: 20 }";
/** Commands that only scripts of ours send to Redis: those are of the call that runs the script. */
const INSIDE =
  /^(?:hget|hgetall|hlen|hset|hdel|hmget|del|type|time|incr|pexpire|pttl|publish|zadd|zcard|zrem|zremrangebyscore|zscore)$/;

/**
 * Real gateways over real sockets on a Redis of their own, one kind of traffic after the other, each
 * for so many seconds. `progress` is told what begins.
 */
export async function measureStore(
  seconds: number,
  progress: (what: string) => void,
): Promise<readonly Row[]> {
  const redis = await startRedis();
  const backend = await openFixedBackend();
  try {
    const client = await redis.client();
    const keys = { big: newKeys(MANY), one: newKeys(MANY + 1) };
    const at = async (bans: string) => {
      const ports = [await freePort(), await freePort()] as const;
      progress("starting a gateway");
      return startGateway({ ports, storeUrl: redis.url, upstream: backend.origin, keys, bans });
    };
    const rows: Row[] = [];
    const [one = "", ...many] = keys.one;
    const plain = new Bench(await at(DEFAULT), client, seconds, progress);
    try {
      rows.push(await plain.admitted("admitted, 1 key", keys.big.slice(0, 1)));
      rows.push(await plain.admitted("admitted, 1,000 keys", keys.big));
      rows.push(await plain.refused("flood over an exhausted window", [one]));
      rows.push(await plain.refused("flood over 1,000 exhausted accounts", many));
    } finally {
      await plain.gateway.stop();
    }
    const strict = new Bench(await at(SOON_BANNED), client, seconds, progress);
    try {
      await strict.earnBan(one);
      rows.push(await strict.refused("flood over a ban", [one]));
    } finally {
      await strict.gateway.stop();
    }
    return rows;
  } finally {
    backend.close();
    await redis.close();
  }
}

function newKeys(count: number): string[] {
  return Array.from({ length: count }, () => formKey("pets", "live", (max) => randomInt(max)));
}

class Bench {
  readonly gateway: Gateway;
  readonly #redis: Redis;
  readonly #seconds: number;
  readonly #progress: (what: string) => void;

  constructor(gateway: Gateway, redis: Redis, seconds: number, progress: (what: string) => void) {
    this.gateway = gateway;
    this.#redis = redis;
    this.#seconds = seconds;
    this.#progress = progress;
  }

  admitted(what: string, keys: readonly string[]): Promise<Row> {
    return this.#row(what, keys, 200, { of: "request", max: PER_REQUEST_MAX });
  }

  /** Each key is exhausted, and known to be, before anything is counted. */
  async refused(what: string, keys: readonly string[]): Promise<Row> {
    await flood(this.gateway.port, keys, (requests) => requests >= 3 * keys.length);
    return this.#row(what, keys, 429, { of: "second", max: PER_SECOND_MAX });
  }

  /** A strike needs a second since the first refusal. */
  async earnBan(key: string): Promise<void> {
    this.#progress("earning a ban");
    const account = "production:one-0";
    const deadlineMs = Date.now() + 10_000;
    for (;;) {
      await flood(this.gateway.port, [key], () => true);
      const hashes = await this.#redis.keys(`tg:{*}:${account}`);
      if (hashes[0] !== undefined && (await this.#redis.hexists(hashes[0], "b")) === 1) return;
      if (Date.now() > deadlineMs) throw new Error("No ban was earned within 10 s");
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async #row(
    what: string,
    keys: readonly string[],
    status: number,
    target: Row["target"],
  ): Promise<Row> {
    this.#progress(what);
    await this.#flood(keys, WARM_SECONDS);
    const before = await this.#used();
    const { statuses, requests, seconds } = await this.#flood(keys, this.#seconds);
    const after = await this.#used();
    if (statuses.get(status) !== requests) {
      const found = JSON.stringify([...statuses]);
      throw new Error(`Cannot measure "${what}": not every answer is ${status}: ${found}`);
    }
    const commands = after.commands - before.commands;
    const commandsPerRequest = commands / requests;
    const commandsPerSecond = commands / seconds;
    const found = target.of === "request" ? commandsPerRequest : commandsPerSecond;
    return {
      what,
      requests,
      requestsPerSecond: requests / seconds,
      commands,
      commandsPerRequest,
      commandsPerSecond,
      gatewayUs: (after.gatewayUs - before.gatewayUs) / requests,
      redisUs: (after.redisUs - before.redisUs) / requests,
      target,
      met: found <= target.max,
    };
  }

  #flood(keys: readonly string[], seconds: number): Promise<Flooded> {
    const endMs = performance.now() + seconds * 1000;
    return flood(this.gateway.port, keys, () => performance.now() >= endMs);
  }

  /** INFO is ours, and nobody else's. */
  async #used() {
    const stats = await this.#redis.info("commandstats");
    let commands = 0;
    for (const [, name = "", calls] of stats.matchAll(/^cmdstat_([^:|]+)\S*?:calls=(\d+)/gm)) {
      if (name !== "info" && !INSIDE.test(name)) commands += Number(calls);
    }
    const cpu = await this.#redis.info("cpu");
    const used = (kind: string) => {
      return Number(new RegExp(`^used_cpu_${kind}:(\\S+)`, "m").exec(cpu)?.[1]) * 1e6;
    };
    return { commands, redisUs: used("user") + used("sys"), gatewayUs: await this.gateway.cpuUs() };
  }
}
