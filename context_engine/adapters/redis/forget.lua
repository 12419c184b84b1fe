#!lua flags=allow-oom,allow-cross-slot-keys
-- One step of a walk over all keys of a server, which unlinks what it finds: what is found on one
-- server is never unlinked on another.
-- ARGV: cursor, pattern, keys to look at.
-- Returns {reign, the next cursor, names that are on their way between two servers of a cluster}.
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local left = {}
for _, name in ipairs(found[2]) do
  if type(redis.pcall('UNLINK', name)) ~= 'number' then
    left[#left + 1] = name
  end
end
return {reign(), found[1], left}
