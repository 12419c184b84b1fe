#!lua flags=allow-oom
-- The server's time and who it is, read together. Without `no-writes` on purpose: a deposed
-- primary refuses it.
-- KEYS: where it is noted who reigns, and since when that is known; and which of the database's
--       timelines. Elsewhere than on the primary that keeps the proofs fewer, which play no part.
-- ARGV: how long a primary may go on that was deposed, in ms; 'all' or 'one': whether the next are
--       all of a cluster's primaries, or the only one that is asked about; the reigns of those that
--       may have deposed another.
-- Returns {reign, milliseconds, the time from which on none goes on, or 0 where there is none,
-- the timeline or nil}; elsewhere {reign, 1 where it may have deposed another, else 0}.
local server, now = reign(), milliseconds()
local info = redis.call('INFO', 'replication')

local function says(line)
  return string.find(info, '\n' .. line, 1, true) ~= nil
end

-- It took nobody's place, nobody can take its place, and it asks for no replica.
local sure = says('connected_slaves:0\r') and says('master_replid2:' .. string.rep('0', 40))
  and not says('min_slaves_good_slaves:')
if #KEYS < 2 then
  return {server, sure and 0 or 1}
end
local timeline = redis.pcall('GET', KEYS[2])
if type(timeline) ~= 'string' then
  timeline = false
end
if sure and #ARGV == 2 then
  return {server, now, 0, timeline}
end

local noted, since = redis.pcall('GET', KEYS[1]), {}
-- Under another reign it was another server's: by its clock, and of its time.
if type(noted) == 'string' and string.sub(noted, 1, #server) == server then
  for one, first in string.gmatch(noted, '(%x+) (%d+)') do
    since[one] = tonumber(first)
  end
end
local lines, told, new, latest = {}, {}, false, 0
local function seen(one)
  if not told[one] then
    new = new or not since[one]
    since[one], told[one] = since[one] or now, true
    lines[#lines + 1] = one .. ' ' .. since[one]
  end
  return since[one]
end

local own = seen(server)
if ARGV[2] == 'all' and not sure then
  latest = own
end
for other = 3, #ARGV do
  latest = math.max(latest, seen(ARGV[other]))
end
if new then
  if ARGV[2] == 'one' then
    for one in pairs(since) do
      seen(one)
    end
  end
  redis.call('SET', KEYS[1], table.concat(lines, '\n'))
end
return {server, now, latest == 0 and 0 or latest + ARGV[1], timeline}
