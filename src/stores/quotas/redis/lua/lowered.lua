-- Two fields of an account concern windows whose counts went down, "field start number ..." each: r
-- holds the instant of the last reset of a window, q the highest count that a window had before
-- units of it were taken back. Both are removed with their windows. Those of the windows of meters are
-- in the hash of the meters. Follows account.lua.

local function read_pairs(text)
  local found = {}
  for field, start, number in string.gmatch(text or '', '([@#]?[%w-]+) (%d+) (%d+)') do
    found[field] = { tonumber(start), tonumber(number) }
  end
  return found
end

-- The number of the window that starts at `start`, or 0.
local function pair_of(found, field, start)
  local pair = found[field]
  return pair and pair[1] == start and pair[2] or 0
end

local function set_pair(found, field, start, number)
  found[field] = { start, number }
end

-- The text of the pairs, without windows that are certainly over.
local function pairs_text(found, now)
  local texts = {}
  for field, pair in pairs(found) do
    if latest_end(field, pair[1]) > now then
      texts[#texts + 1] = format('%s %.0f %.0f', field, pair[1], pair[2])
    end
  end
  return table.concat(texts, ' ')
end

-- Adds the marks of lowered counts in field q of a hash to `marks`, of the windows of meters or of all
-- others, for a decision. If requests were granted, marks of windows that count as much again are removed.
local function take_marks(marks, hash, text, decided, metered)
  local lowered = read_pairs(text)
  marks = marks or {}
  for i, field in ipairs(decided.fields) do
    if is_meter(field) == metered then
      marks[i] = pair_of(lowered, field, decided.start[i])
      if decided.used[i] >= marks[i] then lowered[field] = nil end
    end
  end
  if decided.granted == 0 then return marks end
  local left = pairs_text(lowered, decided.now)
  if left == '' then pcall('HDEL', hash, 'q') elseif left ~= text then ask_first('HSET', hash, 'q', left) end
  return marks
end
