"""Equal requests at once: built once, and never answered with what was read too early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import tables as t
from context_engine.asked import Asked
from context_engine.engine import Answer, ContextEngine, Options
from context_engine.errors import NotFound, Unavailable
from context_engine.liveness import Proven
from context_engine.looking import Looked
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.ports import Domain, DomainReads, Tally
from context_engine.tokens import Unproven
from tests.support.world import World, engine_over


@dataclass
class Gate:
    """The engine's domain, whose snapshots wait at a gate once they have been opened."""

    domain: Domain
    opened: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    free: asyncio.Event = field(default_factory=asyncio.Event)

    def snapshot(self) -> AbstractAsyncContextManager[DomainReads]:
        return self._snapshot()

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[DomainReads]:
        async with self.domain.snapshot() as reads:
            self.opened += 1
            self.reached.set()
            yield _Held(reads, self)  # type: ignore[misc]


class _Held:
    """Reads that are answered once the gate is free, from the snapshot as it was."""

    def __init__(self, reads: DomainReads, gate: Gate) -> None:
        self._reads, self._gate = reads, gate

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._reads, name)
        if name != "counts":
            return real

        async def later(*args: Any, **named: Any) -> Any:
            found = await real(*args, **named)
            await self._gate.free.wait()
            return found

        return later


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish()
    return made


@pytest.fixture
def engine(database: AsyncEngine, cache: RedisCache, world: World) -> ContextEngine:
    return engine_over(database, cache)


@pytest.fixture
def gate(engine: ContextEngine, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(engine._domain)
    monkeypatch.setattr(engine, "_domain", made)
    return made


def asked(user: str = "ana", **more: Any) -> ContextBuildInput:
    return ContextBuildInput.model_validate(
        {"userId": user, "workspaceId": "w", "tableIds": ["t0"], **more}
    )


def name_in(answer: Answer) -> str:
    table = AgentContext.model_validate_json(answer.context).table
    assert table is not None
    return table.name


async def test_a_thousand_equal_requests_are_at_most_two_builds(
    engine: ContextEngine, gate: Gate
) -> None:
    gate.free.set()
    answers = await asyncio.gather(*(engine.build(asked()) for _ in range(1_000)))
    assert gate.opened <= 2
    assert len({answer.context_hash for answer in answers}) == 1


async def test_who_arrives_after_a_change_is_not_given_what_was_read_before(
    engine: ContextEngine, gate: Gate, cache: RedisCache, database: AsyncEngine
) -> None:
    """A build has read, a change is committed and marked, a second request arrives: the first
    may have the old state, the second may not, though the build was under way all the while."""
    first = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    await _at_the_gate(first)
    async with database.begin() as connection:
        await connection.execute(update(t.tables).where(t.tables.c.id == "t0").values(name="New"))
    await cache.mark("w", frozenset({keys.schema("t0")}), create=True)
    second = asyncio.create_task(engine.build(asked()))
    await _at_the_gate(second)
    assert gate.opened == 1  # it waits for the first: one build at a time
    gate.free.set()
    assert name_in(await first) == "Table t0"
    assert name_in(await second) == "New"
    assert gate.opened == 2


async def test_who_arrives_while_nothing_changes_is_served_by_what_the_build_stored(
    engine: ContextEngine, gate: Gate
) -> None:
    """Validated after its arrival, so it is a hit, and there is no second build."""
    first = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    second = asyncio.create_task(engine.build(asked()))
    await _at_the_gate(second)
    gate.free.set()
    assert ((await first).source, (await second).source) == ("build", "cache")
    assert gate.opened == 1


async def test_who_arrives_unproven_is_not_served_by_what_is_proven_later(
    engine: ContextEngine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a build, and by its end all is proven again: only those who arrive from then on
    may rely on that. One that arrives as the build begins takes its answer, without a look."""
    given: list[Proven | None] = [Proven(None)]

    class Switch:
        async def proven(self) -> Proven | None:
            return given[0]

    monkeypatch.setattr(engine, "liveness", Switch())
    first = asyncio.create_task(engine.build(asked()))
    boards = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    given[0] = None
    late = asyncio.create_task(engine.build(asked()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    given[0] = Proven(None)
    later = asyncio.create_task(engine.build(asked()))
    await _at_the_gate(later)
    gate.free.set()
    assert (await first).context_id == (await boards).context_id
    told = AgentContext.model_validate_json((await late).context)
    assert any("bypassed" in remark for remark in told.trace.remarks)
    assert (await late).context_id != (await first).context_id
    assert (await later).source == "cache"
    assert engine.tally == Tally(4, 1)


async def test_each_waits_for_two_builds_at_most(
    engine: ContextEngine, gate: Gate, cache: RedisCache
) -> None:
    """All that came during a build whose answer could not be stored share the next one."""
    first = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    late = [asyncio.create_task(engine.build(asked())) for _ in range(20)]
    await _at_the_gate(late[-1])
    await cache.mark("w", frozenset({keys.schema("t0")}), create=True)
    gate.free.set()
    answers = await asyncio.gather(first, *late)
    assert gate.opened == 2
    assert len({answer.context_hash for answer in answers}) == 1


async def test_fresh_is_built_after_its_arrival_and_shared_among_its_like(
    engine: ContextEngine, gate: Gate
) -> None:
    """`fresh` joins no build of others, nor takes what that stored; equal ones share two."""
    first = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    fresh = [asyncio.create_task(engine.build(asked(), Options(fresh=True))) for _ in range(5)]
    await _at_the_gate(fresh[-1])
    gate.free.set()
    answers = await asyncio.gather(first, *fresh)
    assert {answer.source for answer in answers} == {"build"}
    assert gate.opened <= 3
    fresh_ids = {answer.context_id for answer in answers[1:]}
    assert len(fresh_ids) == gate.opened - 1
    assert answers[0].context_id not in fresh_ids


async def test_two_users_share_no_flight(engine: ContextEngine, gate: Gate) -> None:
    """Nor two sessions, nor two messages: what may differ is in the name."""
    gate.free.set()
    requests = [
        asked("ana"),
        asked("bob"),
        asked("ana", sessionId="s"),
        asked("ana", message="else"),
        asked("ana", locale="zh-CN"),
    ]
    answers = await asyncio.gather(*(engine.build(one) for one in requests))
    assert len({answer.context_id for answer in answers}) == len(requests)


async def test_who_gives_up_takes_the_build_from_nobody_else(
    engine: ContextEngine, gate: Gate
) -> None:
    """The one whose request began it included."""
    first = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    second = asyncio.create_task(engine.build(asked()))
    await _at_the_gate(second)
    first.cancel()
    await asyncio.wait((first,))
    gate.free.set()
    assert (await second).source == "cache"
    assert gate.opened == 1


async def test_a_build_that_nobody_waits_for_is_ended(engine: ContextEngine, gate: Gate) -> None:
    """With its connection given back; the next request is not held up by it."""
    first = asyncio.create_task(engine.build(asked()))
    await gate.reached.wait()
    await _at_the_gate(first)
    first.cancel()
    await asyncio.wait((first,))
    gate.free.set()
    assert (await engine.build(asked())).source == "build"


async def test_a_refusal_and_a_part_that_is_away_are_everyones(
    database: AsyncEngine, cache: RedisCache, world: World
) -> None:
    """As each would have got it alone."""
    engine = engine_over(database, cache, build_timeout=0.3)
    refused = await asyncio.gather(
        *(engine.build(asked("eve")) for _ in range(20)), return_exceptions=True
    )
    assert all(isinstance(one, NotFound) for one in refused)

    class Away:
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[DomainReads]:
            raise Unavailable("database", "is away")
            yield

    engine._domain = Away()
    away = await asyncio.gather(*(engine.build(asked()) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(one, Unavailable) and one.part == "database" for one in away)


async def _at_the_gate(task: asyncio.Task[Answer]) -> None:
    """Time for the request to come as far as it can."""
    done, _ = await asyncio.wait((task,), timeout=0.2)
    assert not done


@pytest.mark.parametrize(
    "demand", [Options(after=(Unproven("1"),)), Options(fresh=True), Options(max_age_ms=0)]
)
async def test_no_demand_is_met_by_a_build_without_it(
    engine: ContextEngine, database: AsyncEngine, monkeypatch: pytest.MonkeyPatch, demand: Options
) -> None:
    """A request names a write whose mark does not stand, or wants nothing out of a cache. Before
    its look is answered an equal one without such a demand begins to build, after the arrival of
    the first, over a surface that is cached and still counts as proven."""
    for _ in range(2):  # the first finds a workspace without marks, and is not kept
        await engine.build(asked(message="before"))
    await asyncio.sleep(0.01)  # the surface is older than any moment that follows
    async with database.begin() as connection:
        await connection.execute(update(t.tables).where(t.tables.c.id == "t0").values(name="New"))
    look, keep = engine._looking.first, engine._keeper.evidence
    looked, answer_it, keep_it = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first(asked: Asked) -> Looked:
        found = await look(asked)
        if asked.options == demand:
            looked.set()
            await answer_it.wait()
        return found

    async def evidence(*given: Any) -> None:
        await keep_it.wait()
        await keep(*given)

    monkeypatch.setattr(engine._looking, "first", first)
    monkeypatch.setattr(engine._keeper, "evidence", evidence)
    demanding = asyncio.create_task(engine.build(asked(message="now"), demand))
    await looked.wait()
    other = asyncio.create_task(engine.build(asked(message="now")))
    await _at_the_gate(other)
    answer_it.set()
    await _at_the_gate(demanding)
    keep_it.set()
    assert (await other).source == "surface"
    assert name_in(await demanding) == "New"
