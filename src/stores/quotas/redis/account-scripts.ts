import { readFileSync } from "node:fs";
import { defineScript, type Script } from "../../redis/script.ts";
import { WINDOWS_IN_LUA } from "./window-fields.ts";

/** One script of the files of lua/ that are named, behind what all that read accounts share. */
export function accountScript(...files: readonly string[]): Script {
  const texts = ["account", ...files].map((file) => {
    return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
  });
  return defineScript([WINDOWS_IN_LUA, ...texts].join("\n"));
}

/** Sets running windows to 0: see lua/reset.lua. */
export const RESET_SCRIPT = accountScript("reset");

/** Ends a ban and forgets offences and strikes. ARGV: the test clock in ms, or -1. 1: there was one. */
export const LIFT_BAN_SCRIPT = defineScript(`
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local ban = redis.pcall('HGET', KEYS[1], 'b')
local ends = type(ban) == 'string' and tonumber(string.match(ban, '^(%d+) '))
if not ends or ends <= now then return 0 end
redis.call('HDEL', KEYS[1], 'b', 'k')
return 1`);

/**
 * Bans an account. KEYS: its hash. ARGV: the test clock in ms, or -1; the length; the field of the
 * window that tells it; how long the hash is kept after the end of the ban. The reply is the ban's
 * end, and the offences before it.
 */
export const BAN_SCRIPT = defineScript(`
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local ends = now + tonumber(ARGV[2])
local ban = redis.pcall('HGET', KEYS[1], 'b')
if type(ban) == 'table' then redis.call('DEL', KEYS[1]) end
local offences = type(ban) == 'string' and string.match(ban, ' (%d+)$') or '0'
redis.call('HSET', KEYS[1], 'b', string.format('%.0f %s %s %s', ends, ARGV[2], ARGV[3], offences))
redis.call('HDEL', KEYS[1], 'k')
local kept = ends + tonumber(ARGV[4]) - now
if redis.call('PTTL', KEYS[1]) < kept then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', kept)) end
return { string.format('%.0f', ends), offences }`);

/** Counts an event and publishes it with its number. KEYS: the number. ARGV: the channel, the text. */
export const PUBLISH_SCRIPT = defineScript(`
local version = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], string.format('%.0f %s', version, ARGV[2]))
return version`);

/**
 * Sets a marker unless another gateway has set it. KEYS: the marker. ARGV: this gateway, and the life in ms.
 * Returns 1 where the marker is this gateway's.
 */
export const MARK_SCRIPT = defineScript(`
local by = redis.call('HGET', KEYS[1], 'by')
if by then return by == ARGV[1] and 1 or 0 end
redis.call('HSET', KEYS[1], 'by', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`);
