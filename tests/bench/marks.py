"""What marks cost: in time, however many entries they end, and in memory."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from uuid import uuid4

from redis.asyncio import Redis

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.changes import RecordsChanged
from context_engine.invalidation import tags_touched
from context_engine.ports import Look, Moment, NewEntry
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure

FEW, MANY = 1_000, int(os.environ.get("BENCH_ENTRIES", "1000000"))
ROUNDS = 200
COPIED = 1_000
TOLD_EACH = 100_000
COPIES = """
local scored = {}
for number = 3, #KEYS do
  redis.call('COPY', KEYS[1], KEYS[number])
  redis.call('HSET', KEYS[number], 'n', KEYS[number])
  scored[#scored + 1] = ARGV[1]
  scored[#scored + 1] = KEYS[number]
end
redis.call('ZADD', KEYS[2], unpack(scored))
redis.call('PEXPIREAT', KEYS[2], ARGV[1])
"""
"""Leaves of an entry what `fill.lua` does. KEYS: it, the index, the names of its copies. ARGV: when
it expires."""

BYTES_EACH = 1_500
"""More than an entry takes with its places in the indexes, when it holds next to nothing."""
SLOW_MICROSECONDS = 2_000
LOGGED = 100_000
MARKED = 10_000
TOUCHED = tags_touched(RecordsChanged(workspace_id="w", table_id="t", op="created"))
"""By the change, and what each entry depends on."""


async def marks(house: BenchHouse) -> list[Measure]:
    """A change read to its marks standing, with few and with many entries that it touches: two
    workspaces of one server, in turn. Then all of them are unlinked, in slices."""
    if _free_bytes() < 2 * MANY * BYTES_EACH:
        print(f"marks: not enough free memory for {MANY:,} entries; left out")
        return await _memory(house)
    patient = house.settings.model_copy(update={"redis_timeout_seconds": 30.0})
    async with RedisCache(house.settings.redis_url, patient) as cache:
        for workspace, size in (("few", FEW), ("many", MANY)):
            await _populate(house, cache, workspace, size)
        return [*await _marked(house, cache), *await _memory(house)]


async def _marked(house: BenchHouse, cache: RedisCache) -> list[Measure]:
    few: list[float] = []
    many: list[float] = []
    async with _slow(house) as slow:
        for _ in range(ROUNDS):
            for workspace, times in (("few", few), ("many", many)):
                started = time.perf_counter()
                await cache.mark_many([(workspace, TOUCHED)])
                times.append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        evicted = await cache.evict("many", TOUCHED)
        unlinked = time.perf_counter() - started
    assert evicted.count == MANY
    scripts = [micros for name, micros in slow if name.startswith(b"EVAL")]
    return [
        Measure(
            f"marks, {MANY:,} entries / {FEW:,} entries",
            median(many),
            "ms",
            median(few),
            f"{FEW:,} entries",
            Goal("<=", 1.3),
        ),
        Measure(f"  unlinking {MANY:,} entries, in slices", unlinked, "s"),
        Measure(
            "  the same and the marks: longest script on the server",
            max(scripts, default=0) / 1000,
            "ms",
            goal=Goal("<=", SLOW_MICROSECONDS / 1000),
        ),
        # By the wall: where others take the processor, some are long that did little.
        Measure(
            f"  scripts over {SLOW_MICROSECONDS / 1000:g} ms, of {2 * ROUNDS + MANY // 100:,}",
            sum(micros > SLOW_MICROSECONDS for micros in scripts),
            "count",
        ),
        Measure(
            "  longest command of any kind",
            max((micros / 1000 for _, micros in slow), default=0.0),
            "ms",
        ),
    ]


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


@asynccontextmanager
async def _slow(house: BenchHouse) -> AsyncIterator[list[tuple[bytes, int]]]:
    """Filled at the end with what the server's slow log holds: commands and microseconds."""
    found: list[tuple[bytes, int]] = []
    async with Redis.from_url(house.settings.redis_url, protocol=2) as redis:
        await redis.config_set("slowlog-log-slower-than", SLOW_MICROSECONDS // 4)
        await redis.config_set("slowlog-max-len", LOGGED)
        await redis.execute_command("SLOWLOG", "RESET")
        yield found
        log = await redis.slowlog_get(LOGGED)
        found += [(entry["command"], entry["duration"]) for entry in log]


async def _populate(house: BenchHouse, cache: RedisCache, workspace: str, size: int) -> None:
    """Entries that hold next to nothing, all of one table: the first as builds fill it, the others
    its copies, each under a name of its own, and in the index like the first."""
    await cache.mark(workspace, frozenset(), create=True)
    scope = keys.scope_of(workspace, "ana", "bench", None)
    nothing = keys.marks_name(workspace)
    moment = (await cache.look(Look(scope, nothing, nothing, skip_entries=True))).moment
    assert moment is not None
    names = [keys.whole_name(scope, f"{number:x}") for number in range(size)]
    first = _entry(names[0], moment)
    assert await cache.fill(moment, [first], None)
    (touched,) = TOUCHED
    index, began = keys.index_name(workspace, touched), time.monotonic()
    async with Redis.from_url(house.settings.redis_url) as redis:
        copy = redis.register_script(COPIES)
        for start in range(1, size, COPIED):
            some = names[start : start + COPIED]
            await copy(keys=[names[0], index, *some], args=[first.expires_ms])
            if (done := start + len(some)) % TOLD_EACH < COPIED and done > COPIED:
                print(f"marks: {done:,} of {size:,} entries, {time.monotonic() - began:.0f} s")
        assert await redis.zcard(index) == size
    last = await cache.look(Look(scope, names[-1], nothing))
    assert last.whole is not None, "a copy is as good as what was filled"


def _entry(name: str, moment: Moment) -> NewEntry:
    return NewEntry(
        name,
        b".",
        TOUCHED,
        moment.clock,
        moment.now_ms,
        moment.now_ms + 3_600_000,
    )


async def _memory(house: BenchHouse) -> list[Measure]:
    """The hash of marks, with ids as the services make them: mostly of fields, the longest."""
    cache = house.parts.cache
    tables = [uuid4().hex for _ in range(MARKED // 50)]
    tags = [keys.value(table, uuid4().hex) for table in tables for _ in range(40)]
    tags += [kind(uuid4().hex) for kind in (keys.rows, keys.access) for _ in range(MARKED // 10)]
    async with Redis.from_url(house.settings.redis_url) as redis:
        for start in range(0, len(tags), 100):
            await cache.mark("marked", frozenset(tags[start : start + 100]), create=True)
        size = await redis.memory_usage(keys.marks_name("marked"), samples=0)
        cap = house.settings.marks_cap
        for _ in range(cap // 500 + 2):
            more = frozenset(keys.value(uuid4().hex, uuid4().hex) for _ in range(500))
            await cache.mark("marked", more, create=True)
        kept = await redis.hlen(keys.marks_name("marked"))
    return [
        Measure("memory of a mark", size / len(tags), "B", goal=Goal("<=", 100)),
        Measure(
            f"  marks kept of {cap + 1_000 + len(tags):,}, with CONTEXT_MARKS_CAP={cap:,}",
            kept,
            "count",
            goal=Goal("<=", cap + 1_000),
        ),
    ]
