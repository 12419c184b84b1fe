#!lua flags=allow-oom
-- The server's time and who it is, read together. Without `no-writes` on purpose: a deposed
-- primary refuses it.
-- Returns {reign, milliseconds}.
return {reign(), milliseconds()}
