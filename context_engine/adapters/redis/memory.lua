#!lua flags=allow-oom
-- Reads a session's derived text, if proven: a look that keeps nothing and has no surface.
-- KEYS: marks, memory. Returns the text or nil.
local marks, name = KEYS[1], KEYS[2]
local state = redis.call('HMGET', marks, '#epoch', '#clock')
if not state[1] then
  return nil
end
local _, text = proven(marks, name, state[1], reign(), state[2], milliseconds())
return text
