-- Runs the batch. It charges accounts in the state that nearly every request finds: the windows are
-- the current ones, with room and no refusal yet, and the hash has no other field and a time to
-- live. The result is the same as that of decide.lua, for a part of the work. Follows plans.lua and
-- careful(), which returns the functions of decide.lua and history.lua. That one is run for the first
-- account of a call that needs them, because what it defines is defined again in each call.

local decide, remember
-- The first field of today in the hash of the month, as text.
local today, today_field = floor(now / DAY), nil
local set, counts = {}, {}

-- Returns false if nothing was done.
local function charge(key, requests, plan)
  if plan.apart then return false end
  local fields, rooms, count, kept = plan.fields, plan.rooms, plan.count, plan.kept
  local texts, running = plan.texts, plan.running
  local units = requests * plan.cost
  local stored = pcall('HMGET', key, unpack(fields, 1, count))
  if stored.err then return false end
  for i = 1, count do
    local text = stored[i]
    if not text then return false end
    running[i] = running[i] or '^' .. texts[i] .. '(%d+) 0$'
    local charged = tonumber(match(text, running[i]))
    if not charged then return false end
    charged = charged + units
    if charged > rooms[i] then return false end
    counts[i], set[2 * i - 1], set[2 * i] = charged, fields[i], texts[i] .. charged .. ' 0'
  end
  if call('HLEN', key) ~= count or call('PTTL', key) < 0 then return false end
  call('HSET', key, unpack(set, 1, 2 * count))
  if kept then
    local hash, field = place(key, today)
    today_field = today_field or format('%.0f', field + ADMITTED)
    local sum = increase(hash, today_field, requests == 1 and '1' or requests)
    -- The first request of a day, and one of another plan than those before, leave more behind.
    if not sum or sum <= requests or (plan.name ~= '' and pcall('HGET', hash, 'p') ~= plan.name) then
      if not decide then decide, remember = careful() end
      remember(key, today, requests, units, tonumber(kept), now, plan.name, sum)
    elseif units ~= requests then
      increase(hash, field + BEYOND, units - requests)
    end
  end

  for i = 1, count do out[n + 1 + i] = counts[i] end
  n = n + count + 2
  out[n] = 0
  return true
end

-- Accounts of several buckets of one node are no KEYS. Redis judges keys that a script names by itself
-- at each command: in a slot that is elsewhere, or on its way, the command fails. So each bucket is
-- tried with a key that is never there, before anything of it is done.
local keys, is_here = KEYS, nil
if #KEYS == 0 then
  keys = {}
  local count = (#ARGV - first_ask) / 2
  for i = 1, count do keys[i] = ARGV[first_ask + count + i] end
  local bucket, found
  is_here = function(key)
    local of = match(key, '^[^}]+')
    if of ~= bucket then bucket, found = of, type(pcall('HLEN', of .. '}?')) == 'number' end
    return found
  end
end

for i = 1, #keys do
  local key = keys[i]
  local ask = tonumber(ARGV[first_ask + i])
  local grants = ask >= 0
  ask = abs(ask)
  local index = ask % 256
  local units = (ask - index) / 256
  local plan = plans[index + 1]
  local at = n + 1
  if is_here and not is_here(key) then
    n = at
    out[at] = -1
  elseif grants and units > 0 and charge(key, units, plan) then
    out[at] = units
  else
    if not decide then decide, remember = careful() end
    decide(key, units, plan, grants)
  end
end
return out
