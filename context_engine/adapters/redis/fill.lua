#!lua
-- Stores what a build made, if nothing it depends on was marked since it read the clock.
-- KEYS: marks, session, the user's sessions, the lead that ends with this, the entries, the index
--       of each tag.
-- ARGV: epoch, reign, life of the marks in ms, number of entries, number of tags; for the
--       session: tag of the user's access, the build's clock, coordinates or '' for none,
--       context hash, seconds; for each entry: group, clock, built, expires, hash, payload, tags;
--       the tags; for each tag the numbers of the entries that carry it, one digit each; the
--       database's timeline that was read, or ''.
-- A group is stored whole or not at all: 'e' for the answer, 'q' for a denial, which is unlinked
-- without a word, 'm' for a session's derived text. An answer that a change has ended stays named
-- in that change's index, so that its eviction, still to come, tells of it.
-- Returns 1 when the answer or the denial was stored, else 0.
local marks, session, sessions = KEYS[1], KEYS[2], KEYS[3]
local epoch, server, life = ARGV[1], ARGV[2], ARGV[3]
redis.call('DEL', KEYS[4])
local entries, tags = tonumber(ARGV[4]), tonumber(ARGV[5])
local stood = redis.call('HMGET', marks, '#epoch', '#timeline')
if stood[1] ~= epoch or reign() ~= server then
  return 0
end
local timeline = ARGV[#ARGV]
if timeline ~= '' and timeline ~= stood[2] then
  if stood[2] then
    redis.call('UNLINK', marks) -- as in `mark.lua`
    return 0
  end
  redis.call('HSET', marks, '#timeline', timeline)
end
local now = milliseconds()
redis.call('PEXPIRE', marks, life)

if ARGV[8] ~= '' then
  local ended = redis.call('HGET', marks, ARGV[6])
  if not ended or tonumber(ended) <= tonumber(ARGV[7]) then
    keep_session(session, sessions, ARGV[8], ARGV[9], ARGV[10], now)
  end
end

local ENTRY, FIELDS = 10, 7
local first_tag = ENTRY + entries * FIELDS
local group, clock = {}, {}
for entry = 1, entries do
  group[entry] = ARGV[ENTRY + (entry - 1) * FIELDS + 1]
  clock[entry] = tonumber(ARGV[ENTRY + (entry - 1) * FIELDS + 2])
end

local refused, carriers, marked = {}, {}, {}
for first = 1, tags, SLICE do
  local last = math.min(first + SLICE - 1, tags)
  local found = redis.call('HMGET', marks, unpack(ARGV, first_tag + first, first_tag + last))
  for tag = first, last do
    local mark = tonumber(found[tag - first + 1] or 0)
    marked[tag] = mark
    carriers[tag] = {string.byte(ARGV[first_tag + tags + tag], 1, -1)}
    for i, digit in ipairs(carriers[tag]) do
      local entry = digit - 48
      carriers[tag][i] = entry
      if mark > clock[entry] then
        refused[group[entry]] = true
      end
    end
  end
end

-- For each denial, the clock of the answer whose place it takes, itself or after other denials:
-- kept with it, as what ended that answer may still have to be told.
local ended_after = {}
for entry = 1, entries do
  if not refused[group[entry]] then
    local arg, name = ENTRY + (entry - 1) * FIELDS, KEYS[4 + entry]
    if group[entry] == 'q' then
      local before = redis.call('HMGET', name, 'e', 'r', 'c', 'a')
      if before[1] == epoch and before[2] == server and before[4] ~= '-' then
        ended_after[entry] = tonumber(before[4] or '') or tonumber(before[3])
      end
    end
    redis.call('HSET', name, 'n', name, 'e', epoch, 'r', server, 'c', ARGV[arg + 2],
      'b', ARGV[arg + 3], 'x', ARGV[arg + 4], 'h', ARGV[arg + 5], 'p', ARGV[arg + 6],
      't', ARGV[arg + 7], 'a', ended_after[entry] or (group[entry] == 'q' and '-' or ''))
    redis.call('PEXPIREAT', name, ARGV[arg + 4])
    if group[entry] == 'm' then
      redis.call('ZADD', sessions, ARGV[arg + 4], name)
      redis.call('EXPIRE', sessions, ARGV[10])
    end
  end
end

-- The reverse index says whom to unlink, never what is true; it sheds names that have expired.
for tag = 1, tags do
  local index, members = KEYS[4 + entries + tag], {}
  for _, entry in ipairs(carriers[tag]) do
    if not refused[group[entry]] then
      local name = KEYS[4 + entry]
      if group[entry] == 'q' then
        if marked[tag] <= (ended_after[entry] or marked[tag]) then
          redis.call('ZREM', index, name) -- of an answer that this tag did not end
        end
        name = '!' .. name -- as keys.quietly
      end
      members[#members + 1] = ARGV[ENTRY + (entry - 1) * FIELDS + 4]
      members[#members + 1] = name
    end
  end
  if #members > 0 then
    redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
    redis.call('ZADD', index, unpack(members))
    redis.call('PEXPIRE', index, life)
  end
end
return (refused['e'] or refused['q']) and 0 or 1
