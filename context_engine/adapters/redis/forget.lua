#!lua flags=allow-oom,allow-cross-slot-keys
-- One step of a walk over all keys, which unlinks what it finds: what is found on one server is
-- never unlinked on another.
-- KEYS: none that matters; it says which server. ARGV: cursor, pattern, keys to look at.
-- Returns {reign, the next cursor}.
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local names = found[2]
for first = 1, #names, SLICE do
  redis.call('UNLINK', unpack(names, first, math.min(first + SLICE - 1, #names)))
end
return {reign(), found[1]}
