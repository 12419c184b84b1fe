-- Shared by every script: put in after its first line.

-- Who serves: the process and its replication history. Either alone was refuted: a primary that
-- was deposed and promoted again is the same process, and may lack a mark it never got.
local function reign()
  local info = redis.call('INFO', 'server', 'replication')
  local process = string.find(info, '\nrun_id:', 1, true) + 8
  local history = string.find(info, '\nmaster_replid:', process, true) + 15
  return string.sub(info, process, process + 39) .. string.sub(info, history, history + 39)
end

-- 1 where this server took nobody's place, nobody can take its place, and it asks for no replica.
local function first()
  local info = redis.call('INFO', 'replication')
  local function says(line)
    return string.find(info, '\n' .. line, 1, true) ~= nil
  end
  local never = says('connected_slaves:0\r') and says('master_replid2:' .. string.rep('0', 40))
  return never and not says('min_slaves_good_slaves:') and 1 or false
end

-- Milliseconds since 1970.
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Lua's stack bounds what one call may unpack.
local SLICE = 1000

-- Whether any of `tags`, joined by newlines, was marked after `clock`.
local function marked_after(marks, tags, clock)
  local names = {}
  for tag in string.gmatch(tags, '[^\n]+') do
    names[#names + 1] = tag
  end
  for first = 1, #names, SLICE do
    local last = math.min(first + SLICE - 1, #names)
    for _, mark in ipairs(redis.call('HMGET', marks, unpack(names, first, last))) do
      if mark and tonumber(mark) > clock then
        return true
      end
    end
  end
  return false
end

-- An entry's fields: e(poch) r(eign) c(lock) x(expiry) n(ame) b(uilt) h(ash) p(ayload) t(ags), and
-- of a denial a(fter), the clock of the answer whose place it takes, or '-' where that is nobody's.
-- Returns hash, payload, built and expiry, proven fresh, or nil.
local function proven(marks, name, epoch, server, clock, now)
  local entry = redis.call('HMGET', name, 'e', 'r', 'n', 'x', 'c', 'b', 'h', 'p')
  if entry[1] ~= epoch or entry[2] ~= server or entry[3] ~= name or tonumber(entry[4]) <= now then
    return nil
  end
  if entry[5] ~= clock then
    local stamp = tonumber(entry[5])
    if stamp > tonumber(clock) then
      return nil
    end
    if marked_after(marks, redis.call('HGET', name, 't'), stamp) then
      return nil
    end
    -- Sound in this call only: marks rise, and none of these rose since the stamp.
    redis.call('HSET', name, 'c', clock)
  end
  return entry[7], entry[8], tonumber(entry[6]), tonumber(entry[4])
end

-- Keeps a session's coordinates, and its name among its user's, which lose what has expired.
local function keep_session(session, sessions, coordinates, hash, seconds, now)
  local added = redis.call('HSET', session, 'n', session, 'c', coordinates, 'h', hash)
  redis.call('EXPIRE', session, seconds)
  if added > 0 then
    redis.call('ZREMRANGEBYSCORE', sessions, '-inf', now)
  end
  redis.call('ZADD', sessions, now + seconds * 1000, session)
  redis.call('EXPIRE', sessions, seconds)
end
