-- Reads how far the usage events of accounts were acknowledged. Follows account.lua.
--
-- KEYS    a hash of days by account
-- ARGV 1  the clock, see time.lua
--         then one account each
-- Returns now, then the day of each account.

local now, late = clock(ARGV[1])
if late then return late end

local days = call('HMGET', KEYS[1], unpack(ARGV, 2))
table.insert(days, 1, now)
return days
