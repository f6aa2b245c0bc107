-- decide() of core/quota.ts, said to Redis: ban first, then every window, charged all or none, for a
-- batch of accounts in one atomic call. Each step carries the name that it has there.
--
-- KEYS    one hash per account, as in account.lua, which precedes this in one script. Instants in ms.
-- ARGV 1  the test clock in ms; below 0 the clock of Redis holds, and below -1 only up to that instant
--      2  the ban policy, "strikes within grace forgetAfter", or "" when bans are off
--      3  the length of the first ban, of the second, ...; the last one holds from there on
--      4  how many plans follow; each "window limit window limit ..."
--         then one number per key: units * 256 + plan, plans counted from 0
-- Returns now, then for each key: granted, the count of each window, and 0 when all else is as for
-- an account without strikes and bans in the windows of now; otherwise 1, the reset of each window,
-- repaired, strikes, the next strike's instant and 0 or 1 for a ban: until, length, window, offences.

local now = tonumber(ARGV[1])
if now < 0 then
  local latest = -now
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
  if latest > 1 and now > latest then
    return redis.error_reply('LATE these requests have been refused meanwhile')
  end
end

local bans = ARGV[2] ~= ''
local need, within, grace, forget_after, keep = 0, 0, 0, 0, 0
if bans then
  local a, b, c, d = match(ARGV[2], '^(%S+) (%S+) (%S+) (%S+)$')
  need, within, grace, forget_after = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  keep = max(within, grace)
end

local function ban_length(offences)
  local length, seen = 0, 0
  for each in string.gmatch(ARGV[3], '%S+') do
    length, seen = tonumber(each), seen + 1
    if seen > offences then break end
  end
  return length
end

-- Where each window of now begins and ends: the same for every account of the batch.
local starts, ends, starts_text = {}, {}, {}
local plans = {}
for i = 1, tonumber(ARGV[4]) do
  local windows, limits, count = {}, {}, 0
  for window, limit in string.gmatch(ARGV[4 + i], '(%a) (%d+)') do
    count = count + 1
    windows[count], limits[count] = window, tonumber(limit)
    if not starts[window] then
      local start = window == 'M' and month_start(now, 0) or now - now % LENGTH[window]
      starts[window], ends[window] = start, window_end(window, start)
      starts_text[window] = format('%.0f ', start)
    end
  end
  plans[i] = { windows, limits, count }
end
local first_ask = 4 + #plans

local out, n = { now }, 1
local function tell(value)
  n = n + 1
  out[n] = value
end

-- The earliest instant of the next strike: strictly after the grace of the window, and spaced.
local function due_at(refused, strikes)
  local due = refused + grace + 1
  local last = strikes[#strikes]
  if last and last + grace > due then return last + grace end
  return due
end

local function recent(strikes)
  local count = 0
  for i = 1, #strikes do
    if now - strikes[i] < within then count = count + 1 end
  end
  return count
end

-- The account under decision; the tables serve one account after the other.
local NOTHING = { false, false, false, false, false, false, false }
local NO_STRIKES = {}
local start, used, refused, changed, set = {}, {}, {}, {}, {}

-- How long the hash is needed: to the end of every window, strike and ban in it.
local function lifetime(stored, windows, count, strikes, ban)
  local last = now
  for i = 1, count do
    last = max(last, start[i] == starts[windows[i]] and ends[windows[i]] or window_end(windows[i], start[i]))
    stored[INDEX[windows[i]] + 1] = false
  end
  for i = 1, 5 do
    local begun = stored[i] and read_window(stored[i])
    if begun then last = max(last, begun + (LENGTH[FIELDS[i]] or 31 * DAY)) end
  end
  if strikes[1] then last = max(last, strikes[#strikes] + keep) end
  if ban then last = max(last, ban[1] + forget_after) end
  return last - now + SPARE
end

-- A count of up to 10^12 is exact as Lua writes it; anything else is not left to that.
local function window_text(window, i)
  if refused[i] == 0 and used[i] <= 1e12 and start[i] == starts[window] then
    return starts_text[window] .. used[i] .. ' 0'
  end
  return format('%.0f %.0f %.0f', start[i], used[i], refused[i])
end

local function decide(key, units, plan)
  local windows, limits, count = plan[1], plan[2], plan[3]
  local repaired, dirty, longer = false, false, false
  local stored = pcall('HMGET', key, 's', 'm', 'h', 'd', 'M', 'k', 'b')
  if stored.err then
    if not string.find(stored.err, 'WRONGTYPE', 1, true) then error(stored.err) end
    call('DEL', key)
    stored, repaired = { unpack(NOTHING) }, true
  end

  -- present(): the account brought to now.
  local aligned = true
  for i = 1, count do
    local window = windows[i]
    local text = stored[INDEX[window] + 1]
    local begun, charged, first
    changed[i] = false
    if text then
      begun, charged, first = read_window(text)
      if not begun then repaired = true end
    end
    local starting = starts[window]
    if not begun or begun < starting then
      begun, charged, first, changed[i], longer = starting, 0, 0, true, true
    elseif begun > starting then
      if begun - now > window_end(window, begun) - begun then
        begun, first, changed[i], repaired = starting, 0, true, true
      else
        aligned = false
      end
    end
    start[i], used[i], refused[i] = begun, charged, first
  end

  local ban, ban_changed, strikes, strikes_changed = nil, false, NO_STRIKES, false
  if stored[7] then
    ban = read_ban(stored[7])
    if not ban then ban_changed, repaired = true, true end
    if ban and ban[1] - now > 2 * ban[2] then
      ban[1], ban_changed, repaired = now + ban[2], true, true
    end
    if ban and bans and ban[1] + forget_after <= now then ban, ban_changed = nil, true end
  end
  if stored[6] then
    local all = read_strikes(stored[6])
    if not all then all, strikes_changed, repaired = {}, true, true end
    strikes = {}
    for i = 1, #all do
      if abs(now - all[i]) < keep then strikes[#strikes + 1] = all[i] else strikes_changed = true end
    end
  end

  -- The ban, then every window: charged all or none.
  local banned = bans and ban and ban[1] > now
  local granted = 0
  if not banned and units > 0 then
    granted = units
    for i = 1, count do granted = min(granted, limits[i] - used[i]) end
    granted = max(0, granted)
    if granted > 0 then
      for i = 1, count do used[i], changed[i] = used[i] + granted, true end
    end
  end

  -- lastExhausted(): of the windows without room, the one that resets last.
  local last, last_end = nil, 0
  for i = 1, count do
    if used[i] >= limits[i] then
      local ending = window_end(windows[i], start[i])
      if ending >= last_end then last, last_end = i, ending end
    end
  end

  local left = units - granted
  if left > 0 and not banned and last then
    if refused[last] == 0 then
      refused[last], changed[last], left = now, true, left - 1
    end
    while bans and left > 0 and now >= due_at(refused[last], strikes) do
      if strikes == NO_STRIKES then strikes = {} end
      strikes[#strikes + 1], strikes_changed, left = now, true, left - 1
      if recent(strikes) >= need then
        local offences = ban and ban[4] or 0
        local length = ban_length(offences)
        ban, ban_changed = { now + length, length, windows[last], offences + 1 }, true
        strikes = {}
        break
      end
      if grace > 0 then break end
    end
  end

  -- A look changes nothing that is not damaged; a refusal that changes nothing writes nothing.
  for i = 1, count do dirty = dirty or changed[i] end
  if repaired or (units > 0 and (dirty or strikes_changed or ban_changed)) then
    local size = 0
    for i = 1, count do
      if changed[i] then
        set[size + 1], set[size + 2] = windows[i], window_text(windows[i], i)
        size = size + 2
      end
    end
    if ban_changed and ban then
      set[size + 1], set[size + 2] = 'b', format('%.0f %.0f %s %.0f', ban[1], ban[2], ban[3], ban[4])
      size = size + 2
    end
    if strikes_changed and strikes[1] then
      local texts = {}
      for i = 1, #strikes do texts[i] = format('%.0f', strikes[i]) end
      set[size + 1], set[size + 2] = 'k', table.concat(texts, ' ')
      size = size + 2
    end
    if ban_changed and not ban then call('HDEL', key, 'b') end
    if strikes_changed and not strikes[1] then call('HDEL', key, 'k') end
    if size > 0 then call('HSET', key, unpack(set, 1, size)) end
    longer = longer or repaired or strikes_changed or ban_changed
    -- It is set with what needs it longer; else a look, which is cheaper, sees whether it was lost.
    if longer or call('PTTL', key) < 0 then
      call('PEXPIRE', key, format('%.0f', lifetime(stored, windows, count, strikes, ban)))
    end
  end

  -- verdictOf().
  tell(granted)
  for i = 1, count do tell(used[i]) end
  local in_force = bans and ban and ban[1] > now
  local due = now
  if bans and not in_force and last and refused[last] > 0 then
    due = max(now, due_at(refused[last], strikes))
  end
  local struck = bans and recent(strikes) or 0
  if aligned and not repaired and not in_force and struck == 0 and due == now then
    tell(0)
    return
  end
  tell(1)
  for i = 1, count do tell(window_end(windows[i], start[i])) end
  for _, value in ipairs({ repaired and 1 or 0, struck, due, in_force and 1 or 0 }) do tell(value) end
  if not in_force then return end
  for _, value in ipairs({ ban[1], ban[2], INDEX[ban[3]], ban[4] }) do tell(value) end
end

for i = 1, #KEYS do
  local ask = tonumber(ARGV[first_ask + i])
  local plan = ask % 256
  decide(KEYS[i], (ask - plan) / 256, plans[plan + 1])
end
return out
