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
-- Follows window.lua, and precedes each script that reads accounts.

-- The latest instant at which a window may end, whatever the calendar of its account.
local function latest_end(field, start)
  local longest, _, months = row_of(sub(field, -1))
  return months == 1 and start + longest or window_end(field, start)
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

-- Whether the slot is on its way to another node. That node would start a second hash in addition
-- to the one that is still to arrive. It refuses a command for two keys that are missing, by "non
-- local key" or, as Valkey does, by "rehashing of the slot". A replica, and a server that cannot save,
-- refuse it in other words.
local function is_moving(hash)
  local reply = pcall('DEL', hash .. '?', hash .. '!')
  local why = type(reply) == 'table' and reply.err or ''
  return string.find(why, 'non local key', 1, true) ~= nil or string.find(why, 'rehashing', 1, true) ~= nil
end

-- Whether a reply is the error of a key of another type. Raises any other error: with a right that
-- the user lacks the key is whole.
local function has_other_type(reply)
  if type(reply) ~= 'table' or not reply.err then return false end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then fail(reply.err) end
  return true
end

-- The text of a cap or a meter; nil if there is none. The second value is true if its key had another
-- type and was deleted. The third is true if the slot is moving and the hash is not here: what it
-- counts may be on the other node, and a second hash here would begin at 0.
local function read_apart(key, field)
  local hash, name = place_apart(key, field)
  local text = pcall('HGET', hash, name)
  if type(text) ~= 'table' then
    return text or nil, false, not text and ask_first('HLEN', hash) == 0 and is_moving(hash)
  end
  if is_moving(hash) then return nil, false, true end
  if has_other_type(text) then ask_first('DEL', hash) end
  return nil, true, false
end

-- Writes a cap or a meter whose window ends at `ends`. When a window is new, windows that are over
-- leave the hash. One that cannot leave it now fails nothing, because it no longer counts.
local function write_apart(key, field, text, ends, now, fresh)
  local hash, name = place_apart(key, field)
  if fresh then
    local all = ask_first('HGETALL', hash)
    for i = 1, #all, 2 do
      local begun = is_window(all[i]) and read_window(all[i + 1])
      local is_over = not begun or latest_end(all[i], begun) <= now
      if is_over and #all[i] > 1 then pcall('HDEL', hash, all[i]) end
    end
  end
  ask_first('HSET', hash, name, text)
  local life = ends - now + SPARE
  if call('PTTL', hash) < life then call('PEXPIRE', hash, format('%.0f', life)) end
end
