-- Usage by UTC day (docs/reference/history.md#in-redis): a hash for each account and month in the slot
-- of the account, "prefix:h{bucket}:environment:account:D", where D is the month's first day in days
-- since 1970. Its fields are numbers, 3 for each day of the month from 0 on: the requests admitted,
-- the units charged beyond one for each of these, the requests refused. Redis keeps such a hash as a
-- list of small numbers, at most 24 bytes a day. Field p is the plan of the last request that was
-- admitted. If the plan changes on day D of the month, counted from 0, pD is the plan before that
-- day. The units of each meter are numbers too, one for each day from 100 on for the first meter of the
-- month, from 200 on for the second, ...; field #tokens is the number of the meter tokens, and field #
-- how many there are.
-- Follows time.lua. history.lua has everything that only a few calls need.

local find = string.find
local ADMITTED, BEYOND, REFUSED = 0, 1, 2

-- Whether a number of a day was damaged since this was last set to false.
local day_repaired = false

-- Adds to a number. One that is not a number is damaged, and restarts at 0. Returns nil if nothing
-- can be added: the slot is on its way to another node and this key is not on this one, or a
-- right is missing.
local function increase(hash, field, by)
  local sum = pcall('HINCRBY', hash, field, by)
  if type(sum) == 'number' then
    has_counted = true
    return sum
  end
  local cleared
  if find(sum.err, 'WRONGTYPE', 1, true) then
    cleared = pcall('DEL', hash)
  elseif find(sum.err, 'integer', 1, true) or find(sum.err, 'overflow', 1, true) then
    cleared = pcall('HDEL', hash, field)
  end
  if type(cleared) ~= 'number' then return nil end
  day_repaired, has_counted = true, true
  return call('HINCRBY', hash, field, by)
end

-- The hash of the account's month that holds a day, counted since 1970, the first field of the day,
-- and the month. Cached, because most calls ask for the same day again.
local known_day, known_text, known_field, known_month
local function place(key, day)
  if day ~= known_day then
    local month = month_of(day * DAY)
    local first = month_start(month) / DAY
    known_day, known_month = day, month
    known_text, known_field = format(':%.0f', first), 3 * (day - first)
  end
  return string.gsub(key, ':{', ':h{', 1) .. known_text, known_field, known_month
end
