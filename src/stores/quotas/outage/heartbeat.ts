import { randomUUID } from "node:crypto";
import { defineTaggedScript, runScript } from "../../redis/script.ts";
import { isInMotion, replyNumber, toStoreFailure, withTimeout } from "../../redis/store-failure.ts";
import type { QuotaClient } from "../redis/quota-client.ts";

/**
 * The form of accounts in the store, `lua/account.lua`, that this gateway reads and writes. It
 * rises if gateways of the previous version would misread it (docs/operations.md#upgrades).
 */
const ACCOUNTS_FORM = 1;

/** The greatest age of the last beat of a gateway that counts (docs/reference/store.md#shares). */
const COUNTED_MS = 5_000;

/**
 * Asks for the right to HDEL, which strikes and bans need: a store that lacks it is unreachable until
 * the right is there, and does not come and go with the requests that are refused. Redis 7.0 does not
 * name the command that a script may not run.
 */
const ASK_HDEL = `local removed = redis.pcall('HDEL', KEYS[#KEYS], '?')
if type(removed) == 'table' then
  if not string.find(removed.err, ' run ', 1, true) then return removed end
  return redis.error_reply("NOPERM no permission to run the 'hdel' command")
end`;

/**
 * KEYS: the gateways by their last heartbeat; those without debts, by the instant up to which that
 * is certain; the hash that holds the form of accounts, written by the very first heartbeat; a hash
 * that names each gateway, "beat settled". If the form is newer than this gateway's, the script
 * refuses before it writes anything. ARGV: this gateway; 1 to live or 0 to leave; the instant of
 * the store's clock up to which it certainly owes nothing, or 0. Returns the number of gateways of
 * the last 5 s, the store's now, whether this one was still among them (if not, the others may be
 * missing too), and then the name of each other one with its instant. The first write is one that
 * needs memory: after any other write Redis does not stop a script for lack of memory.
 */
const BEAT = defineTaggedScript(`
local form = tonumber(redis.call('HGET', KEYS[3], 'version') or 0)
if form > ${ACCOUNTS_FORM} then return redis.error_reply('NEWER ' .. form) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local there = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
if ARGV[2] == '1' then redis.call('ZADD', KEYS[1], now, ARGV[1]) else redis.call('ZREM', KEYS[1], ARGV[1]) end
${ASK_HDEL}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ${COUNTED_MS})
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ${COUNTED_MS}, '+inf')
redis.call('PEXPIRE', KEYS[1], 60000)
if form < ${ACCOUNTS_FORM} then redis.call('HSET', KEYS[3], 'version', ${ACCOUNTS_FORM}) end
if ARGV[2] == '1' and ARGV[3] ~= '0' then redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1]) else redis.call('ZREM', KEYS[2], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ${COUNTED_MS})
redis.call('ZREMRANGEBYSCORE', KEYS[2], now + ${COUNTED_MS}, '+inf')
redis.call('PEXPIRE', KEYS[2], 60000)
local reply = { redis.call('ZCARD', KEYS[1]), now, there }
local peers = redis.call('HGETALL', KEYS[4])
for i = 1, #peers, 2 do
  local beat, settled = string.match(peers[i + 1], '^(%d+) (%d+)$')
  if peers[i] ~= ARGV[1] then
    if not beat or math.abs(now - beat) > ${COUNTED_MS} then
      redis.call('HDEL', KEYS[4], peers[i])
    else
      reply[#reply + 1], reply[#reply + 2] = peers[i], tonumber(settled)
    end
  end
end
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[4], ARGV[1], string.format('%.0f %s', now, ARGV[3]))
  redis.call('PEXPIRE', KEYS[4], 60000)
else
  redis.call('HDEL', KEYS[4], ARGV[1])
end
return reply`);

/**
 * KEYS: the hash that holds the form of accounts, which the script judges as the one above does.
 * Returns the store's now. It writes one key alone, so that the two nodes between which a slot moves
 * answer it too: one of them has the key.
 */
const PROBE = defineTaggedScript(`
local form = tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
if form > ${ACCOUNTS_FORM} then return redis.error_reply('NEWER ' .. form) end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'version', ${ACCOUNTS_FORM})
${ASK_HDEL}
return time[1] * 1000 + math.floor(time[2] / 1000)`);

const LEAVE_LATE_MS = 500;

/** The hashes and sets of BEAT, in the order of its KEYS. */
const KEYS = ["gateways", "settled", "form", "peers"];

/** Every other gateway, and the instant of the store's clock up to which it owes nothing, or 0. */
export type Peers = ReadonlyMap<string, number>;

const NO_PEERS: Peers = new Map();

export type Heartbeat = {
  /**
   * The number of gateways with a heartbeat in the 5 s before this gateway's last one; at least 1.
   */
  gateways(): number;
  /** The names of the others among them; undefined before the first answer. */
  peers(): ReadonlySet<string> | undefined;
  /**
   * Sends one heartbeat: a write, so it says whether the store works. The gateways are counted in
   * bucket 0. In another bucket of a Cluster, and while the slot of bucket 0 moves, a heartbeat says
   * only whether that bucket works, and the gateways count as before.
   * `settledMs`: up to this instant of the store's clock this gateway owes nothing, and every
   * decision that it requested has its answer; 0 if it owes. The instant at which the store reads a
   * heartbeat does not say that, because it may have lain in the socket of a stalled store. Rejects
   * if no answer arrives in time.
   */
  beat(lateMs: number, bucket?: number, settledMs?: number): Promise<Peers>;
  /** Removes this gateway from the count. Never rejects. */
  leave(): Promise<void>;
};

/** The gateways that count as such: their number, and the names of the others, if any is known. */
type LivePeers = { readonly gateways: number; readonly peers: ReadonlySet<string> | undefined };

/**
 * Tells the store that this gateway lives, and learns which others do. The caller sets the pace.
 */
export function createHeartbeat(
  { link, clockOf }: Pick<QuotaClient, "link" | "clockOf">,
  prefix: string,
): Heartbeat {
  const id = randomUUID();
  let counted: LivePeers = { gateways: 1, peers: undefined };
  /**
   * After a gap the others are not back yet: they count as before, for as long as they may take.
   */
  let held = { ...counted, untilMs: 0 };
  const isHeld = () => performance.now() < held.untilMs;
  const gateways = () => (isHeld() ? Math.max(counted.gateways, held.gateways) : counted.gateways);
  const peers = () => {
    return isHeld() ? new Set([...(held.peers ?? []), ...(counted.peers ?? [])]) : counted.peers;
  };
  const send = (alive: 1 | 0, settledMs: number) => {
    const keys = KEYS.map((of) => `${prefix}:{0}:${of}`);
    return runScript(link, BEAT, keys[0] as string, [keys.length, ...keys, id, alive, settledMs]);
  };
  const probe = async (lateMs: number, bucket: number) => {
    const key = `${prefix}:{${bucket}}:form`;
    const sentMs = performance.now();
    const nowMs = await withTimeout(runScript(link, PROBE, key, [1, key]), lateMs);
    clockOf(bucket).learn(sentMs, performance.now(), replyNumber(nowMs));
    return NO_PEERS;
  };

  return {
    gateways,
    peers,
    beat: async (lateMs, bucket = 0, settledMs = 0) => {
      if (bucket !== 0) return probe(lateMs, bucket);
      const sentMs = performance.now();
      const reply = await withTimeout(send(1, settledMs), lateMs).catch((error: unknown) => {
        if (!isInMotion(toStoreFailure(error))) throw error;
        return undefined;
      });
      if (reply === undefined) return probe(Math.max(0, lateMs - (performance.now() - sentMs)), 0);
      const [count, nowMs, there, ...names] = reply as [number, number, number, ...unknown[]];
      clockOf(0).learn(sentMs, performance.now(), nowMs);
      const all = new Map<string, number>();
      for (let i = 0; i < names.length; i += 2) {
        all.set(names[i] as string, names[i + 1] as number);
      }
      const untilMs = performance.now() + COUNTED_MS;
      if (there === 0) held = { gateways: gateways(), peers: peers(), untilMs };
      counted = { gateways: Math.max(1, count), peers: new Set(all.keys()) };
      return all;
    },
    leave: async () => {
      await withTimeout(send(0, 0), LEAVE_LATE_MS).catch(() => undefined);
    },
  };
}
