"""Equal requests at once, cold, beside one build alone. In this process, no broker.

A thousand tasks cost the loop something whatever they do: so the build is measured with as many
bare tasks beside it, too, each of which waits for a future that the build's end resolves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from statistics import median
from typing import Any

from context_engine import keys
from context_engine.engine import Answer
from context_engine.models import ContextBuildInput
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
    bare: list[float] = []
    last: list[float] = []
    builds = 0
    for number in range(ROUNDS):
        one = [request(sessionId=f"one-{number}")]
        alone.append((await _timed(house, map(engine.build, one)))[0])
        beside = request(sessionId=f"bare-{number}")
        bare.append((await _timed(house, _bare(house, beside)))[0])
        many = [request(sessionId=f"many-{number}") for _ in range(AT_ONCE)]
        took, answers = await _timed(house, map(engine.build, many))
        last.append(took)
        builds = max(builds, len({a.context_id for a in answers if a and a.source != "cache"}))
    return [
        Measure("1,000 equal requests at once: builds", builds, "count", goal=Goal("<=", 2)),
        _beside("1,000 equal requests at once: last / one build", last, alone, Goal("<=", 1.3)),
        _beside("  999 bare tasks that wait for one build / one build", bare, alone, None),
    ]


def _beside(
    name: str, these: Sequence[float], alone: Sequence[float], goal: Goal | None
) -> Measure:
    ratios = tuple(a / b for a, b in zip(these, alone, strict=True))
    return Measure(name, median(these), "ms", median(alone), "one build", goal, ratios=ratios)


async def _timed(
    house: BenchHouse, work: Iterable[Coroutine[Any, Any, Answer | None]]
) -> tuple[float, list[Answer | None]]:
    """All of it at once after everything cached has ended: milliseconds, and the answers."""
    await house.parts.cache.mark("w", frozenset({keys.EVERYTHING}), create=True)
    started = time.perf_counter()
    answers = await asyncio.gather(*work)
    return (time.perf_counter() - started) * 1000, answers


def _bare(
    house: BenchHouse, one: ContextBuildInput
) -> Iterator[Coroutine[Any, Any, Answer | None]]:
    """One build, and the tasks that wait for it."""
    waiters: list[asyncio.Future[None]] = []

    async def builds() -> Answer:
        answer = await house.parts.engine.build(one)
        for waiter in waiters:
            waiter.set_result(None)
        return answer

    async def waits() -> None:
        waiters.append(waiter := asyncio.get_running_loop().create_future())
        await waiter

    yield builds()
    yield from (waits() for _ in range(AT_ONCE - 1))
