-- A window of an account: its text in the hash, see account.lua, and its end. Follows time.lua.

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
