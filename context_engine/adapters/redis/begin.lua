#!lua flags=allow-oom
-- Notes the database's timeline, on the server where everything of another has ended.
-- KEYS: where it is noted. ARGV: the timeline; the reigns under which all was ended.
local server = reign()
for one = 2, #ARGV do
  if ARGV[one] == server then
    redis.call('SET', KEYS[1], ARGV[1])
  end
end
return 1
