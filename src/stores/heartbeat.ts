import { randomUUID } from "node:crypto";
import { orLate } from "./redis-failure.ts";
import type { Link } from "./redis-link.ts";
import { script } from "./redis-script.ts";

/** ARGV: this gateway, or "" to leave. Returns the gateways of the last 5 s, and the store's now. */
const BEAT = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 5000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 5000, '+inf')
if ARGV[2] == '1' then redis.call('ZADD', KEYS[1], now, ARGV[1]) else redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('PEXPIRE', KEYS[1], 60000)
return { redis.call('ZCARD', KEYS[1]), now }`);

const BEAT_MS = 1_000;
const LATE_MS = 500;

export type Heartbeat = {
  /** Gateways with a heartbeat in the 5 s before the last one of ours; at least 1. */
  gateways(): number;
  /** The store's now in Unix milliseconds, as far as the last heartbeat tells. */
  storeNow(): number;
  /** Beats once, now: a write that says whether the store works. Rejects when it does not. */
  beat(): Promise<void>;
  close(): Promise<void>;
};

/** Tells the store once a second that this gateway lives, and learns how many do (contract 8). */
export function startHeartbeat(link: Link, prefix: string): Heartbeat {
  const key = `${prefix}:{0}:gateways`;
  const id = randomUUID();
  let gateways = 1;
  let aheadMs = Date.now() - performance.now();
  let closed = false;

  async function send(alive: "1" | "0"): Promise<void> {
    const args = [1, key, id, alive];
    const reply = link.send(key, "evalsha", [BEAT.sha, ...args]).catch((error) => {
      if (error.code !== "NOSCRIPT") throw error;
      return link.send(key, "eval", [BEAT.text, ...args]);
    });
    const [count, nowMs] = (await orLate(reply, LATE_MS)) as [number, number];
    gateways = Math.max(1, count);
    aheadMs = nowMs - performance.now();
  }
  const timer = setInterval(() => void send("1").catch(() => {}), BEAT_MS).unref();
  void link.tried.then(() => send("1")).catch(() => {});

  return {
    gateways: () => gateways,
    storeNow: () => Math.floor(performance.now() + aheadMs),
    beat: () => send("1"),
    close: async () => {
      if (closed) return;
      closed = true;
      clearInterval(timer);
      await send("0").catch(() => {});
    },
  };
}
