-- Sets the running windows of one account to 0, first refusals too (docs/reference/keys.md#accounts).
-- Bans and strikes stay. Follows account.lua.
--
-- KEYS 1  the hash of the account
-- ARGV 1  the clock, see account.lua
--         then the fields to reset; none: all windows
-- Returns now, then the field of each window that was reset, and what it had counted: field, count, ...

local now, late = clock(ARGV[1])
if late then return late end

local named
for i = 2, #ARGV do
  named = named or {}
  named[ARGV[i]] = true
end

local out = { format('%.0f', now) }
local all = call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local field = all[i]
  if is_window(field) and (not named or named[field]) then
    local start, count = read_window(all[i + 1])
    if start and window_end(field, start) > now then
      call('HSET', KEYS[1], field, format('%.0f 0 0', start))
      out[#out + 1] = field
      out[#out + 1] = format('%.0f', count)
    end
  end
end
return out
