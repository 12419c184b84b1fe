#!lua flags=allow-oom
-- Unlinks entries whose names an index of answers has. A denial in nobody's place is passed over: it
-- stands where an answer was that was told to have ended, and does not depend on this.
-- KEYS: their names. Returns for each 1 where it was there, 0 where not, -1 where passed over.
local found = {}
for i, name in ipairs(KEYS) do
  if redis.pcall('HGET', name, 'a') == '-' then
    found[i] = -1
  else
    found[i] = redis.call('UNLINK', name)
  end
end
return found
