-- Runs the batch. It charges accounts in the state that nearly every request finds: the windows have
-- room and no refusal, or are over, or are not there yet, and the hash has no other field. The result
-- is the same as that of decide.lua, for a part of the work. Follows window.lua, plans.lua and
-- careful(), which returns the functions of decide.lua and history.lua. That one is run for the first
-- account of a call that needs them, because what it defines is defined again in each call.

local decide, remember
-- The first field of today in the hash of the month, as text.
local today, today_field = floor(now / DAY), nil
local set, counts = {}, {}

-- How long the hash of an account with this plan is needed: to the end of every window, all of which
-- are those of now.
local function lifetime(plan)
  local last = now
  for i = 1, plan.count do
    last = max(last, window_end(plan.fields[i], plan.starts[i], plan.calendar))
  end
  return last - now + SPARE
end

-- Tells what decide.lua tells of an account that was repaired and has no strike and no ban. Returns the
-- sum, which includes it.
local function tell_repaired(plan, total)
  out[n], total = 1, total + 1
  local told = {}
  for i = 1, plan.count do told[i] = window_end(plan.fields[i], plan.starts[i], plan.calendar) end
  told[#told + 1], told[#told + 2], told[#told + 3], told[#told + 4] = 1, 0, now, 0
  for i = 1, #told do n, total = n + 1, (total + told[i]) % EXACT; out[n] = told[i] end
  return total
end

-- Returns the sum of what it tells, modulo EXACT, or false if nothing was done.
local function charge(key, requests, plan)
  if plan.apart then return false end
  local fields, rooms, count, kept = plan.fields, plan.rooms, plan.count, plan.kept
  local starts, texts, running = plan.starts, plan.texts, plan.running
  local units, total = requests * plan.cost, requests
  local stored = pcall('HMGET', key, unpack(fields, 1, count))
  if stored.err then return false end
  local held, fresh = count, false
  for i = 1, count do
    local text, charged = stored[i], nil
    if text then
      if texts[i] then
        running[i] = running[i] or '^' .. texts[i] .. ' (%d+) 0$'
        charged = tonumber(match(text, running[i]))
      else
        -- A start is read as a number for the first account only: to write it as text costs more.
        local begun, count_text = match(text, '^([1-9]%d*) (%d+) 0$')
        if tonumber(begun) == starts[i] then texts[i], charged = begun, tonumber(count_text) end
      end
      if not charged and (read_window(text) or now) >= starts[i] then return false end
    else
      held = held - 1
    end
    if not charged then
      charged, fresh = 0, true
      texts[i] = texts[i] or format('%.0f', starts[i])
    end
    charged = charged + units
    if charged > rooms[i] then return false end
    total = (total + charged) % EXACT
    counts[i], set[2 * i - 1], set[2 * i] = charged, fields[i], texts[i] .. ' ' .. charged .. ' 0'
  end
  if ask_first('HLEN', key) ~= held then return false end
  local left = ask_first('PTTL', key)
  -- A further account of the call may need what this one does not.
  if fresh or left < 0 or #KEYS ~= 1 then ask_permission(key, left) end
  ask_first('HSET', key, unpack(set, 1, 2 * count))
  if fresh or left < 0 then
    plan.life = plan.life or lifetime(plan)
    if left < plan.life then call('PEXPIRE', key, format('%.0f', plan.life)) end
  end
  day_repaired = false
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
  if day_repaired then total = tell_repaired(plan, total) end
  return total
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
    sum = (sum + EXACT - 1) % EXACT
  else
    local told = grants and units > 0 and charge(key, units, plan)
    if told then
      out[at], sum = units, (sum + told) % EXACT
    else
      if not decide then decide, remember = careful() end
      decide(key, units, plan, grants)
    end
  end
end
out[2] = sum
return out
