"""A hit that is proven in the call that reads it, beside a bare GET of the same bytes.

One at a time, in this process, on the same server; in turn.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from statistics import median

from redis.asyncio import Redis

from context_engine import keys
from context_engine.ports import Look, NewEntry
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure

PAYLOAD = b"x" * 4096
ROUNDS = 15
EACH = 100
KEY = "bench:bare-hit"
NOBODYS = frozenset({keys.schema("another table")})

Step = Callable[[], Awaitable[object]]


async def hits(house: BenchHouse) -> list[Measure]:
    """With the clock where it was when the entry was stored or last proven, and with the clock
    moved by another change before each look, so that every tag has to be looked at."""
    found = []
    async with Redis.from_url(house.settings.redis_url) as redis:
        await redis.set(KEY, PAYLOAD)
        for count in (8, 120):
            look = await _stored(house, count)
            bare: list[float] = []
            unmoved: list[float] = []
            full: list[float] = []
            for _ in range(ROUNDS):
                bare.append(await _median(lambda: redis.get(KEY)))
                unmoved.append(await _median(lambda look=look: _hit(house, look)))
                full.append(
                    await _median(
                        lambda look=look: _hit(house, look),
                        before=lambda: house.parts.cache.mark("hits", NOBODYS, create=False),
                    )
                )
            found += [
                _beside(f"hit of {count} tags, clock unmoved", unmoved, bare, Goal("<=", 1.6)),
                _beside(f"hit of {count} tags, every tag looked at", full, bare, None),
            ]
    return found


def _beside(what: str, own: list[float], bare: list[float], goal: Goal | None) -> Measure:
    ratios = tuple(a / b for a, b in zip(own, bare, strict=True))
    return Measure(
        f"{what} / bare GET", median(own), "ms", median(bare), "bare GET", goal, ratios=ratios
    )


async def _median(step: Step, before: Step | None = None) -> float:
    """Milliseconds of one; `before` each, untimed."""
    took = []
    for _ in range(EACH):
        if before is not None:
            await before()
        started = time.perf_counter()
        await step()
        took.append((time.perf_counter() - started) * 1000)
    return median(took)


async def _hit(house: BenchHouse, look: Look) -> None:
    assert (await house.parts.cache.look(look)).whole is not None


async def _stored(house: BenchHouse, tags: int) -> Look:
    """An entry of that many tags, and the look that finds it."""
    cache = house.parts.cache
    await cache.mark("hits", frozenset(), create=True)
    scope = keys.scope_of("hits", "ana", "bench", None)
    nothing = keys.surface_name("hits", "0" * 64)
    look = Look(scope, keys.whole_name(scope, f"{tags:064d}"), nothing)
    moment = (await cache.look(look)).moment
    assert moment is not None
    entry = NewEntry(
        look.whole,
        PAYLOAD,
        frozenset(keys.schema(f"table-{number}") for number in range(tags)),
        moment.clock,
        moment.now_ms,
        moment.now_ms + 300_000,
        context_hash="0" * 64,
    )
    assert await cache.fill(moment, [entry], None)
    return look
