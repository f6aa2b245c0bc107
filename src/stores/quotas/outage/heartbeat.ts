import { randomUUID } from "node:crypto";
import { defineScript, runScript } from "../../redis/script.ts";
import { withTimeout } from "../../redis/store-failure.ts";
import type { QuotaClient } from "../redis/quota-client.ts";

/**
 * The form of accounts in the store, `lua/account.lua`, that this gateway reads and writes. It rises
 * when gateways of the version before would read it wrong (docs/operations.md#upgrades).
 */
const ACCOUNTS_FORM = 1;

/**
 * KEYS: the gateways by their last heartbeat; those that owe nothing, by the instant up to which that
 * is certain; the hash that says the form of accounts, written by the first heartbeat of all. A newer
 * form than this gateway's is refused before anything is written. ARGV: this gateway, 1 to live or 0 to leave, that instant of its own or 0, and another
 * instant, both of the store's clock. Returns the gateways of the last 5 s, the store's now, whether
 * this one was still among them (if not, the others may be missing too), and how many are certain to
 * owe nothing from before the other instant. The first write is one that needs memory: after any
 * other, a script is not stopped when there is none.
 */
const BEAT = defineScript(`
local form = tonumber(redis.call('HGET', KEYS[3], 'version') or 0)
if form > ${ACCOUNTS_FORM} then return redis.error_reply('NEWER ' .. form) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local there = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
if ARGV[2] == '1' then redis.call('ZADD', KEYS[1], now, ARGV[1]) else redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 5000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 5000, '+inf')
redis.call('PEXPIRE', KEYS[1], 60000)
if form < ${ACCOUNTS_FORM} then redis.call('HSET', KEYS[3], 'version', ${ACCOUNTS_FORM}) end
if ARGV[2] == '1' and ARGV[3] ~= '0' then redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1]) else redis.call('ZREM', KEYS[2], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 5000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 5000, '+inf')
redis.call('PEXPIRE', KEYS[2], 60000)
return { redis.call('ZCARD', KEYS[1]), now, there, redis.call('ZCOUNT', KEYS[2], '(' .. ARGV[4], '+inf') }`);

/**
 * A gateway counts as one while its last heartbeat is younger than this
 * (docs/reference/store.md#shares).
 */
const COUNTED_MS = 5_000;
const LEAVE_LATE_MS = 500;

/**
 * Whether this gateway owes the store anything, by instants of the store's clock. `settledMs`: it
 * owes nothing, and every decision that it asked for before then has its answer; 0 where it owes. A
 * heartbeat may lie in the socket of a store that stands still, so that the instant at which the
 * store reads it says nothing. `sinceMs`: the instant to compare those of the others with.
 */
export type DebtState = { readonly settledMs: number; readonly sinceMs: number };
const UNSETTLED: DebtState = { settledMs: 0, sinceMs: 0 };

export type Heartbeat = {
  /** Gateways with a heartbeat in the 5 s before this gateway's last one; at least 1. */
  gateways(): number;
  /**
   * Beats once: a write, so it says whether the store works. In another bucket of a Cluster than 0,
   * where the gateways are counted, it says no more than that. Gives how many gateways owe nothing
   * that is older than `sinceMs`. Rejects when no answer comes in time.
   */
  beat(lateMs: number, bucket?: number, debts?: DebtState): Promise<number>;
  /** This gateway counts no more. Never rejects. */
  leave(): Promise<void>;
};

/** Tells the store that this gateway lives, and learns how many do; the caller beats the time. */
export function createHeartbeat(
  { link, clockOf }: Pick<QuotaClient, "link" | "clockOf">,
  prefix: string,
): Heartbeat {
  const id = randomUUID();
  let counted = 1;
  /** After a gap the others are not back yet: they count as before, for as long as they may take. */
  let held = { gateways: 1, untilMs: 0 };
  const gateways = () => {
    return performance.now() < held.untilMs ? Math.max(counted, held.gateways) : counted;
  };
  const send = (alive: 1 | 0, bucket: number, { settledMs, sinceMs }: DebtState) => {
    const keys = ["gateways", "settled", "form"].map((of) => `${prefix}:{${bucket}}:${of}`);
    const args = [keys.length, ...keys, id, alive, settledMs, sinceMs];
    return runScript(link, BEAT, keys[0] as string, args);
  };

  return {
    gateways,
    beat: async (lateMs, bucket = 0, debts = UNSETTLED) => {
      const sentMs = performance.now();
      const reply = await withTimeout(send(1, bucket, debts), lateMs);
      const [count, nowMs, there, settled] = reply as [number, number, number, number];
      clockOf(bucket).learn(sentMs, performance.now(), nowMs);
      if (bucket !== 0) return 0;
      if (there === 0) held = { gateways: gateways(), untilMs: performance.now() + COUNTED_MS };
      counted = Math.max(1, count);
      return settled;
    },
    leave: async () => {
      await withTimeout(send(0, 0, UNSETTLED), LEAVE_LATE_MS).catch(() => undefined);
    },
  };
}
