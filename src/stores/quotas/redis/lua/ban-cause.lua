-- How the last ban of an account came about (docs/reference/http.md#bans): a hash in the slot of the
-- account, "prefix:w{bucket}:environment:account". Its field c is "until at h reason" for a ban by hand,
-- else "until at k instant instant ...", the strikes that earned it. Instants in ms. Follows
-- account.lua.

local function cause_key(key)
  return (string.gsub(key, ':{', ':w{', 1))
end

-- `how` is everything but the instants. Nothing here fails the call, because a ban holds without
-- its cause, even if a slot is on its way to another node.
local function keep_cause(key, until_ms, now, how, life)
  local hash = cause_key(key)
  local size = pcall('HLEN', hash)
  if type(size) == 'table' then pcall('DEL', hash) end
  if size == 0 and is_moving(hash) then return end
  pcall('HSET', hash, 'c', format('%.0f %.0f %s', until_ms, now, how))
  pcall('PEXPIRE', hash, format('%.0f', life))
end

-- Moves the cause of a ban whose end was moved from `from` to `until_ms`: all its instants move as far.
-- The cause of an earlier ban stays as it is. Nothing here fails the call either.
local function move_cause(key, from, until_ms)
  local hash = cause_key(key)
  local text = pcall('HGET', hash, 'c')
  if type(text) ~= 'string' then return end
  local ends, at, kind, rest = match(text, '^(%d+) (%d+) ([hk]) (.*)$')
  if not ends or tonumber(ends) ~= from then return end
  local function shifted(instant)
    return format('%.0f', max(0, tonumber(instant) + until_ms - from))
  end
  if kind == 'k' then rest = string.gsub(rest, '%d+', shifted) end
  pcall('HSET', hash, 'c', format('%.0f %s %s %s', until_ms, shifted(at), kind, rest))
end
