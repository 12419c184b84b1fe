#!lua flags=allow-oom
-- Proves for each partition that all before a beat was applied here.
-- KEYS: the hash of what was proven, then the proof of each partition.
-- ARGV: life of a proof in ms; for each partition: its name in the hash, the beat's pulse in ms,
--       its reigns, the offset behind it, what else the proof says.
-- The hash says for each partition what was proven, and under its name and `@` until when.
-- A beat under another reign than ours proves nothing: its marks may be missing here. So a proof
-- that was copied from a deposed primary is in nobody's way, however late it ends by that clock.
local server, now, life = reign(), milliseconds(), tonumber(ARGV[1])
for beat = 1, #KEYS - 1 do
  local arg, name = 2 + (beat - 1) * 5, KEYS[1 + beat]
  local ends = tonumber(ARGV[arg + 1]) + life
  if string.find(ARGV[arg + 2], server, 1, true) then
    local proof = ARGV[arg + 2] .. '\n' .. ARGV[arg + 3] .. '\n' .. ARGV[arg + 4]
    local before = redis.call('HGET', KEYS[1], ARGV[arg])
    local until_then = 0  -- by the clock of a deposed primary nothing is proven here
    if before and string.find(before, server, 1, true) then
      until_then = tonumber(redis.call('HGET', KEYS[1], ARGV[arg] .. '@') or 0)
    end
    redis.call('HSET', KEYS[1], ARGV[arg], proof, ARGV[arg] .. '@', math.max(until_then, ends))
    local standing = redis.pcall('GET', name)
    local ours = type(standing) == 'string' and string.find(standing, server, 1, true)
    if ends > now and not (ours and ends < redis.call('PEXPIRETIME', name)) then
      redis.call('SET', name, proof, 'PXAT', ends)
    end
  end
end
return 1
