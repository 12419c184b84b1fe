"""The races that a cache must not lose: each with its barriers, on real Valkey and PostgreSQL.

| race | here | elsewhere |
|---|---|---|
| 1 a build reads, a change is marked, the build fills | `test_builds` | `cache.test_entries` |
| 2 the same with the delete lost | `test_builds` | `cache.test_entries` |
| 3 the same with everything flushed before the fill | `test_builds` | `cache.test_changes` |
| 4 marks evicted, the entry survives | `test_builds` | `cache.test_changes` |
| 5 a replica without the mark promoted; and back | `test_failover` | `cache_server.test_reigns` |
| 6 the newer entry filled and evicted, an old fill | `test_builds` | `cache.test_entries` |
| 7 events v2, v1, v2 again | `test_builds` | `cache.test_entries` |
| 8 a mark before the commit, a reader refills | `test_lines` | `test_services` |
| 9 a change during a build, a second reader arrives | | `test_engine_flights` |
| 10 "not found" cached, then a grant | `test_builds` | `test_denials` |
| 11 a consumer killed between any two steps | `test_lines` | `e2e.test_invalidation_killed` |
| 12 a rebalance with records fetched | `test_rebalance` | `e2e.test_invalidation_killed` |
| 13 relay or consumer stands still | `test_lines` | processes: `e2e.test_liveness` |
| 14 clocks that are off | `test_lines` | |
| 15 the new enemy: revoke, then edit | `test_lines` | |
| 16 a hot entry past its life | `test_lines` | `cache.test_changes` |

`test_planted` plants the faults that they are there to catch, and sees each of them caught.
"""
