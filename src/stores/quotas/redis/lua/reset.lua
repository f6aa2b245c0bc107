-- Sets the running windows of one account to 0, first refusals too (docs/reference/keys.md#accounts).
-- Bans and strikes stay; the caps of its keys go with all windows, or by name. Follows account.lua and lowered.lua.
--
-- KEYS 1  the hash of the account
-- ARGV 1  the clock, see time.lua
--      2  the calendar of the account, see read_calendar
--         then the fields to reset; none: all windows
-- Returns now, then the field of each window that was reset, and what it had counted: field, count, ...

local now, late = clock(ARGV[1])
if late then return late end

if is_moving(KEYS[1]) then
  return redis.error_reply('TRYAGAIN a hash of the account may be on another node')
end

-- A right that is missing later would leave windows that are reset and told as not reset.
ask_first('HDEL', KEYS[1], '?')
local calendar = read_calendar(ARGV[2])
local named
local has_caps = #ARGV < 3
for i = 3, #ARGV do
  named = named or {}
  named[ARGV[i]] = true
  has_caps = has_caps or sub(ARGV[i], 1, 1) == '@'
end

local out = { format('%.0f', now) }

local function reset(hash, start_of_name, resets, marks)
  local all = call('HGETALL', hash)
  local life = 0
  for i = 1, #all, 2 do
    local field = all[i]
    if is_window(field) and (not named or named[start_of_name .. field]) then
      local start, count = read_window(all[i + 1])
      local ends = start and window_end(field, start, calendar) or 0
      if ends > now then
        life = max(life, ends - now + SPARE)
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
  return life
end

-- Keeps what the resets changed in fields r and q of a hash for the life of the windows. That of an
-- account may have none of these: its caps are elsewhere.
local function keep(hash, resets, marks, life)
  if #out == 1 then return end
  for field, found in pairs({ r = resets, q = marks }) do
    local left = pairs_text(found, now)
    if left == '' then call('HDEL', hash, field) else call('HSET', hash, field, left) end
  end
  if life > 0 and call('PTTL', hash) < life then pcall('PEXPIRE', hash, format('%.0f', life)) end
end

local meters = meters_of(KEYS[1])
for _, each in ipairs({ { KEYS[1], '' }, { meters, '#' } }) do
  local hash, before = each[1], each[2]
  local resets, marks = read_pairs(call('HGET', hash, 'r')), read_pairs(call('HGET', hash, 'q'))
  local life = reset(hash, before, resets, marks)
  local caps = string.gsub(KEYS[1], ':{', ':c{', 1)
  for i = 0, before == '' and CAP_HASHES - 1 or -1 do
    local of_caps = caps .. format(':%.0f', i)
    if has_caps and call('HLEN', of_caps) > 0 then life = max(life, reset(of_caps, '@', resets, marks)) end
  end
  keep(hash, resets, marks, life)
end
return out
