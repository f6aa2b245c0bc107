-- Charges requests that were decided elsewhere, each unit to the window it was admitted in, and
-- takes back units of requests that were not admitted (docs/reference/store.md#late-charges).
-- Follows account.lua, lowered.lua and history.lua. Never refuses, because the requests were
-- answered long ago.
--
-- KEYS    one hash per account
-- ARGV 1  the clock, see time.lua
--      2  how many ms the usage of each day is kept; 0: it is not kept
--         then one text per key: "day requests unitspPLAN day ...;#meter day units ...;field start units ...",
--         without pPLAN where the plan of the account is unknown. A start is "start>end" if the account
--         has a calendar.
--         Units below 0 are taken back: "-3~1700000000000" says when the first of them were charged.
--         What a request of a meter used beyond its hold has that instant too.
-- Returns now, and for each key the units that no day could give back, then for each of its windows its
-- count now, or -1 if it is over or was moved; the highest count that it had before units of it were taken
-- back, or 0; and 1 if it has refused.

-- A slot that is moving may have a cap or a meter on its other node: nothing is done then, for any key.
for i, key in ipairs(KEYS) do
  for field in string.gmatch(match(ARGV[i + 2], '[^;]*$'), '([@#][%w-]+) %d') do
    local _, _, elsewhere = read_apart(key, field)
    if elsewhere then return redis.error_reply('TRYAGAIN a hash of the account is on another node') end
  end
end

local CLOSES_AFTER = 900000
local now, late = clock(ARGV[1])
if late then return late end

local kept = tonumber(ARGV[2])
local out = { now }

-- A day closes a quarter of an hour after its end. After that a raise goes to the current day, and
-- units are no longer taken back. Returns the units that were not taken back.
local function settle_day(key, day, requests, units, plan)
  if requests == 0 and units == 0 then return 0 end
  if now >= (day + 1) * DAY + CLOSES_AFTER then
    if requests < 0 or units < 0 then return -units end
    day = floor(now / DAY)
  end
  remember(key, day, requests, units, kept, now, plan)
  return 0
end

-- The same for units of a meter; the gateway knows the instant, and so what was not taken back.
local function settle_meter(key, meter, day, units)
  if now >= (day + 1) * DAY + CLOSES_AFTER then
    if units < 0 then return end
    day = floor(now / DAY)
  end
  remember_meter(key, day, meter, units, kept, now)
end

for i, key in ipairs(KEYS) do
  local kind = call('TYPE', key).ok
  if kind ~= 'hash' and kind ~= 'none' then call('DEL', key) end
  local until_ms, size, set, apart = 0, 0, {}, {}
  -- What this call has written: a window that was moved and that of now are one field.
  local written = {}
  local days, metered, windows = match(ARGV[i + 2], '^([^;]*);([^;]*);(.*)$')
  local at = #out + 1
  out[at] = 0
  -- The marks of lowered counts, and the last resets, by their hash: see lowered.lua.
  local lowered = {}
  local function lowered_in(hash)
    if not lowered[hash] then
      local texts = call('HMGET', hash, 'q', 'r')
      lowered[hash] = { marks = read_pairs(texts[1]), resets = read_pairs(texts[2]) }
    end
    return lowered[hash]
  end
  for field, start, told, units, charged in string.gmatch(windows, '([@#]?[%w-]+) (%d+)>?(%d*) (-?%d+)~?(%d*)') do
    start, units = tonumber(start), tonumber(units)
    local ends = tonumber(told) or window_end(field, start)
    local stored, count, refused
    local text = written[field]
    if not text then
      if is_apart(field) then text = read_apart(key, field) else text = call('HGET', key, field) end
    end
    if text then stored, count, refused = read_window(text) end
    -- A window that is further ahead than it is long is damage, see decide.lua. A decision that found it
    -- has moved its count to the window of now: what is added goes there too.
    local is_moved = stored and stored < start and start - now > ends - start and latest_end(field, stored) > now
    if is_moved then
      start, ends, units = stored, latest_end(field, stored), max(units, 0)
    elseif not stored or stored < start then
      stored, count, refused = start, 0, 0
    end
    local known = lowered_in(is_meter(field) and meters_of(key) or key)
    local marks = known.marks
    -- A window that is over, or was replaced by a later one, no longer counts.
    if stored == start and ends > now then
      if charged ~= '' and pair_of(known.resets, field, start) >= tonumber(charged) then units = 0 end
      units = max(units, -count)
      if units < 0 then
        set_pair(marks, field, start, max(pair_of(marks, field, start), count))
        known.marked = true
      end
      if units ~= 0 then
        count = count + units
        local counted = format('%.0f %.0f %.0f', start, count, refused)
        written[field] = counted
        if is_apart(field) then
          apart[#apart + 1] = { field, counted, ends }
        else
          set[size + 1], set[size + 2] = field, counted
          size = size + 2
          until_ms = max(until_ms, ends)
        end
      end
      out[#out + 1] = is_moved and -1 or count
    else
      out[#out + 1] = -1
    end
    out[#out + 1] = pair_of(marks, field, start)
    out[#out + 1] = refused > 0 and 1 or 0
  end
  local left = call('PTTL', key)
  if size > 0 or apart[1] then ask_permission(key, left) end
  if size > 0 then
    local known = lowered[key]
    if known and known.marked then set[size + 1], set[size + 2] = 'q', pairs_text(known.marks, now) end
    ask_first('HSET', key, unpack(set))
    local life = until_ms - now + SPARE
    if left < life then call('PEXPIRE', key, format('%.0f', life)) end
  end
  for _, each in ipairs(apart) do write_apart(key, each[1], each[2], each[3], now, false) end
  local meters = lowered[meters_of(key)]
  if meters and meters.marked then ask_first('HSET', meters_of(key), 'q', pairs_text(meters.marks, now)) end
  if kept > 0 then
    for meter, day, units in string.gmatch(metered, '(#[%w-]+) (%d+) (-?%d+)') do
      settle_meter(key, meter, tonumber(day), tonumber(units))
    end
    for day, requests, units, plan in string.gmatch(days, '(%d+) (-?%d+) (-?%d+)p?(%S*)') do
      out[at] = out[at] + settle_day(key, tonumber(day), tonumber(requests), tonumber(units), plan)
    end
  end
end
return out
