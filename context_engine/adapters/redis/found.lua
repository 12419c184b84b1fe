#!lua
-- Makes the marks of a workspace where there are none.
-- KEYS: marks, session, the user's sessions.
-- ARGV: a random epoch, life in ms; coordinates for the session or '', context hash, seconds.
-- The build that found no marks has no clock to prove that its user's membership did not end
-- since. But whoever ends one makes the marks where there are none, and raises the clock: while
-- it stands at 0, nothing has ended, and the session may be kept.
local marks = KEYS[1]
if redis.call('HSETNX', marks, '#epoch', ARGV[1]) == 1 then
  redis.call('HSET', marks, '#clock', 0)
end
redis.call('PEXPIRE', marks, ARGV[2])
if ARGV[3] ~= '' and redis.call('HGET', marks, '#clock') == '0' then
  keep_session(KEYS[2], KEYS[3], ARGV[3], ARGV[4], ARGV[5], milliseconds())
end
return 1
