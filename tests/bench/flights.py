"""Equal requests at once, cold, beside one build alone. In this process, no broker."""

from __future__ import annotations

import asyncio
import time
from statistics import median

from context_engine import keys
from tests.bench.builds import request
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure

ROUNDS = 15
AT_ONCE = 1_000


async def flights(house: BenchHouse) -> list[Measure]:
    """The last of a thousand answered, in units of one build of the same kind just before."""
    engine = house.parts.engine
    await engine.build(request(sessionId="warm"))
    alone: list[float] = []
    last: list[float] = []
    builds = 0
    for number in range(ROUNDS):
        await house.parts.cache.mark("w", frozenset({keys.EVERYTHING}), create=True)
        started = time.perf_counter()
        await engine.build(request(sessionId=f"one-{number}"))
        alone.append((time.perf_counter() - started) * 1000)
        await house.parts.cache.mark("w", frozenset({keys.EVERYTHING}), create=True)
        many = [request(sessionId=f"many-{number}") for _ in range(AT_ONCE)]
        started = time.perf_counter()
        answers = await asyncio.gather(*map(engine.build, many))
        last.append((time.perf_counter() - started) * 1000)
        builds = max(builds, len({a.context_id for a in answers if a.source != "cache"}))
    return [
        Measure("1,000 equal requests at once: builds", builds, "count", goal=Goal("<=", 2)),
        Measure(
            "1,000 equal requests at once: last / one build",
            median(last),
            "ms",
            median(alone),
            "one build",
            Goal("<=", 1.3),
            ratios=tuple(a / b for a, b in zip(last, alone, strict=True)),
        ),
    ]
