-- A window of an account: its text in the hash, see account.lua, and its end. Follows time.lua
-- and day.lua.

local function read_window(text)
  local start, count, refused = match(text, '^(%d+) (%d+) (%d+)$')
  if not start then return nil end
  start, count, refused = tonumber(start), tonumber(count), tonumber(refused)
  if start > EXACT or count > EXACT or refused > EXACT then return nil end
  return start, count, refused
end

local function window_end(field, start, calendar)
  local length, align, months = row_of(sub(field, -1))
  if not months then return start < align and align or start + length end
  local month = month_of(start)
  if not calendar or months > 1 then return month_start(month + months) end
  local day, _, changes = anchor_at(calendar, start)
  local ends = anchor_day(month, day)
  if ends <= start then ends = anchor_day(month + 1, day) end
  return min(ends, changes or ends)
end

-- Redis asks for a right at each command of a script, and for memory at its first write alone. Asks for
-- the rights to PEXPIRE and to HDEL before a charge or a ban is written, once a script: a call that fails
-- has written nothing.
-- `left` is the life of the hash, which is only ever lengthened, and a key that is not there gets none.
-- Without memory nothing is asked for, so that the charge is the write that Redis stops; ZADD XX adds
-- nothing to a key that is never there. A hash that a call without the right left without a life keeps
-- its windows, the longest of which is a year.
local is_permitted, LIFE_MAX = false, 367 * 86400000
local function ask_permission(key, left)
  if is_permitted then return end
  is_permitted = true
  local added = pcall('ZADD', key .. '?', 'XX', 0, '?')
  if type(added) == 'table' and find(added.err, 'OOM', 1, true) then return end
  ask_first('PEXPIRE', key, format('%.0f', left == -1 and LIFE_MAX or max(left, SPARE)))
  ask_first('HDEL', key, '?')
end
