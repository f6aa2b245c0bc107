-- Adds refused requests to days of accounts. Follows account.lua and history.lua.
--
-- KEYS    one hash per account
-- ARGV 1  the clock, see time.lua
--      2  how many ms the usage of each day is kept
--         then one text per key: "day requests"
-- If the month of an account is on another node, its refused requests are not counted, because no
-- limit depends on them.

local now, late = clock(ARGV[1])
if late then return late end

-- A number that is none is added to nothing, and Redis asks for rights and memory before it reads it.
-- Its refusal of a right names the script, in which it could have come after a write.
local why = pcall('HINCRBY', KEYS[1], '?', '?').err
if not find(why, 'integer', 1, true) and not is_moving(KEYS[1]) then
  return redis.error_reply(find(why, 'script', 1, true) and "NOPERM to run the 'hincrby' command" or why)
end

local kept = tonumber(ARGV[2])
for i, key in ipairs(KEYS) do
  local day, requests = match(ARGV[i + 2], '^(%d+) (%d+)$')
  local hash, field, month = place(key, tonumber(day))
  local life = month_start(month + 1) + kept - now
  increase_day(hash, field + REFUSED, tonumber(requests), life)
end
return now
