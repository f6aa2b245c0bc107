-- Sets the running windows of one account to 0, first refusals too (docs/reference/keys.md#accounts).
-- Bans and strikes stay; the caps of its keys go with all windows. Follows account.lua and lowered.lua.
--
-- KEYS 1  the hash of the account
-- ARGV 1  the clock, see account.lua
--      2  the calendar of the account, see read_calendar
--         then the fields to reset; none: all windows
-- Returns now, then the field of each window that was reset, and what it had counted: field, count, ...

local now, late = clock(ARGV[1])
if late then return late end

local calendar = read_calendar(ARGV[2])
local named
for i = 3, #ARGV do
  named = named or {}
  named[ARGV[i]] = true
end

local resets, marks = read_pairs(call('HGET', KEYS[1], 'r')), read_pairs(call('HGET', KEYS[1], 'q'))
local out = { format('%.0f', now) }

local function reset(hash, start_of_name)
  local all = call('HGETALL', hash)
  for i = 1, #all, 2 do
    local field = all[i]
    if is_window(field) and (not named or named[start_of_name .. field]) then
      local start, count = read_window(all[i + 1])
      if start and window_end(field, start, calendar) > now then
        call('HSET', hash, field, format('%.0f 0 0', start))
        -- Units that were charged before no longer give anything back, and a count may be reported
        -- again.
        set_pair(resets, start_of_name .. field, start, now)
        marks[start_of_name .. field] = nil
        out[#out + 1] = start_of_name .. field
        out[#out + 1] = format('%.0f', count)
      end
    end
  end
end

reset(KEYS[1], '')
local caps = string.gsub(KEYS[1], ':{', ':c{', 1)
for i = 0, CAP_HASHES - 1 do
  local hash = caps .. format(':%.0f', i)
  if not named and call('EXISTS', hash) == 1 then reset(hash, '@') end
end
if #out > 1 and call('EXISTS', KEYS[1]) == 1 then
  call('HSET', KEYS[1], 'r', pairs_text(resets, now))
  local left = pairs_text(marks, now)
  if left == '' then call('HDEL', KEYS[1], 'q') else call('HSET', KEYS[1], 'q', left) end
end
return out
