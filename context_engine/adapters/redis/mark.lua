#!lua flags=allow-oom
-- Applies a change: the clock rises by one, and the tags are marked with it. A full store must
-- not block a revocation, hence `allow-oom`.
-- KEYS: marks.
-- ARGV: a random epoch to make the marks with, or '' to make none; life in ms; most fields; the
--       database's timeline or ''; the tags.
-- Returns {reign} where there are no marks, else {reign, epoch, clock}.
local marks = KEYS[1]
local kind = redis.call('TYPE', marks)['ok']
if kind ~= 'none' and (kind ~= 'hash' or not tonumber(redis.call('HGET', marks, '#clock') or 0)) then
  -- Not ours: a change must be applied whatever lies there.
  redis.call('UNLINK', marks)
end
if redis.call('HLEN', marks) > tonumber(ARGV[3]) then
  -- Costs misses, never staleness: what was stored under the old epoch is valid no more.
  redis.call('UNLINK', marks)
end
local timeline = ARGV[4]
if timeline ~= '' then
  local noted = redis.call('HGET', marks, '#timeline')
  if noted and noted ~= timeline then
    redis.call('UNLINK', marks) -- what was read of another database may never have been
  end
end
local epoch = redis.call('HGET', marks, '#epoch')
if not epoch then
  if ARGV[1] == '' then
    return {reign()}
  end
  epoch = ARGV[1]
  redis.call('HSET', marks, '#epoch', epoch)
end
local clock = redis.call('HINCRBY', marks, '#clock', 1)
if timeline ~= '' then
  redis.call('HSET', marks, '#timeline', timeline)
end
for first = 5, #ARGV, SLICE do
  local fields = {}
  for tag = first, math.min(first + SLICE - 1, #ARGV) do
    fields[#fields + 1] = ARGV[tag]
    fields[#fields + 1] = clock
  end
  redis.call('HSET', marks, unpack(fields))
end
redis.call('PEXPIRE', marks, ARGV[2])
return {reign(), epoch, clock}
