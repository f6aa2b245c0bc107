-- Ends a ban by hand, and forgets offences, strikes and the cause of the ban. Follows account.lua
-- and ban-cause.lua.
--
-- KEYS 1  the hash of the account
-- ARGV 1  the clock, see time.lua
-- Returns now, as a negative number if no ban was in force.

local now, late = clock(ARGV[1])
if late then return late end

local ban = pcall('HGET', KEYS[1], 'b')
local ends = not has_other_type(ban) and ban and tonumber(match(ban, '^(%d+) '))
if not ends or ends <= now then return -now end
call('HDEL', KEYS[1], 'b', 'k')
pcall('DEL', cause_key(KEYS[1]))
return now
