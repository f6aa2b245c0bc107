-- Two fields of an account concern windows whose counts went down, "field start number ..." each: r
-- holds the instant of the last reset of a window, q the highest count that a window had before
-- units of it were taken back. Both are removed with their windows. Follows account.lua.

local function read_pairs(text)
  local found = {}
  for field, start, number in string.gmatch(text or '', '(@?%w+) (%d+) (%d+)') do
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
