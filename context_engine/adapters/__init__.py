"""The rim: the ports in PostgreSQL, Redis and memory."""
