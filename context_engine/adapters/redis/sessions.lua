#!lua flags=allow-oom
-- Reads sessions' coordinates. Without `no-writes`, so that only a serving primary answers.
-- KEYS: the sessions. Returns for each {} or {coordinates, last context hash}.
local found = {}
for i, session in ipairs(KEYS) do
  local kept = redis.call('HMGET', session, 'n', 'c', 'h')
  found[i] = kept[1] == session and {kept[2], kept[3]} or {}
end
return found
