#!lua flags=allow-oom
-- Looks at the proofs of partitions. Without `no-writes` on purpose, as every read here.
-- KEYS: the hash of what was proven, then the proof of each partition.
-- ARGV: the name of each partition in the hash.
-- Returns {reign, then for each {proof or nil, ms left, less than 0 where it has ended}}.
local found, now = {reign()}, milliseconds()
for i = 2, #KEYS do
  local proof, left = redis.call('GET', KEYS[i]), redis.call('PTTL', KEYS[i])
  if not proof then
    local proven = redis.call('HMGET', KEYS[1], ARGV[i - 1], ARGV[i - 1] .. '@')
    proof, left = proven[1], math.min(0, tonumber(proven[2] or now) - now)
  end
  found[i] = {proof, left}
end
return found
