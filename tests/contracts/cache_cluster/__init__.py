"""What only a cluster can do to the cache: slots that move, primaries that change or are away.

Each costs misses; none serves what is stale or another's, and the others go on.
"""
