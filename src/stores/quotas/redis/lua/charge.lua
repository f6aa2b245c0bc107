-- Runs the batch. It charges accounts in the state that nearly every request finds: the windows are
-- the current ones, with room and no refusal yet, and the hash has no other field and a time to
-- live. The result is the same as that of decide.lua, for a part of the work. Follows decide.lua in
-- one script.

for i = 1, #plans do
  local fields, count = plans[i][1], plans[i][3]
  local running, starts_text = plans[i].spans.running, plans[i].spans.starts_text
  for j = 1, count do
    local field = fields[j]
    running[field] = running[field] or '^' .. starts_text[field] .. '(%d+) 0$'
  end
end
local set, counts = {}, {}

-- Returns false if nothing was done.
local function charge(key, requests, plan)
  local fields, rooms, count, kept = plan[1], plan[7], plan[3], plan[5]
  local units = requests * plan[4]
  if plan.apart then return false end
  local running, starts_text = plan.spans.running, plan.spans.starts_text
  local stored = pcall('HMGET', key, unpack(fields, 1, count))
  if stored.err then return false end
  for i = 1, count do
    local field, text = fields[i], stored[i]
    local charged = text and tonumber(match(text, running[field]))
    if not charged then return false end
    charged = charged + units
    if charged > rooms[i] then return false end
    counts[i], set[2 * i - 1], set[2 * i] = charged, field, starts_text[field] .. charged .. ' 0'
  end
  if call('HLEN', key) ~= count or call('PTTL', key) < 0 then return false end
  call('HSET', key, unpack(set, 1, 2 * count))
  if kept then remember(key, requests, units, kept, now, plan[6]) end

  for i = 1, count do out[n + 1 + i] = counts[i] end
  n = n + count + 2
  out[n] = 0
  return true
end

local decide
for i = 1, #KEYS do
  local ask = tonumber(ARGV[first_ask + i])
  local grants = ask >= 0
  ask = abs(ask)
  local index = ask % 256
  local units = (ask - index) / 256
  local plan = plans[index + 1]
  local at = n + 1
  if grants and units > 0 and charge(KEYS[i], units, plan) then
    out[at] = units
  else
    decide = decide or decider()
    decide(KEYS[i], units, plan, grants)
  end
end
return out
