import { accountScript, script } from "./script.ts";

/** Sets running windows to 0: see lua/reset.lua. */
export const RESET = accountScript("reset");

/** Ends a ban and forgets offences and strikes. ARGV: the test clock in ms, or -1. 1: there was one. */
export const LIFT = script(`
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

/** Counts an event and publishes it with its number. KEYS: the number. ARGV: the channel, the text. */
export const PUBLISH = script(`
local version = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], string.format('%.0f %s', version, ARGV[2]))
return version`);
