"""The worlds that are walked through, and the faults that are planted in them.

Every fault is planted in a world in which the protocol as it is breaks nothing.
"""

from __future__ import annotations

from dataclasses import replace

from tests.properties.model.world import Fault, World

CACHE = World("cache", changes=2, others=1, requests=2, events=1, flushes=1, evictions=1)
FIRST_BUILDS = World("first builds", changes=1, requests=3, events=1, flushes=1, evictions=1)
TEXTS = World("texts", changes=2, requests=2, events=1, flushes=1, texts=True)
FLIGHTS = World("flights", changes=2, requests=3, joining=True)
FAILBACK = World("failback", changes=1, requests=2, failovers=2, ticks=1)
AGES = World("ages", changes=1, requests=3, ticks=3, ttl=2)

TIMELINES = World("timelines", changes=2, others=1, requests=2, databases=1)

_LIVE = World("", seeded=True, changes=1, requests=1, ticks=2, partitions=1, beats=2)
_ONCE = replace(_LIVE, ticks=1, beats=1)
RELAYS = replace(_LIVE, name="relays that die", relays=2, deaths=1, beats=1)
BEATS = replace(_LIVE, name="relays that stand still", relays=2)
CONSUMERS = replace(_LIVE, name="consumers killed", kills=1, ticks=1)
HANDOVER = replace(_ONCE, name="a partition handed over", consumers=2, handovers=1)
PARTITIONS = replace(_ONCE, name="two partitions", partitions=2, changes=2)
NUMBERS = replace(_LIVE, name="a late number", late_number=True)
EVICTED = replace(_ONCE, name="keys evicted", requests=2, evictions=1)
FLUSHED = replace(_ONCE, name="flushed", requests=2, flushes=1)
FAILOVER = replace(_ONCE, name="failover", failovers=1)
DATABASE = replace(_ONCE, name="the database failed over", databases=1, cached=True, beats=2)
PRIMARIES = replace(_LIVE, name="two primaries", overlapping=True, ticks=1)
RETRIED = replace(_ONCE, name="a part away under a new reign", overlapping=True, retries=1)
KILLED = replace(_ONCE, name="two primaries, a consumer killed", overlapping=True, kills=1, lag=2)

SHORT: tuple[World, ...] = (
    CACHE,
    FIRST_BUILDS,
    TEXTS,
    FLIGHTS,
    FAILBACK,
    AGES,
    TIMELINES,
    RELAYS,
    BEATS,
    CONSUMERS,
    HANDOVER,
    PARTITIONS,
    NUMBERS,
    EVICTED,
    FLUSHED,
    FAILOVER,
    DATABASE,
    PRIMARIES,
    RETRIED,
    KILLED,
)

PLANTED: tuple[tuple[Fault, World, int], ...] = (
    (Fault.NO_EPOCH, FIRST_BUILDS, 10),
    (Fault.NO_REIGN, FAILBACK, 10),
    (Fault.RUN_ID_ALONE, FAILBACK, 12),
    (Fault.CLOCK_AFTER_DATABASE, CACHE, 10),
    (Fault.STAMP_AT_FILL, CACHE, 8),
    (Fault.DELETE_IN_PLACE_OF_MARK, CACHE, 8),
    (Fault.COMPARED_ONLY_AT_FILL, CACHE, 9),
    (Fault.STAMP_WITHOUT_LOOKING, FIRST_BUILDS, 12),
    (Fault.MARK_BEFORE_COMMIT_ONLY, CACHE, 8),
    (Fault.NO_ABSENCE_TAG, CACHE, 8),
    (Fault.JOIN_WITHOUT_RULE, FLIGHTS, 9),
    (Fault.SLIDING_EXPIRY, AGES, 11),
    (Fault.UNCONDITIONAL_TEXT, TEXTS, 6),
    (Fault.LIVE_BY_OWN_POSITION, BEATS, 11),
    (Fault.LIVE_BY_SKIP_LOCKED, BEATS, 15),
    (Fault.TIME_AFTER_SELECT, BEATS, 14),
    (Fault.NO_WAIT_FOR_ROWS, BEATS, 14),
    (Fault.POSITION_BEFORE_APPLY, CONSUMERS, 19),
    (Fault.OUTBOX_BY_CURSOR, NUMBERS, 19),
    (Fault.DEADLINE_AFTER_READ, BEATS, 20),
    (Fault.ONE_PARTITION, PARTITIONS, 20),
    (Fault.NO_SEEK_BACK, PRIMARIES, 20),
    (Fault.ANY_REIGN_LIVE, PRIMARIES, 20),
    (Fault.MARKS_ANYWHERE, FAILOVER, 20),
    (Fault.GAP_INHERITED, KILLED, 20),
    (Fault.PROVEN_BY_RETRY, RETRIED, 20),
    (Fault.BEATS_AT_ONCE, PRIMARIES, 20),
    (Fault.MARKS_AT_ONCE, PRIMARIES, 20),
    (Fault.SIGHT_OF_ANOTHER, FAILBACK, 20),
    (Fault.NO_TIMELINE, DATABASE, 20),
    (Fault.MARKS_OF_ANY_DATABASE, TIMELINES, 20),
    (Fault.BEATS_OF_ANY_DATABASE, DATABASE, 20),
)
"""Fault, world, and the steps within which it must be found."""

LONG: tuple[World, ...] = (
    replace(CACHE, name="cache, 3 requests", requests=3, others=0),
    replace(CACHE, name="cache, 3 changes", changes=3),
    replace(FLIGHTS, name="flights, 4 requests", requests=4, events=1),
    replace(TEXTS, name="texts, 3 requests", requests=3),
    replace(FAILBACK, name="failback, 2 changes", changes=2),
    replace(BEATS, name="relays that stand still and die", deaths=1, life=2, ticks=3),
    replace(CONSUMERS, name="consumers killed twice", kills=2, ticks=2),
    replace(HANDOVER, name="a partition handed over twice", handovers=2, ticks=2, beats=2),
    replace(PARTITIONS, name="two partitions, proofs of two moments", beats=2, life=2, ticks=2),
    replace(FLUSHED, name="keys evicted, flushed", evictions=1),
    replace(DATABASE, name="the database failed over, a change after it", changes=2),
    replace(
        DATABASE, name="the database failed over under a build", cached=False, beats=1, requests=2
    ),
    replace(TIMELINES, name="timelines, failed over twice", databases=2, requests=3),
    replace(FAILOVER, name="failover, clocks that differ", beats=2, skew=1, rereads=2),
    replace(KILLED, name="two primaries, a consumer and a relay killed", deaths=1),
    replace(RETRIED, name="a part away under a new reign, two beats", beats=2, rereads=2, ticks=1),
)
