-- Usage by UTC day (docs/reference/history.md#in-redis): a hash for each account and month in the slot
-- of the account, "prefix:h{bucket}:environment:account:D", where D is the month's first day in days
-- since 1970. Its fields are numbers, 3 for each day of the month from 0 on: the requests admitted,
-- the units charged beyond one for each of these, the requests refused. Redis keeps such a hash as a
-- list of small numbers, at most 24 bytes a day. Field p is the plan of the last request that was
-- admitted. If the plan changes on day D of the month, counted from 0, pD is the plan before that
-- day. The units of each meter are numbers too, one for each day from 100 on for the first meter of the
-- month, from 200 on for the second, ...; field #tokens is the number of the meter tokens, and field #
-- how many there are.
-- Follows account.lua.

local find = string.find
local ADMITTED, BEYOND, REFUSED = 0, 1, 2

-- Adds to a number. One that is not a number is damaged, and restarts at 0. Returns nil if nothing
-- can be added: the slot is on its way to another node and this key is not on this one, or the
-- right is missing.
local function increase(hash, field, by)
  local sum = pcall('HINCRBY', hash, field, by)
  if type(sum) == 'number' then return sum end
  if find(sum.err, 'WRONGTYPE', 1, true) then
    call('DEL', hash)
  elseif find(sum.err, 'integer', 1, true) or find(sum.err, 'overflow', 1, true) then
    call('HDEL', hash, field)
  else
    return nil
  end
  return call('HINCRBY', hash, field, by)
end

-- Adds to a number of a day. Returns nil if the hash is on another node.
local function increase_day(hash, field, by, life)
  local sum = increase(hash, field, by)
  -- The first number of a day may have created the hash.
  if sum == by then
    if call('HLEN', hash) == 1 and is_moving(hash) then
      call('DEL', hash)
      return nil
    end
    if call('PTTL', hash) < life then call('PEXPIRE', hash, format('%.0f', max(life, 1))) end
  end
  return sum
end

-- The hash of the account's month that holds a day, counted since 1970, the first field of the day,
-- and how long the hash is kept from now on. Cached, because most calls ask for the same day again.
local known_day, known_text, known_field, known_end
local function place(key, day, kept, now)
  if day ~= known_day then
    local month = month_of(day * DAY)
    local first = month_start(month) / DAY
    known_day, known_end = day, month_start(month + 1)
    known_text, known_field = format(':%.0f', first), 3 * (day - first)
  end
  return string.gsub(key, ':{', ':h{', 1) .. known_text, known_field, known_end + kept - now
end

-- Keeps the plan of a day whose first field is `field`. The first change on a day records the plan
-- that was in force before it. Nothing here fails the call.
local function keep_plan(hash, field, plan)
  local last = pcall('HGET', hash, 'p')
  if last == plan or type(last) == 'table' then return end
  local before = 'p' .. field / 3
  if last and not pcall('HGET', hash, before) then pcall('HSET', hash, before, last) end
  pcall('HSET', hash, 'p', plan)
end

-- Keeps the plan of a day that is over, whose first field is `field`, and leaves those of all other
-- days. The plan of day N is in the next field pM, M > N, else in field p. Nothing here fails the call.
local LAST_OF_MONTH = 30
local function keep_past_plan(hash, field, plan)
  local day = field / 3
  local found
  for later = day + 1, LAST_OF_MONTH do
    found = found or pcall('HGET', hash, 'p' .. later)
  end
  found = found or pcall('HGET', hash, 'p')
  if found == plan or type(found) == 'table' then return end
  if found and not pcall('HGET', hash, 'p' .. day) then pcall('HSET', hash, 'p' .. day, found) end
  local keeper = found and day < LAST_OF_MONTH and 'p' .. (day + 1) or 'p'
  pcall('HSET', hash, keeper, plan)
end

-- Returns false if nothing was added. An empty `plan` is unknown.
local function add_to_day(key, day, admitted, beyond, kept, now, plan)
  local hash, field, life = place(key, day, kept, now)
  local sum = increase_day(hash, field + ADMITTED, admitted, life)
  if not sum then return false end
  -- No count goes below 0.
  if sum < 0 then increase(hash, field + ADMITTED, -sum) end
  if beyond ~= 0 then increase(hash, field + BEYOND, beyond) end
  if plan ~= '' then
    local keep = day < floor(now / DAY) and keep_past_plan or keep_plan
    keep(hash, field, plan)
  end
  return true
end

-- The field of a meter on the day whose first field is `field`; nil if the hash is on another node.
local function meter_field(hash, field, meter, life)
  local number = tonumber(pcall('HGET', hash, meter) or '')
  if not number then
    number = increase_day(hash, '#', 1, life)
    if not number then return nil end
    call('HSET', hash, meter, format('%.0f', number))
  end
  return 100 * number + field / 3
end

-- Adds units of a meter, "#tokens", to a day; they may be below 0. Returns false if the hash is on
-- another node.
local function add_to_meter(key, day, meter, units, kept, now)
  local hash, first, life = place(key, day, kept, now)
  local field = meter_field(hash, first, meter, life)
  local sum = field and increase_day(hash, field, units, life)
  if not sum then return false end
  if sum < 0 then increase(hash, field, -sum) end
  return true
end

-- Keeps numbers that could not be added to a day in field y of the account, "day admitted beyond
-- ...", the latest day last.
local function keep_waiting(key, day, admitted, beyond, kept)
  local waiting = call('HGET', key, 'y')
  local before, last, sum, further = match(waiting or '', '^(.-)(%d+) (-?%d+) (-?%d+)$')
  if tonumber(last) == day then
    waiting, admitted, beyond = before, tonumber(sum) + admitted, tonumber(further) + beyond
  else
    waiting = waiting and waiting .. ' ' or ''
  end
  call('HSET', key, 'y', waiting .. format('%.0f %.0f %.0f', day, admitted, beyond))
  if call('PTTL', key) < kept then call('PEXPIRE', key, format('%.0f', kept)) end
end

-- Adds the number of requests that were admitted on a day, and the units that were charged for
-- them. The charge has already happened, so nothing here fails the call. Both are below 0 for
-- requests that turned out not to be admitted. `kept` is how long a day is remembered, in ms.
local function remember_on(key, day, admitted, units, kept, now, plan)
  if not add_to_day(key, day, admitted, units - admitted, kept, now, plan) then
    keep_waiting(key, day, admitted, units - admitted, kept)
  end
end

-- Adds units of a meter that were held or settled on a day. Those that cannot be added now wait in
-- field y of the hash of the meters, "#tokens day units ...".
local function remember_meter(key, day, meter, units, kept, now)
  if units == 0 or add_to_meter(key, day, meter, units, kept, now) then return end
  local hash = meters_of(key)
  local waiting = call('HGET', hash, 'y')
  call('HSET', hash, 'y', (waiting and waiting .. ' ' or '') .. format('%s %.0f %.0f', meter, day, units))
  if call('PTTL', hash) < kept then call('PEXPIRE', hash, format('%.0f', kept)) end
end

-- Adds what a request took from each of its meters; `holds` has it at the index of each window.
local function remember_holds(key, fields, holds, granted, kept, now)
  local hash, told = meters_of(key), {}
  local waiting = call('HGET', hash, 'y')
  if waiting then call('HDEL', hash, 'y') end
  for meter, day, units in string.gmatch(waiting or '', '(#[%w-]+) (%d+) (-?%d+)') do
    remember_meter(key, tonumber(day), meter, tonumber(units), kept, now)
  end
  for i, field in ipairs(fields) do
    local meter = sub(field, 1, -2)
    if holds[i] and not told[meter] then
      remember_meter(key, floor(now / DAY), meter, granted * holds[i], kept, now)
      told[meter] = true
    end
  end
end

local function remember(key, admitted, units, kept, now, plan)
  remember_on(key, floor(now / DAY), admitted, units, kept, now, plan)
end

-- Adds the numbers that wait in the account to their days.
local function remember_waiting(key, waiting, kept, now)
  local left = ''
  for day, admitted, beyond in string.gmatch(waiting, '(%d+) (-?%d+) (-?%d+)') do
    if not add_to_day(key, tonumber(day), tonumber(admitted), tonumber(beyond), kept, now, '') then
      left = left .. format('%s%s %s %s', left == '' and '' or ' ', day, admitted, beyond)
    end
  end
  if left == '' then call('HDEL', key, 'y') elseif left ~= waiting then call('HSET', key, 'y', left) end
end
