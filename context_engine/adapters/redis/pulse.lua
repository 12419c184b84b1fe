#!lua flags=allow-oom
-- The server's time, who it is, and whether it took nobody's place: for those of a cluster. Without
-- `no-writes` on purpose: a deposed primary refuses it.
-- Returns {reign, milliseconds, 1 or nil}.
return {reign(), milliseconds(), first()}
