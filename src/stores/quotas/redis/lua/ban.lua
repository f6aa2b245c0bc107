-- Bans an account by hand. Follows account.lua and ban-cause.lua.
--
-- KEYS 1  the hash of the account
-- ARGV 1  the clock, see time.lua
--      2  the length, in ms
--      3  the field of the window that a refusal names
--      4  how long offences, and so the hash, are kept after the end of the ban, in ms
--      5  the reason, which may be empty
-- Returns now, the ban's end, and the offences before it.

local now, late = clock(ARGV[1])
if late then return late end

local key, length, field = KEYS[1], ARGV[2], ARGV[3]
local ends = now + tonumber(length)
local ban = pcall('HGET', key, 'b')
if has_other_type(ban) then call('DEL', key) end
local offences = '0'
if type(ban) == 'string' then
  -- Offences are forgotten together, that long after the end of the last ban.
  local last, earned = match(ban, '^(%d+) .* (%d+)$')
  if last and tonumber(last) + tonumber(ARGV[4]) > now then offences = earned end
end
ask_permission(key, call('PTTL', key))
call('HSET', key, 'b', format('%.0f %s %s %s', ends, length, field, offences))
call('HDEL', key, 'k')
local kept = ends + tonumber(ARGV[4]) - now
if call('PTTL', key) < kept then call('PEXPIRE', key, format('%.0f', kept)) end
keep_cause(key, ends, now, 'h ' .. ARGV[5], kept)
return { format('%.0f', now), format('%.0f', ends), offences }
