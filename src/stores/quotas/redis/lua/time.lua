-- The clock, and the windows of time by the letter at the end of their fields. Instants are in ms.
--
-- Follows the rows of all windows, row_of, WINDOW_FIELD and SPARE, which window-fields.ts writes, and precedes
-- window.lua.

-- A larger number is damage. Two of these add up exactly, and the client library reads integers exactly
-- only up to a few less than 2^53.
local EXACT = 4503599627370496
local DAY = 86400000

local floor, max, min, abs = math.floor, math.max, math.min, math.abs
local match, format, sub = string.match, string.format, string.sub
local call, pcall = redis.call, redis.pcall

-- Whether the script may have written a count. Each write of one sets it: ask_first and increase.
local has_counted = false

-- Raises the error of a command. If it is a right that is missing, of a script that has counted nothing,
-- the error says so to store-failure.ts.
local function fail(why)
  local is_denied = string.find(why, ' run ', 1, true)
  error(is_denied and not has_counted and why .. ', before any charge' or why)
end

-- Runs a command. An error of it is raised, see fail.
local function ask_first(command, ...)
  local reply = pcall(command, ...)
  local why = type(reply) == 'table' and reply.err
  if not why then
    if command == 'HSET' then has_counted = true end
    return reply
  end
  if string.find(why, ' run ', 1, true) then fail(why) end
  return call(command, ...)
end

-- The instant of this call: that of the test clock or, if the argument is negative, that of Redis.
-- An argument below -1 is also the deadline of the call: a call that runs later does nothing.
local function clock(argument)
  local now = tonumber(argument)
  if now >= 0 then return now end
  local latest = -now
  local time = ask_first('TIME')
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
  local length, align, months = row_of(sub(field, -1))
  if not months then return now < align and 0 or now - (now - align) % length end
  local month = month_of(now)
  if not calendar or months > 1 then return month_start(month - month % months) end
  local day, from = anchor_at(calendar, now)
  local start = anchor_day(month, day)
  return max(from, start > now and anchor_day(month - 1, day) or start)
end
