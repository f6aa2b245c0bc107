-- The instant and the plans of a call: see decide.lua for its arguments. Follows time.lua and day.lua;
-- decide.lua comes between this and charge.lua.

local now, late = clock(ARGV[1])
if late then return late end

-- All that a plan has by window is in the order of its fields: limits; rooms, the parts of limits that
-- are not kept for other gateways; holds, the units of meters; starts of the windows, and their texts
-- once an account has needed them.
-- Tables have room for four windows from the beginning, because growing costs more than filling.
local plans = {}
for i = 1, tonumber(ARGV[5]) do
  local text = ARGV[5 + i]
  local cost, kept, name, at = match(text, '^(%d+)h?(%d*)p?(%S*) ()')
  local days, behind = match(text, '^!(%S+) ()', at)
  local calendar = days and read_calendar(days)
  local fields, limits, count = { nil, nil, nil, nil }, { nil, nil, nil, nil }, 0
  local starts = { nil, nil, nil, nil }
  local rooms, holds, apart = limits, nil, false
  local field, limit, rest
  at = behind or at
  while true do
    field, limit, rest, at = match(text, '^(%S+) (%d+)(%S*) ?()', at)
    if not field then break end
    count = count + 1
    fields[count], limits[count] = field, min(tonumber(limit), EXACT)
    if rest ~= '' then
      local reserved, hold = match(rest, '^-?(%d*)%*?(%d*)$')
      if reserved ~= '' and rooms == limits then rooms = { unpack(limits, 1, count) } end
      rooms[count] = limits[count] - (tonumber(reserved) or 0)
      holds = holds or hold ~= '' and {} or nil
      if holds then holds[count] = tonumber(hold) end
    elseif rooms ~= limits then
      rooms[count] = limits[count]
    end
    apart = apart or find(field, '^[@#]') ~= nil
    starts[count] = window_start(field, now, calendar)
  end
  plans[i] = {
    fields = fields, limits = limits, rooms = rooms, holds = holds, apart = apart, count = count,
    starts = starts, texts = { nil, nil, nil, nil }, running = { nil, nil, nil, nil }, calendar = calendar,
    cost = tonumber(cost), kept = kept ~= '' and kept, name = name,
  }
end
local first_ask = 5 + #plans
-- The sum of the tag and of all numbers of the reply, see decide.lua, is its second number in the end.
local sum = tonumber(ARGV[4]) + now
local out, n = { now, sum }, 2
