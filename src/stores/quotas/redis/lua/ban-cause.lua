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
