"""The cache beside cashews and aiocache, on the same server, with the same payload and tags."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from statistics import median

from redis.asyncio import Redis

from context_engine import keys
from context_engine.engine import Options
from tests.bench.builds import request
from tests.bench.caches import AT_ONCE, OURS, PAYLOAD, OfAiocache, OfCashews, Ours, Peer
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure

ROUNDS = 5
ONE_BY_ONE = 200
TAGGED = 1_000
"""Entries that an invalidation ends."""
KEPT = 2_000
"""Entries whose memory is measured."""
RACES = 50


Times = dict[str, list[float]]
"""Milliseconds of each round, by the name of the peer."""


async def peers(house: BenchHouse) -> list[Measure]:
    """They take turns in every round; a ratio is the median of the rounds'."""
    url = house.settings.redis_url
    logging.getLogger("aiocache").setLevel(logging.CRITICAL)  # it logs each answer it gave up on
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Redis.from_url(url))
        all_ = [Ours(house), OfCashews(url), OfAiocache(url)]
        found = []
        for what, work in (
            ("hit, one at a time", _hits),
            ("hit, 100 at once", _hits_at_once),
            ("fill with 8 tags", _fills),
            (f"invalidate {TAGGED:,} entries by a tag", _ends),
        ):
            found += _compared(what, await _rounds(all_, work))
        found += _compared(
            f"{AT_ONCE:,} equal misses at once: last", *(await _stampedes(house, all_))
        )
        found += await _bytes(redis, all_)
        for peer in all_:
            stale = await _raced(peer)
            found.append(
                Measure(
                    f"{peer.name}: stale fills served, of {RACES}",
                    stale,
                    "times",
                    goal=Goal("<=", 0) if peer.name == OURS else None,
                )
            )
        return found


async def _rounds(all_: Sequence[Peer], work: Callable[[Peer, int], Awaitable[float]]) -> Times:
    times: Times = {peer.name: [] for peer in all_}
    for number in range(ROUNDS):
        for peer in all_:
            times[peer.name].append(await work(peer, number))
    return times


def _compared(what: str, times: Times, more: Sequence[Measure] = ()) -> list[Measure]:
    ours = times[OURS]
    return [
        Measure(
            f"{what} / {name}",
            median(ours),
            "ms",
            median(theirs),
            name,
            Goal("<=", 1.0),
            ratios=tuple(a / b for a, b in zip(ours, theirs, strict=True)),
        )
        for name, theirs in times.items()
        if name != OURS
    ] + list(more)


async def _hits(peer: Peer, _: int) -> float:
    """Milliseconds of one."""
    begun = await peer.begin()
    for number in range(10):
        await peer.put(number, "hits", begun)
    took = []
    for number in range(ONE_BY_ONE):
        started = time.perf_counter()
        found = await peer.get(number % 10)
        took.append((time.perf_counter() - started) * 1000)
        assert found == PAYLOAD
    return median(took)


async def _hits_at_once(peer: Peer, _: int) -> float:
    """Milliseconds for each, 100 at a time."""
    begun = await peer.begin()
    for number in range(100):
        await peer.put(number, "hits", begun)
    took = []
    for _ in range(20):
        started = time.perf_counter()
        found = await asyncio.gather(*(peer.get(number) for number in range(100)))
        took.append((time.perf_counter() - started) * 10)
        assert all(one == PAYLOAD for one in found)
    return median(took)


async def _fills(peer: Peer, _: int) -> float:
    """Milliseconds of one, with what a build has to do for it before it reads."""
    took = []
    for number in range(ONE_BY_ONE):
        started = time.perf_counter()
        await peer.put(number, "fills", await peer.begin())
        took.append((time.perf_counter() - started) * 1000)
    return median(took)


async def _ends(peer: Peer, _: int) -> float:
    """Milliseconds until none of them is served."""
    begun = await peer.begin()
    for start in range(0, TAGGED, 100):
        await asyncio.gather(
            *(peer.put(number, "ended", begun) for number in range(start, start + 100))
        )
    started = time.perf_counter()
    await peer.end("ended")
    took = (time.perf_counter() - started) * 1000
    assert await peer.get(0) is None
    assert await peer.get(TAGGED - 1) is None
    await peer.tidy("ended")
    return took


async def _stampedes(house: BenchHouse, all_: Sequence[Peer]) -> tuple[Times, list[Measure]]:
    """Milliseconds to the answer of the last, and how often it was built."""
    times: Times = {peer.name: [] for peer in all_}
    builds = dict.fromkeys(times, 0)
    for round_ in range(ROUNDS):
        for peer in all_:
            counted = 0

            async def build(session: str = f"peer-{peer.name}-{round_}") -> bytes:
                nonlocal counted
                counted += 1
                answer = await house.parts.engine.build(
                    request(sessionId=session), Options(fresh=True)
                )
                return answer.context

            await house.parts.cache.mark("w", frozenset({keys.EVERYTHING}), create=True)
            ask = peer.at_once(round_, build)
            started = time.perf_counter()
            answers = await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
            times[peer.name].append((time.perf_counter() - started) * 1000)
            if peer.name == OURS:
                counted = len({a.context_id for a in answers if a.source != "cache"})  # type: ignore[attr-defined]
            builds[peer.name] = max(builds[peer.name], counted)
    return times, [
        Measure(f"  builds of it: {name}", count, "count") for name, count in builds.items()
    ]


async def _bytes(redis: Redis, all_: Sequence[Peer]) -> list[Measure]:
    """What the server holds for one entry, all its names and indexes included."""
    sizes = {}
    for peer in all_:
        before = await _used(redis)
        begun = await peer.begin()
        for start in range(10_000, 10_000 + KEPT, 100):
            await asyncio.gather(
                *(peer.put(number, "kept", begun) for number in range(start, start + 100))
            )
        sizes[peer.name] = (await _used(redis) - before) / KEPT - len(PAYLOAD)
    return [
        Measure(
            f"bytes an entry beside its payload / {name}",
            sizes[OURS],
            "B",
            size,
            name,
            Goal("<=", 1.0),
        )
        for name, size in sizes.items()
        if name != OURS
    ]


async def _used(redis: Redis) -> int:
    await asyncio.sleep(0.5)  # what was unlinked is given back in the background
    return int((await redis.info("memory"))["used_memory_dataset"])


async def _raced(peer: Peer) -> int:
    """How often what a build had read before an invalidation is served after it."""
    stale = 0
    for number in range(RACES):
        begun = await peer.begin()
        await peer.end("raced")
        await peer.put(number, "raced", begun, b"stale")
        stale += await peer.get(number) == b"stale"
    return stale
