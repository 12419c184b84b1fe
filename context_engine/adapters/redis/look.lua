#!lua flags=allow-oom
-- Looks under one reading of the clock. Without `no-writes` on purpose: so a deposed primary and
-- a replica refuse it at once. With `allow-oom`: a full store still serves what it holds.
-- KEYS: marks, then for each look: whole, surface, session, the user's sessions.
-- ARGV: life of the marks in ms, then for each look: '1' to read entries, coordinates to keep
--       in the session or '', seconds.
-- Returns {reign, now}, and where there are marks: epoch, clock, and for each look
-- {} | {1, payload, built, expires, hash} (whole) | {2, payload, built, expires, hash, tags}.
local server, now = reign(), milliseconds()
local marks = KEYS[1]
local state = redis.call('HMGET', marks, '#epoch', '#clock')
local epoch, clock = state[1], state[2]
if not epoch then
  return {server, now}
end
redis.call('PEXPIRE', marks, ARGV[1])

local seen = {server, now, epoch, tonumber(clock)}
for look = 0, (#KEYS - 1) / 4 - 1 do
  local key, arg = 1 + look * 4, 1 + look * 3
  local found = {}
  if ARGV[arg + 1] == '1' then
    local whole, surface = KEYS[key + 1], KEYS[key + 2]
    local hash, payload, built, expires = proven(marks, whole, epoch, server, clock, now)
    if payload then
      found = {1, payload, built, expires, hash}
      if ARGV[arg + 2] ~= '' then
        keep_session(KEYS[key + 3], KEYS[key + 4], ARGV[arg + 2], hash, ARGV[arg + 3], now)
      end
    else
      hash, payload, built, expires = proven(marks, surface, epoch, server, clock, now)
      if payload then
        found = {2, payload, built, expires, hash, redis.call('HGET', surface, 't')}
      end
    end
  end
  seen[5 + look] = found
end
return seen
