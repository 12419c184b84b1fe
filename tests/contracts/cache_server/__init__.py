"""What only a server can do to the cache: fill up, be deposed, be away, hold back an answer.

On a Valkey of these tests' own, since its settings are changed.
"""
