-- decide() of core/quota/decide.ts in Redis: ban first, then every window, charged all or none, for
-- a batch of accounts in one atomic call. Each step has the same name as there.
--
-- The accounts that nearly every call is about never come here: charge.lua, the end of this script, has
-- them, so this is inside a function that only the others run.
--
-- KEYS    one hash per account, as in account.lua, which precedes this in one script. Instants in ms.
-- ARGV 1  the clock, see time.lua
--      2  the ban policy, "strikes within grace forgetAfter observe", or "" when bans are off
--      3  the length of the first ban, of the second, ...; the last one holds from there on
--      4  the tag of the call, a number
--      5  how many plans follow, which plans.lua reads; each "cost field limit field limit ...", or
--         "costhKEPTpNAME field ..." if the usage of each day is kept for KEPT ms, with the plan of the
--         account, NAME: see history.lua, which precedes this too; a limit is "100", or "100-20" if 20
--         units of it are kept for other gateways; "100*7" or "100-20*7" is that of a meter, which takes
--         7 units for each request in place of the cost; the fields follow "!15@0 " if the account has
--         that calendar
--         then one number per key: units * 256 + plan, plans counted from 0; negative if the
--         units were refused already, and may only be strikes
--         then, of a call without KEYS, the keys: accounts of several buckets that one node of a
--         Cluster has, those of a bucket in a row; see charge.lua
-- Returns now, then the sum of the tag and of all other numbers of the reply, modulo 2^52, by which the
-- caller knows the reply of this call, whole; then for each key
--   -1 for one of which nothing was done, because its bucket, or the hash of its caps or meters, is not
--   here; otherwise granted, the count of each window, and
--   0 when all else is as for an account without strikes and bans in the windows of now; otherwise
--   1, the reset of each window, repaired, what was moved, strikes, the next strike's instant, and
--   0 without a ban or 1 for one in force, 2 for one that this decision made, 3 for one that it only
--   observed: until, length, field, offences, and of those two how many strikes made it, and the instant
--   of each.
-- Repaired is 0, or 1 and how many were moved to the present: then the place of each window, from 1 on, or
-- 0 for the ban, and its start or its end before.
-- 2 or 3 in place of the first 0 or 1: the highest count of each window before units of it were taken
-- back, or 0, come next, see lowered.lua.

-- Builds the function that decides any account, if the batch has an account that charge.lua leaves.
local function decider()
  local bans = ARGV[2] ~= ''
  local need, within, grace, observe
  local forget_after, keep = 0, 0
  if bans then
    local a, b, c, d, e = match(ARGV[2], '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    need, within, grace, forget_after = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
    keep, observe = max(within, grace), e == '1'
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
    local until_ms, length, field, offences = match(text, '^(%d+) (%d+) (%w+) (%d+)$')
    if not until_ms or not is_window(field) then return nil end
    until_ms, length, offences = tonumber(until_ms), tonumber(length), tonumber(offences)
    if until_ms > EXACT or length > EXACT or offences > EXACT then return nil end
    return { until_ms, length, field, offences }
  end

  local function ban_length(offences)
    local length, seen = 0, 0
    for each in string.gmatch(ARGV[3], '%S+') do
      length, seen = tonumber(each), seen + 1
      if seen > offences then break end
    end
    return length
  end

  local function tell(value)
    n = n + 1
    out[n] = value
    if type(value) == 'number' then sum = (sum + value % EXACT) % EXACT end
  end

  -- The earliest instant of the next strike: strictly after the grace of the window, and spaced.
  local function due_at(refused, strikes)
    local due = refused + grace + 1
    local last = strikes[#strikes]
    if last and last + grace > due then return last + grace end
    return due
  end

  local function recent(strikes)
    local count = 0
    for i = 1, #strikes do
      if now - strikes[i] < within then count = count + 1 end
    end
    return count
  end

  local function within_reach(strikes)
    local counted = {}
    for i = 1, #strikes do
      if now - strikes[i] < within then counted[#counted + 1] = strikes[i] end
    end
    return counted
  end

  local function joined(instants)
    local texts = {}
    for i = 1, #instants do texts[i] = format('%.0f', instants[i]) end
    return table.concat(texts, ' ')
  end

  -- The tables of the current account; they are reused for one account after another, and `plan` is its own.
  local NO_STRIKES, NO_MOVES = {}, {}
  local plan
  local start, used, refused, changed, fresh, set = {}, {}, {}, {}, {}, {}

  -- The hash by field; nil if the key has another type, and then it is deleted.
  local function read(key)
    local all = pcall('HGETALL', key)
    if has_other_type(all) then
      ask_first('DEL', key)
      return nil
    end
    local stored = {}
    for i = 1, #all, 2 do stored[all[i]] = all[i + 1] end
    return stored
  end

  -- How long the hash is needed: to the end of every window, strike and ban in it. Windows that are
  -- over and belong to other limits leave the hash.
  local function lifetime(key, stored, fields, count, strikes, ban)
    local last = now
    for i = 1, count do
      if not is_apart(fields[i]) then last = max(last, window_end(fields[i], start[i], plan.calendar)) end
      stored[fields[i]] = nil
    end
    for field, text in pairs(stored) do
      local begun = is_window(field) and read_window(text)
      if begun then
        local over = latest_end(field, begun)
        if over <= now then pcall('HDEL', key, field) else last = max(last, over) end
      end
    end
    if strikes[1] then last = max(last, strikes[#strikes] + keep) end
    if ban then last = max(last, ban[1] + forget_after) end
    return last - now + SPARE
  end

  -- Lua writes a count of up to 10^12 exactly; anything else is formatted.
  local function window_text(i)
    local text = plan.texts[i]
    if text and refused[i] == 0 and used[i] <= 1e12 and start[i] == plan.starts[i] then
      return text .. ' ' .. used[i] .. ' 0'
    end
    return format('%.0f %.0f %.0f', start[i], used[i], refused[i])
  end

  -- The window that resets last of those in which the cost does not fit, leaving out caps and meters.
  local function last_exhausted(fields, limits, count, cost)
    local last, last_end = nil, 0
    if cost == 0 then return nil end
    for i = 1, count do
      if used[i] + cost > limits[i] and not is_apart(fields[i]) then
        local ending = window_end(fields[i], start[i], plan.calendar)
        if ending >= last_end then last, last_end = i, ending end
      end
    end
    return last
  end

  -- One in the future, as the clock went back, is none.
  local function first_refusal(i)
    return refused[i] > now and 0 or refused[i]
  end

  local function with_move(moved, place, from)
    if moved == NO_MOVES then moved = {} end
    moved[#moved + 1] = { place, from }
    return moved
  end

  return function(key, units, its_plan, grants)
    plan = its_plan
    local fields, limits, count, cost = plan.fields, plan.limits, plan.count, plan.cost
    local kept = plan.kept and tonumber(plan.kept)
    local holds = plan.holds
    local repaired, dirty, moved = false, false, NO_MOVES
    local stored = read(key)
    if not stored then stored, repaired = {}, true end
    if plan.apart then
      for i = 1, count do
        if is_apart(fields[i]) then
          local text, damaged, elsewhere = read_apart(key, fields[i])
          if elsewhere then return tell(-1) end
          stored[fields[i]], repaired = text, repaired or damaged
        end
      end
    end

    -- present(): brings the account to now.
    local aligned = true
    for i = 1, count do
      local field = fields[i]
      local text = stored[field]
      local begun, charged, first
      changed[i], fresh[i] = false, false
      if text then
        begun, charged, first = read_window(text)
        if not begun then repaired = true end
      end
      local starting = plan.starts[i]
      if not begun or begun < starting then
        begun, charged, first, changed[i], fresh[i] = starting, 0, 0, true, true
      elseif begun > starting then
        if begun - now > window_end(field, begun, plan.calendar) - begun then
          moved = with_move(moved, i, begun)
          -- A peek leaves it to the next request, whose gateway logs what was moved.
          begun, first, changed[i] = starting, 0, units > 0
        else
          aligned = false
        end
      end
      start[i], used[i], refused[i] = begun, charged, first
    end

    local ban, ban_changed, ban_from, strikes, strikes_changed = nil, false, nil, NO_STRIKES, false
    if stored.b then
      ban = read_ban(stored.b)
      if not ban then ban_changed, repaired = true, true end
      if ban and ban[1] - now > 2 * ban[2] then
        moved, ban_from = with_move(moved, 0, ban[1]), ban[1]
        ban[1], ban_changed, repaired = now + ban[2], true, true
      end
      if ban and bans and ban[1] + forget_after <= now then ban, ban_changed = nil, true end
    end
    if stored.k then
      local all = read_strikes(stored.k)
      if not all then all, strikes_changed, repaired = {}, true, true end
      strikes = {}
      for i = 1, #all do
        if abs(now - all[i]) < keep then strikes[#strikes + 1] = all[i] else strikes_changed = true end
      end
    end

    -- The ban, then every window: charged all or none.
    local banned = bans and ban and ban[1] > now
    local granted = 0
    if grants and not banned and units > 0 then
      granted = units
      for i = 1, count do
        local each, room = holds and holds[i] or cost, plan.rooms[i] - used[i]
        if each > 0 then
          granted = min(granted, floor(room / each))
        elseif holds and holds[i] and room <= 0 then
          granted = 0
        end
      end
      granted = max(0, granted)
      for i = 1, granted > 0 and count or 0 do
        local each = holds and holds[i] or cost
        if each > 0 then used[i], changed[i] = used[i] + granted * each, true end
      end
    end

    -- strike().
    local last = last_exhausted(fields, limits, count, cost)
    local left = units - granted
    -- The first refusal of a cap or a meter is noted, because its count may go down later.
    for i = 1, plan.apart and left > 0 and not banned and count or 0 do
      local hold = holds and holds[i]
      local each = hold and max(hold, 1) or cost
      if is_apart(fields[i]) and refused[i] == 0 and each > 0 and used[i] + each > limits[i] then
        refused[i], changed[i] = now, true
      end
    end
    local earned, earned_how, earned_by
    if left > 0 and not banned and last then
      if first_refusal(last) == 0 then
        refused[last], changed[last] = now, true
      end
      while bans and left > 0 and now >= due_at(refused[last], strikes) do
        if strikes == NO_STRIKES then strikes = {} end
        strikes[#strikes + 1], strikes_changed, left = now, true, left - 1
        if recent(strikes) >= need then
          local offences = ban and ban[4] or 0
          local length = ban_length(offences)
          earned, earned_how = { now + length, length, fields[last], offences + 1 }, 2
          earned_by, strikes = within_reach(strikes), {}
          if observe then
            refused[last], changed[last], earned_how = now, true, 3
          else
            ban, ban_changed = earned, true
          end
          break
        end
      end
    end

    -- A peek changes only damaged fields. A refusal that changes nothing writes nothing.
    local begins = false
    for i = 1, count do dirty, begins = dirty or changed[i], begins or fresh[i] end
    if repaired or (units > 0 and (dirty or strikes_changed or ban_changed)) then
      local size, left = 0, ask_first('PTTL', key)
      if begins or repaired or moved[1] or strikes_changed or ban_changed or left < 0 or #KEYS ~= 1 then
        ask_permission(key, left)
      end
      for i = 1, count do
        if changed[i] and is_apart(fields[i]) then
          local over = window_end(fields[i], start[i], plan.calendar)
          write_apart(key, fields[i], window_text(i), over, now, fresh[i])
        elseif changed[i] then
          set[size + 1], set[size + 2] = fields[i], window_text(i)
          size = size + 2
        end
      end
      if ban_changed and ban then
        set[size + 1], set[size + 2] = 'b', format('%.0f %.0f %s %.0f', ban[1], ban[2], ban[3], ban[4])
        size = size + 2
      end
      if strikes_changed and strikes[1] then
        set[size + 1], set[size + 2] = 'k', joined(strikes)
        size = size + 2
      end
      if ban_changed and not ban then ask_first('HDEL', key, 'b') end
      if strikes_changed and not strikes[1] then ask_first('HDEL', key, 'k') end
      if size > 0 then ask_first('HSET', key, unpack(set, 1, size)) end
      -- Its time to live is only ever extended.
      local life = lifetime(key, stored, fields, count, strikes, ban)
      if left < life then call('PEXPIRE', key, format('%.0f', life)) end
    end

    if ban_from and ban then move_cause(key, ban_from, ban[1]) end
    if earned_how == 2 then
      keep_cause(key, ban[1], now, 'k ' .. joined(earned_by), ban[1] - now + forget_after + SPARE)
    end

    local marks
    local marked = { fields = fields, start = start, used = used, granted = granted, now = now }
    if stored.q then marks = take_marks(nil, key, stored.q, marked, false) end
    if holds then
      local hash = meters_of(key)
      local lowered = call('HGET', hash, 'q')
      if lowered then marks = take_marks(marks, hash, lowered, marked, true) end
    end

    -- The day is not part of the account: numbers that waited are added to their days.
    day_repaired = false
    if kept and stored.y and units > 0 then remember_waiting(key, stored.y, kept, now) end
    if kept and granted > 0 then
      remember(key, floor(now / DAY), granted, granted * cost, kept, now, plan.name)
      if holds then remember_holds(key, fields, holds, granted, kept, now) end
    end

    repaired = repaired or day_repaired or moved[1] ~= nil

    -- verdictOf().
    tell(granted)
    for i = 1, count do tell(used[i]) end
    local in_force = bans and ban and ban[1] > now
    local due = now
    if bans and not in_force and last and first_refusal(last) > 0 then
      due = max(now, due_at(refused[last], strikes))
    end
    local struck = bans and recent(strikes) or 0
    if aligned and not repaired and not in_force and struck == 0 and due == now and not earned then
      tell(marks and 2 or 0)
      for i = 1, marks and count or 0 do tell(marks[i] or 0) end
      return
    end
    tell(marks and 3 or 1)
    for i = 1, marks and count or 0 do tell(marks[i] or 0) end
    for i = 1, count do tell(window_end(fields[i], start[i], plan.calendar)) end
    local how = earned and earned_how or in_force and 1 or 0
    tell(repaired and 1 + #moved or 0)
    for _, each in ipairs(moved) do
      tell(each[1])
      tell(each[2])
    end
    for _, value in ipairs({ struck, due, how }) do tell(value) end
    if how == 0 then return end
    for _, value in ipairs(earned or ban) do tell(value) end
    if not earned then return end
    tell(#earned_by)
    for i = 1, #earned_by do tell(earned_by[i]) end
  end
end
