import { readFileSync } from "node:fs";
import { defineScript, defineTaggedScript, type Script } from "../../redis/script.ts";
import { WINDOWS_IN_LUA } from "./window-fields.ts";

/**
 * A script made of the named files of lua/, after the parts that every script of accounts shares.
 */
export function accountScript(...files: readonly string[]): Script {
  return defineTaggedScript(
    [WINDOWS_IN_LUA, ...["time", "day", "window", "account", ...files].map(textOf)].join("\n"),
  );
}

/**
 * The script that decides. Redis runs the whole text of a script for each call, so what only a few
 * calls need is inside a function that these run (docs/decisions/hot-path.md).
 */
export function decideScript(): Script {
  const first = ["time", "day", "window", "plans"].map(textOf);
  const rare = ["account", "lowered", "history", "ban-cause", "decide"].map(textOf);
  const whole = [WINDOWS_IN_LUA, ...first, "local function careful()", ...rare];
  whole.push("return decider(), remember_on", "end", textOf("charge"));
  return defineScript(whole.join("\n"));
}

function textOf(file: string): string {
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
}

/** Sets running windows to 0: see lua/reset.lua. */
export const RESET_SCRIPT = accountScript("lowered", "reset");

/** Bans an account by hand: see lua/ban.lua. */
export const BAN_SCRIPT = accountScript("ban-cause", "ban");

/** Ends a ban by hand: see lua/lift-ban.lua. */
export const LIFT_BAN_SCRIPT = accountScript("ban-cause", "lift-ban");

/**
 * Removes a key that never exists. Redis that is out of memory refuses a script whose first write
 * takes memory, and lets one go on that has written. A change that was made must still be reported:
 * an audit takes a reset that no log has for a drift.
 */
export const WRITE_WITHOUT_MEMORY = "redis.pcall('DEL', KEYS[1] .. '?')";

/**
 * Counts an event, logs it under its number and publishes it. KEYS: the number. ARGV: the channel,
 * the text, the log and its text, and the most texts that the log keeps. Returns the error of a user
 * who may not publish, or an empty text. The number by itself is enough for gateways to learn of the
 * event, within a second. Only after a number that went back is the log needed, so an error of it
 * fails nothing. A value that is no number is damage, and numbers begin again. If the event cannot be
 * counted, the last text of ARGV, if there is one, is published with the last number, and the error is
 * returned.
 */
export const PUBLISH_SCRIPT = defineTaggedScript(`
${WRITE_WITHOUT_MEMORY}
local version = redis.pcall('INCR', KEYS[1])
local why = type(version) == 'table' and version.err or ''
if string.find(why, 'integer') or string.find(why, 'overflow') or string.find(why, 'WRONGTYPE') then
  redis.call('DEL', KEYS[1])
  version = redis.call('INCR', KEYS[1])
elseif why ~= '' then
  local last = redis.pcall('GET', KEYS[1])
  if ARGV[6] and type(last) ~= 'table' then
    redis.pcall('PUBLISH', ARGV[1], string.format('%s %s', last or '0', ARGV[6]))
  end
  return version
end
redis.pcall('HSET', ARGV[3], string.format('%.0f', version), ARGV[4])
redis.pcall('HDEL', ARGV[3], string.format('%.0f', version - ARGV[5]))
local heard = redis.pcall('PUBLISH', ARGV[1], string.format('%.0f %s', version, ARGV[2]))
return type(heard) == 'table' and heard.err or ''`);

/**
 * Sets a marker unless another gateway has set it for the same change, or for a later one. KEYS: the
 * marker. ARGV: this gateway, the life in ms, how many ms ago it saw the change, and how many ms after
 * the instant of the marker a change is a new one. Ages are sent, not instants, because the clocks of
 * gateways differ. Returns 1 if the marker is this gateway's.
 */
export const MARK_SCRIPT = defineTaggedScript(`
local time = redis.call('TIME')
local seen = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3]
local set = redis.call('HMGET', KEYS[1], 'by', 'seen')
local isNew = not set[1] or set[2] and seen >= set[2] + ARGV[4]
if not isNew and set[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'by', ARGV[1], 'seen', string.format('%.0f', seen))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`);
