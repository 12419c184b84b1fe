#!lua flags=allow-oom
-- Looks under one reading of the clock. Without `no-writes` on purpose: so a deposed primary and
-- a replica refuse it at once. With `allow-oom`: a full store still serves what it holds.
-- KEYS: marks, then for each look: whole, surface, session, the user's sessions, the lead.
-- ARGV: life of the marks in ms, then for each look: '1' to read entries, coordinates to keep
--       in the session or '', seconds, '1' where its names assume that the session keeps nothing
--       but those coordinates: where it does, no entry is read; the life of a lead in ms, to take
--       it where the whole is read and not there, or 0; at last who looks: a lead of theirs is
--       theirs again, since a reply that was lost on the way told nobody.
-- A denial, which has no hash, keeps no session: its coordinates were refused.
-- Returns {reign, now, epoch or nil where there are no marks, clock, and for each look
-- {the session's coordinates or nil, its context hash, 1 where the lead was taken and -1 where
-- another has it, kind, ...}: 0 for no entry, 1, payload, built, expires, hash for the whole,
-- 2, payload, built, expires, hash, tags for the surface}.
local server, now = reign(), milliseconds()
local marks = KEYS[1]
local state = redis.call('HMGET', marks, '#epoch', '#clock')
local epoch, clock = state[1], state[2]
if epoch then
  redis.call('PEXPIRE', marks, ARGV[1])
end

local seen = {server, now, epoch, tonumber(clock or 0)}
for look = 0, (#KEYS - 1) / 5 - 1 do
  local key, arg = 1 + look * 5, 1 + look * 5
  local whole, surface, session = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  local coordinates = ARGV[arg + 2]
  local found = {false, false, 0, 0}
  local kept = redis.call('HMGET', session, 'n', 'c', 'h')
  if kept[1] == session then
    found[1], found[2] = kept[2], kept[3]
  end
  local mistaken = ARGV[arg + 4] == '1' and found[1] and found[1] ~= coordinates
  if epoch and ARGV[arg + 1] == '1' and not mistaken then
    local hash, payload, built, expires = proven(marks, whole, epoch, server, clock, now)
    if payload then
      found = {found[1], found[2], 0, 1, payload, built, expires, hash}
      if coordinates ~= '' and hash ~= '' then
        keep_session(session, KEYS[key + 4], coordinates, hash, ARGV[arg + 3], now)
      end
    else
      hash, payload, built, expires = proven(marks, surface, epoch, server, clock, now)
      if payload then
        local tags = redis.call('HGET', surface, 't')
        found = {found[1], found[2], 0, 2, payload, built, expires, hash, tags}
      end
      if ARGV[arg + 5] ~= '0' then
        local lead, who = KEYS[key + 5], ARGV[#ARGV]
        local taken = redis.call('SET', lead, who, 'NX', 'PX', ARGV[arg + 5])
        found[3] = (taken or redis.pcall('GET', lead) == who) and 1 or -1
      end
    end
  end
  seen[5 + look] = found
end
return seen
