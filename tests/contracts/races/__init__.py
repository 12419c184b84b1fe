"""The races that a cache must not lose: each with its barriers, on real Valkey and PostgreSQL.

| race | test |
|---|---|
| 1 a build reads, a change is committed and marked, the build fills | `test_builds.test_1_*` |
| 2 the same with the delete lost | `test_builds.test_2_*` |
| 3 the same with everything flushed before the fill | `test_builds.test_3_*` |
| 4 marks evicted, the entry survives | `test_builds.test_4_*` |
| 5 a replica without the mark is promoted; and back | `test_failover.test_5_*` |
| 6 the newer entry filled and evicted, then a slow old fill | `test_builds.test_6_*` |
| 7 events v2, v1, v2 again | `test_builds.test_7_*` |
| 8 a mark before the commit, a reader refills | `test_lines.test_8_*`; every service: `contracts/test_services_outbox` |
| 9 a change during a build, a second reader arrives | `contracts/test_engine_flights.test_who_arrives_after_a_change_is_not_given_what_was_read_before` |
| 10 "not found" cached, then a grant | `test_builds.test_10_*`; every kind of it: `contracts/test_denials` |
| 11 a consumer killed between marks, deletes and commit | `e2e/test_invalidation_killed.test_killed_between_two_steps_redelivery_completes_it` |
| 12 a rebalance with records fetched | `test_rebalance.test_12_*`; processes: `e2e/test_invalidation_killed` |
| 13 relay or consumer stands still | `test_lines.test_13_*`; processes frozen and killed: `e2e/test_liveness` |
| 14 clocks that are off | `test_lines.test_14_*` |
| 15 the new enemy: revoke, then edit | `test_lines.test_15_*` |
| 16 a hot entry past its life | `test_lines.test_16_*`; in the store alone: `contracts/cache/test_changes` |

`test_planted` plants the faults that each of them is there to catch.
"""
