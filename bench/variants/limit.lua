-- What Kong and APISIX do, at its leanest: find the key, one script call that decides a ban and two
-- windows all or none, the three fields, then proxy_pass.
local redis = require "nginx.redis"

local SCRIPT = [[
local time = redis.call('TIME')
local now = tonumber(time[1])
local minute, day = now - now % 60, now - now % 86400
local found = redis.call('HMGET', KEYS[1], 'b', 'm', 'mc', 'd', 'dc')
if tonumber(found[1] or 0) > now then return { 2, 0, 0, now, minute, day } end
local mc = found[2] == tostring(minute) and tonumber(found[3]) or 0
local dc = found[4] == tostring(day) and tonumber(found[5]) or 0
if mc >= tonumber(ARGV[1]) or dc >= tonumber(ARGV[2]) then return { 1, mc, dc, now, minute, day } end
redis.call('HMSET', KEYS[1], 'm', minute, 'mc', mc + 1, 'd', day, 'dc', dc + 1)
redis.call('EXPIRE', KEYS[1], 86460)
return { 0, mc + 1, dc + 1, now, minute, day }
]]

local M = { sha = nil }

function M.access()
  local key = string.match(ngx.var.http_authorization or "", "^[Bb]earer +(%S+)$")
  local account = key and ngx.shared.keys:get(ngx.encode_base64(ngx.sha1_bin(key)))
  if not account then return ngx.exit(401) end
  local store = redis:new()
  store:set_timeout(1000)
  local connected = store:connect("127.0.0.1", tonumber(M.redis_port))
  if not connected then return ngx.exit(503) end
  if not M.sha then M.sha = store:script("load", SCRIPT) end
  local reply = store:evalsha(M.sha, 1, "ng:" .. account, M.minute, M.day)
  store:set_keepalive(60000, 256)
  if type(reply) ~= "table" then return ngx.exit(503) end
  local minute_left, day_left = M.minute - reply[2], M.day - reply[3]
  local of_minute = minute_left <= day_left
  ngx.header["X-RateLimit-Limit"] = of_minute and M.minute or M.day
  ngx.header["X-RateLimit-Remaining"] = of_minute and minute_left or day_left
  ngx.header["X-RateLimit-Reset"] = of_minute and reply[5] + 60 or reply[6] + 86400
  if reply[1] ~= 0 then return ngx.exit(429) end
  ngx.req.clear_header("Authorization")
  ngx.req.set_header("X-Consumer-Id", account)
end

return M
