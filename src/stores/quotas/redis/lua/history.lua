-- What is kept of usage by UTC day: see day.lua. Follows that and account.lua.

-- Adds to a number of a day. Returns nil if the hash is on another node. With a `sum` it was added already.
-- The charge has happened, and a late one that fails is sent again. So it does not fail here for the
-- right to HLEN, which it may be the first to need.
local function increase_day(hash, field, by, life, sum)
  sum = sum or increase(hash, field, by)
  -- The first number of a day may have created the hash.
  if sum == by then
    if pcall('HLEN', hash) == 1 and is_moving(hash) then
      call('DEL', hash)
      return nil
    end
    if call('PTTL', hash) < life then pcall('PEXPIRE', hash, format('%.0f', max(life, 1))) end
  end
  return sum
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

-- Returns false if nothing was added. An empty `plan` is unknown. `sum` as for increase_day.
local function add_to_day(key, day, admitted, beyond, kept, now, plan, sum)
  local hash, field, month = place(key, day)
  local life = month_start(month + 1) + kept - now
  sum = increase_day(hash, field + ADMITTED, admitted, life, sum)
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
    ask_first('HSET', hash, meter, format('%.0f', number))
  end
  return 100 * number + field / 3
end

-- Adds units of a meter, "#tokens", to a day; they may be below 0. Returns false if the hash is on
-- another node.
local function add_to_meter(key, day, meter, units, kept, now)
  local hash, first, month = place(key, day)
  local life = month_start(month + 1) + kept - now
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
  ask_first('HSET', key, 'y', waiting .. format('%.0f %.0f %.0f', day, admitted, beyond))
  if call('PTTL', key) < kept then pcall('PEXPIRE', key, format('%.0f', kept)) end
end

-- Adds the number of requests that were admitted on a day, and the units that were charged for
-- them. The charge has already happened, so nothing here fails the call. Both are below 0 for
-- requests that turned out not to be admitted. `kept` is how long a day is remembered, in ms. `sum`, if
-- given: the requests of the day, where they were added already.
local function remember(key, day, admitted, units, kept, now, plan, sum)
  if not add_to_day(key, day, admitted, units - admitted, kept, now, plan, sum) then
    keep_waiting(key, day, admitted, units - admitted, kept)
  end
end

-- Adds units of a meter that were held or settled on a day. Those that cannot be added now wait in
-- field y of the hash of the meters, "#tokens day units ...".
local function remember_meter(key, day, meter, units, kept, now)
  if units == 0 or add_to_meter(key, day, meter, units, kept, now) then return end
  local hash = meters_of(key)
  local waiting = call('HGET', hash, 'y')
  ask_first('HSET', hash, 'y', (waiting and waiting .. ' ' or '') .. format('%s %.0f %.0f', meter, day, units))
  if call('PTTL', hash) < kept then pcall('PEXPIRE', hash, format('%.0f', kept)) end
end

-- Whether what waits in a hash can leave it. It is added to its days only then, so that it is added once.
local function may_remove(hash)
  return type(pcall('HDEL', hash, '?')) == 'number'
end

-- Adds what a request took from each of its meters; `holds` has it at the index of each window.
local function remember_holds(key, fields, holds, granted, kept, now)
  local hash, told = meters_of(key), {}
  local waiting = call('HGET', hash, 'y')
  if waiting and not may_remove(hash) then waiting = nil end
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

-- Adds the numbers that wait in the account to their days.
local function remember_waiting(key, waiting, kept, now)
  if not may_remove(key) then return end
  local left = ''
  for day, admitted, beyond in string.gmatch(waiting, '(%d+) (-?%d+) (-?%d+)') do
    if not add_to_day(key, tonumber(day), tonumber(admitted), tonumber(beyond), kept, now, '') then
      left = left .. format('%s%s %s %s', left == '' and '' or ' ', day, admitted, beyond)
    end
  end
  if left == '' then call('HDEL', key, 'y') elseif left ~= waiting then ask_first('HSET', key, 'y', left) end
end
