-- Charges what was admitted while the store was away, each unit to the window it was admitted in
-- (docs/reference/store.md#late-charges). Follows account.lua and history.lua. Never refuses: the requests are long
-- answered.
--
-- KEYS    one hash per account
-- ARGV 1  the clock, see account.lua
--      2  for how many ms the usage of each day is kept; 0: not at all
--         then one text per key: "requests units field start units field start units ..."; the first
--         two are added to the day of now
-- Returns now, and for each window of each key in order its count now, or -1 where it is over.

local TICK = 1000
local now, late = clock(ARGV[1])
if late then return late end

local kept = tonumber(ARGV[2])
local counts = { now }
for i, key in ipairs(KEYS) do
  local kind = call('TYPE', key).ok
  if kind ~= 'hash' and kind ~= 'none' then call('DEL', key) end
  local until_ms, size, set, caps = 0, 0, {}, {}
  local requests, charged, windows = match(ARGV[i + 2], '^(%d+) (%d+)(.*)$')
  for field, start, units in string.gmatch(windows, '(@?%w+) (%d+) (%d+)') do
    start, units = tonumber(start), tonumber(units)
    local ends = window_end(field, start)
    local stored, count, refused
    local text
    if is_cap(field) then text = read_cap(key, field) else text = call('HGET', key, field) end
    if text then stored, count, refused = read_window(text) end
    if not stored or stored < start then stored, count, refused = start, 0, 0 end
    -- A window that is over, or that a later one took the place of, counts for nothing any more.
    if stored == start and ends > now then
      count = count + units
      local counted = format('%.0f %.0f %.0f', start, count, refused)
      if is_cap(field) then
        caps[#caps + 1] = { field, counted, ends }
      else
        set[size + 1], set[size + 2] = field, counted
        size = size + 2
        until_ms = max(until_ms, ends)
      end
      counts[#counts + 1] = count
    else
      counts[#counts + 1] = -1
    end
  end
  if size > 0 then
    -- A right that is missing is met ahead of the charge, so that a failed call has charged nothing. A
    -- life that is short by a tick of the clock is left: Redis stops no script for want of memory after
    -- a write that needs none, and the charge is to be the one that it stops.
    local left = until_ms - now + SPARE
    local life = call('PTTL', key)
    if life < left - TICK then call('PEXPIRE', key, format('%.0f', left)) end
    call('HSET', key, unpack(set, 1, size))
    if life == -2 then call('PEXPIRE', key, format('%.0f', left)) end
  end
  for _, cap in ipairs(caps) do write_cap(key, cap[1], cap[2], cap[3], now, false) end
  if kept > 0 and tonumber(requests) > 0 then
    remember(key, tonumber(requests), tonumber(charged), kept, now, '')
  end
end
return counts
