#!lua flags=allow-oom
-- Notes the database's timeline, on the server where everything of another has ended.
-- KEYS: where it is noted. ARGV: the timeline, the reign under which all was ended.
if reign() == ARGV[2] then
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
