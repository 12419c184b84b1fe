"""Cold builds beside their own SQL, and ten-turn dialogues. In this process, no broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import asyncpg

from context_engine.engine import Options
from context_engine.models import ContextBuildInput
from tests.bench.house import TABLES, BenchHouse
from tests.bench.report import Goal, Measure
from tests.support.world import Statements

BUILDS = 150
DIALOGUES = 20
TURNS = 10


def request(**more: Any) -> ContextBuildInput:
    return ContextBuildInput.model_validate(
        {"userId": "ana", "workspaceId": "w", "tableIds": list(TABLES), "viewId": "t0.v0",
         "conversationId": "c", "message": "Why is this late?", **more}
    )  # fmt: skip


async def cold(house: BenchHouse) -> list[Measure]:
    """A cold build, and the statements of one replayed by the bare driver in between."""
    engine = house.parts.engine
    await engine.build(request(sessionId="warm"))
    statements = await _statements_of(house, request(sessionId="seen"))
    url = house.settings.database_url.get_secret_value().replace("+asyncpg", "")
    connection = await asyncpg.connect(url)
    builds, alone = [], []
    try:
        await _replay(connection, statements)
        for number in range(BUILDS):
            one = request(sessionId=f"cold-{number}")
            builds.append(await _timed(lambda one=one: engine.build(one, Options(fresh=True))))
            alone.append(await _timed(lambda: _replay(connection, statements)))
    finally:
        await connection.close()
    return [
        Measure(
            "cold build / its own SQL",
            median(builds),
            "ms",
            median(alone),
            "its SQL",
            Goal("<=", 2.0),
            ratios=tuple(a / b for a, b in zip(builds, alone, strict=True)),
        ),
        Measure("cold build: reading statements", len(statements) - 1, "count"),
    ]


async def _statements_of(house: BenchHouse, one: ContextBuildInput) -> list[tuple[str, Any]]:
    async with Statements(house.parts.database) as statements:
        await house.parts.engine.build(one, Options(fresh=True))
    return statements.asked


async def _replay(connection: asyncpg.Connection, statements: list[tuple[str, Any]]) -> None:
    """One build's statements as the driver alone runs them: reads in a snapshot, then evidence."""
    *reads, (evidence, values) = statements
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for statement, parameters in reads:
            await connection.fetch(statement, *parameters)
    # Each replay keeps its own row, as each build does.
    fresh = [f"{time.perf_counter_ns()}", *values[1:]]
    await connection.execute(evidence, *fresh)


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


async def dialogues(house: BenchHouse) -> list[Measure]:
    """Ten turns, a new message each: the first is built, the rest find the surface."""
    engine, services = house.parts.engine, house.parts.services
    first, later, sources = [], [], Counter[str]()
    for dialogue in range(DIALOGUES):
        opened = await services.conversations.open("ana", "w", title=f"Talk {dialogue}")
        await house.parts.cache.forget("w")
        await house.parts.cache.mark("w", frozenset(), create=True)
        for turn in range(TURNS):
            text = f"Turn {turn} of dialogue {dialogue}: what is next?"
            await services.messages.add("ana", "w", opened.id, text)
            one = request(sessionId=f"d{dialogue}", conversationId=opened.id, message=text)
            started = time.perf_counter()
            answer = await engine.build(one)
            (later if turn else first).append((time.perf_counter() - started) * 1000)
            sources[answer.source] += 1
            if (await engine.build(one)).source == "cache":
                sources["asked again: cache"] += 1
    turns = DIALOGUES * TURNS
    return [
        Measure(
            "dialogue: turns 2-10 / turn 1",
            median(later),
            "ms",
            median(first),
            "turn 1",
            Goal("<=", 0.5),
        ),
        Measure("dialogue: surface hits", sources["surface"] / turns, "of turns"),
        Measure(
            "dialogue: whole hits, asked again", sources["asked again: cache"] / turns, "of turns"
        ),
    ]
