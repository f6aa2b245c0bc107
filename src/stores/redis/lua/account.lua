-- How an account is kept: one hash, with fields s m h d M, a window each, "start count refused"; k,
-- the strikes, "instant instant ..."; b, the ban, "until length window offences". Instants in ms.
-- What cannot be read is damage: the readers return nil. Precedes decide.lua in one script.

local MINUTE, HOUR, DAY = 60000, 3600000, 86400000
local LENGTH = { s = 1000, m = MINUTE, h = HOUR, d = DAY }
local INDEX = { s = 0, m = 1, h = 2, d = 3, M = 4 }
local FIELDS = { 's', 'm', 'h', 'd', 'M' }
local EXACT = 9007199254740992
-- Beyond the last instant that matters, so that a small step of the clock loses nothing.
local SPARE = 60000

local floor, max, min, abs = math.floor, math.max, math.min, math.abs
local match, format = string.match, string.format
local call, pcall = redis.call, redis.pcall

-- The month `ahead` of the one that holds `ms`: its first ms. Civil dates by era of 400 years, the
-- year starting in March so that a leap day comes last.
local function month_start(ms, ahead)
  local days = floor(ms / DAY) + 719468
  local era = floor(days / 146097)
  local of_era = days - era * 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + floor(year / 4) - floor(year / 100))
  local march = floor((5 * of_year + 2) / 153) + ahead
  year = year + era * 400 + floor(march / 12)
  march = march % 12
  era = floor(year / 400)
  local in_era = year - era * 400
  local first = in_era * 365 + floor(in_era / 4) - floor(in_era / 100) + floor((153 * march + 2) / 5)
  return (era * 146097 + first - 719468) * DAY
end

local function window_end(window, start)
  if window == 'M' then return month_start(start, 1) end
  return start + LENGTH[window]
end

local function read_window(text)
  local start, count, refused = match(text, '^(%d+) (%d+) (%d+)$')
  if not start then return nil end
  start, count, refused = tonumber(start), tonumber(count), tonumber(refused)
  if start > EXACT or count > EXACT or refused > EXACT then return nil end
  return start, count, refused
end

local function read_strikes(text)
  if not match(text, '^[%d ]+$') then return nil end
  local strikes = {}
  for each in string.gmatch(text, '%d+') do
    local at = tonumber(each)
    if at > EXACT then return nil end
    strikes[#strikes + 1] = at
  end
  return strikes
end

local function read_ban(text)
  local until_ms, length, window, offences = match(text, '^(%d+) (%d+) ([smhdM]) (%d+)$')
  if not until_ms then return nil end
  until_ms, length, offences = tonumber(until_ms), tonumber(length), tonumber(offences)
  if until_ms > EXACT or length > EXACT or offences > EXACT then return nil end
  return { until_ms, length, window, offences }
end
