-- An account is kept in one hash. It has a field for each window that was used, "start count
-- refused". The field's name is the letter of the window; for a limit of an operation the
-- operation's number precedes it. k: the strikes, "instant instant ...". b: the ban, "until length
-- window offences". Instants are in ms. Text that cannot be read is damage: the readers return nil.
--
-- The caps of keys and the meters are counted apart, in hashes of their own in the slot of the account,
-- "prefix:c{bucket}:environment:account:N". A field for each window of key number 17 is @17 and its
-- letter here, 17 and its letter there. Sixteen keys share a hash, so Redis keeps it as a list. A
-- window of the meter tokens is #tokens and its letter here, and without # in the hash whose N is m. That
-- hash also has fields of one letter: r and q of its windows, see lowered.lua, and y, see history.lua.
--
-- Follows the rows of all windows, WINDOW and WINDOW_FIELD, which window-fields.ts writes, and precedes
-- each script that reads accounts.

local EXACT = 9007199254740992
local DAY = 86400000
-- Hashes are kept this long after the last instant that matters, so that a small step of the clock
-- loses nothing.
local SPARE = 60000

local floor, max, min, abs = math.floor, math.max, math.min, math.abs
local match, format, sub = string.match, string.format, string.sub
local call, pcall = redis.call, redis.pcall

-- The instant of this call: that of the test clock or, if the argument is negative, that of Redis.
-- An argument below -1 is also the deadline of the call: a call that runs later does nothing.
local function clock(argument)
  local now = tonumber(argument)
  if now >= 0 then return now end
  local latest = -now
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
  if latest > 1 and now > latest then
    return now, redis.error_reply(format('LATE %.0f', now))
  end
  return now
end

-- The month that holds `ms`, counted from January of the year 0. Civil dates by eras of 400 years;
-- the year starts in March so that a leap day comes last.
local function month_of(ms)
  local days = floor(ms / DAY) + 719468
  local era = floor(days / 146097)
  local of_era = days - era * 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + floor(year / 4) - floor(year / 100))
  return 12 * (year + era * 400) + floor((5 * of_year + 2) / 153) + 2
end

-- The first ms of a month that is counted this way.
local function month_start(month)
  local march = (month - 2) % 12
  local year = (month - 2 - march) / 12
  local era = floor(year / 400)
  local in_era = year - era * 400
  local first = in_era * 365 + floor(in_era / 4) - floor(in_era / 100) + floor((153 * march + 2) / 5)
  return (era * 146097 + first - 719468) * DAY
end

-- The calendar of an account, "day@from,day@from,...", as lists of days of the month and of the
-- instants from which on months begin on them; nil if months begin on the first day.
local function read_calendar(text)
  local days, froms = {}, {}
  for day, from in string.gmatch(text, '(%d+)@(%d+)') do
    days[#days + 1], froms[#froms + 1] = tonumber(day), tonumber(from) * DAY
  end
  return days[1] and { days = days, froms = froms } or nil
end

-- The day of the month on which months begin at `at`, since when, and until when.
local function anchor_at(calendar, at)
  local day, from = 1, 0
  for i, begins in ipairs(calendar.froms) do
    if begins > at then return day, from, begins end
    day, from = calendar.days[i], begins
  end
  return day, from, nil
end

local function anchor_day(month, day)
  return min(month_start(month) + (day - 1) * DAY, month_start(month + 1) - DAY)
end

-- `field` names a window, with or without the number of an operation before its letter. A month of
-- an account with a calendar is one of that calendar.
local function window_start(field, now, calendar)
  local row = WINDOW[sub(field, -1)]
  if row.length then return now < row.align and 0 or now - (now - row.align) % row.length end
  local month = month_of(now)
  if not calendar or row.months > 1 then return month_start(month - month % row.months) end
  local day, from = anchor_at(calendar, now)
  local start = anchor_day(month, day)
  return max(from, start > now and anchor_day(month - 1, day) or start)
end

local function window_end(field, start, calendar)
  local row = WINDOW[sub(field, -1)]
  if row.length then return start < row.align and row.align or start + row.length end
  local month = month_of(start)
  if not calendar or row.months > 1 then return month_start(month + row.months) end
  local day, _, changes = anchor_at(calendar, start)
  local ends = anchor_day(month, day)
  if ends <= start then ends = anchor_day(month + 1, day) end
  return min(ends, changes or ends)
end

-- The latest instant at which a window may end, whatever the calendar of its account.
local function latest_end(field, start)
  local row = WINDOW[sub(field, -1)]
  return row.months == 1 and start + row.longest or window_end(field, start)
end

local function is_window(field)
  return match(field, WINDOW_FIELD) ~= nil
end

local function is_meter(field)
  return sub(field, 1, 1) == '#'
end

-- Whether a field is that of a cap or a meter.
local function is_apart(field)
  return sub(field, 1, 1) == '@' or is_meter(field)
end

local function meters_of(key)
  return (string.gsub(key, ':{', ':c{', 1)) .. ':m'
end

-- The hash that a cap or a meter is counted in, and its field in that hash.
local function place_apart(key, field)
  local name = sub(field, 2)
  if is_meter(field) then return meters_of(key), name end
  local number = tonumber(match(name, '^%d+'))
  return (string.gsub(key, ':{', ':c{', 1)) .. format(':%.0f', floor(number / 16)), name
end

-- The text of a cap or a meter; nil if there is none. The second value is true if its key had another
-- type and was deleted.
local function read_apart(key, field)
  local hash, name = place_apart(key, field)
  local text = pcall('HGET', hash, name)
  if type(text) ~= 'table' then return text or nil, false end
  if not string.find(text.err, 'WRONGTYPE', 1, true) then error(text.err) end
  call('DEL', hash)
  return nil, true
end

local function read_window(text)
  local start, count, refused = match(text, '^(%d+) (%d+) (%d+)$')
  if not start then return nil end
  start, count, refused = tonumber(start), tonumber(count), tonumber(refused)
  if start > EXACT or count > EXACT or refused > EXACT then return nil end
  return start, count, refused
end

-- Whether the slot is on its way to another node. That node would start a second hash in addition
-- to the one that is still to arrive. It refuses a command for two keys that are missing.
local function is_moving(hash)
  local reply = pcall('DEL', hash .. '?', hash .. '!')
  return type(reply) ~= 'number'
end

-- Writes a cap or a meter whose window ends at `ends`. When a window is new, windows that are over
-- leave the hash.
local function write_apart(key, field, text, ends, now, fresh)
  local hash, name = place_apart(key, field)
  if fresh then
    local all = call('HGETALL', hash)
    for i = 1, #all, 2 do
      local begun = is_window(all[i]) and read_window(all[i + 1])
      local is_over = not begun or latest_end(all[i], begun) <= now
      if is_over and #all[i] > 1 then call('HDEL', hash, all[i]) end
    end
  end
  call('HSET', hash, name, text)
  local life = ends - now + SPARE
  if call('PTTL', hash) < life then call('PEXPIRE', hash, format('%.0f', life)) end
end
