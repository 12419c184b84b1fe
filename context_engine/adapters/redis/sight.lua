#!lua flags=allow-oom
-- The server's time and who it is, as `pulse.lua`, and since when that is known of it and others.
-- KEYS: where it is noted since when each reign is known; and which of the database's timelines
--       everything is of.
-- ARGV: how long a primary may go on that was deposed, in ms; the reigns of other primaries that
--       may have deposed one.
-- The note is of this reign, and by this clock: another server's says nothing here.
-- Returns {reign, milliseconds, the time from which on no deposed one goes on, or 0 where there is
-- none, the timeline or nil}.
local server, now = reign(), milliseconds()
local timeline = redis.pcall('GET', KEYS[2])
if type(timeline) ~= 'string' then
  timeline = false
end
local reigns = {unpack(ARGV, 2)}
if not first() then
  reigns[#reigns + 1] = server
end
if #reigns == 0 then
  return {server, now, 0, timeline}
end
if redis.pcall('HGET', KEYS[1], '@') ~= server then
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], '@', server)
end
local latest = 0
for _, one in ipairs(reigns) do
  local since = tonumber(redis.call('HGET', KEYS[1], one) or nil)
  if not since then
    since = now
    redis.call('HSET', KEYS[1], one, since)
  end
  latest = math.max(latest, since)
end
return {server, now, latest + ARGV[1], timeline}
