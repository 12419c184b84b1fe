#!lua flags=allow-oom
-- The server's time and who it is, read together. Without `no-writes` on purpose: a deposed
-- primary refuses it.
-- KEYS: where it is noted who reigns, and since when that is known; and which of the database's
--       timelines.
-- ARGV: how long a primary may go on that was deposed, in ms.
-- Returns {reign, milliseconds, the time from which on none goes on, or 0 where there is none,
-- the timeline or nil}.
local server, now = reign(), milliseconds()
local timeline = redis.pcall('GET', KEYS[2])
if type(timeline) ~= 'string' then
  timeline = false
end
local info = redis.call('INFO', 'replication')

local function says(line)
  return string.find(info, '\n' .. line, 1, true) ~= nil
end

-- It took nobody's place, nobody can take its place, and it asks for no replica.
if says('connected_slaves:0\r') and says('master_replid2:' .. string.rep('0', 40))
  and not says('min_slaves_good_slaves:') then
  return {server, now, 0, timeline}
end
local noted = redis.pcall('GET', KEYS[1])
local since = nil
if type(noted) == 'string' and string.sub(noted, 1, #server) == server then
  since = tonumber(string.sub(noted, #server + 2))
end
if not since then
  since = now -- under another reign it was another server's: by its clock, and of its time
  redis.call('SET', KEYS[1], server .. ' ' .. since)
end
return {server, now, since + ARGV[1], timeline}
