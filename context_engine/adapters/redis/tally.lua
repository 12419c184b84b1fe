#!lua flags=allow-oom
-- Adds to what was answered in this span of time; what is too old is forgotten.
-- KEYS: the hash of what was answered: for each span its number, `a` for answers, `b` for bypasses.
-- ARGV: length of a span in ms, how many spans count, answers, bypasses.
-- Returns {answers, bypasses} of the spans that count.
local length, spans = tonumber(ARGV[1]), tonumber(ARGV[2])
local span = math.floor(milliseconds() / length)
if tonumber(ARGV[3]) > 0 then
  redis.call('HINCRBY', KEYS[1], span .. 'a', ARGV[3])
  redis.call('HINCRBY', KEYS[1], span .. 'b', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], length * spans)
end
local total = {a = 0, b = 0}
local kept = redis.call('HGETALL', KEYS[1])
for i = 1, #kept, 2 do
  if tonumber(string.sub(kept[i], 1, -2)) > span - spans then
    local kind = string.sub(kept[i], -1)
    total[kind] = total[kind] + tonumber(kept[i + 1])
  else
    redis.call('HDEL', KEYS[1], kept[i])
  end
end
return {total.a, total.b}
