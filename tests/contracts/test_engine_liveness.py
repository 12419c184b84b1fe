"""Without proof that changes are applied nothing cached is read, and the database survives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.engine import Answer, ContextEngine, Options
from context_engine.errors import Unavailable
from context_engine.liveness import Proven
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.ports import DomainReads, Epoch, Look, Place, Reign, Seen, Tally
from context_engine.tokens import AppliedMark, Published, Token, Unproven, of_mark
from tests.support.world import World, engine_over


@dataclass
class Switch:
    """Proof that a test gives and takes."""

    given: Proven | None = field(default_factory=lambda: Proven(None))

    async def proven(self) -> Proven | None:
        return self.given


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish()
    return made


@pytest.fixture
def switch() -> Switch:
    return Switch()


@pytest.fixture
def engine(database: AsyncEngine, cache: RedisCache, world: World, switch: Switch) -> ContextEngine:
    return engine_over(database, cache, liveness=switch, bypass_builds=2, build_timeout=2.0)


REQUEST = ContextBuildInput.model_validate(
    {"userId": "ana", "workspaceId": "w", "tableIds": ["t0"], "sessionId": "s"}
)


def remarks(answer: Answer) -> tuple[str, ...]:
    return AgentContext.model_validate_json(answer.context).trace.remarks


async def test_not_proven_is_built_and_says_so(engine: ContextEngine, switch: Switch) -> None:
    """A valid entry lies there, and none of it is read; with the proof it is a hit again, which
    does not say what was so for the one before it."""
    first = await engine.build(REQUEST)
    switch.given = None
    bypassed = await engine.build(REQUEST)
    assert (first.source, bypassed.source) == ("build", "build")
    assert bypassed.context_hash == first.context_hash
    assert any("bypassed" in remark for remark in remarks(bypassed))
    switch.given = Proven(None)
    again = await engine.build(REQUEST)
    assert (again.source, remarks(again)) == ("cache", ())
    assert engine.past_the_cache == {"unproven": 1}
    await engine.build(REQUEST, Options(fresh=True))
    assert engine.past_the_cache == {"unproven": 1, "asked": 1}
    assert engine.tally == Tally(4, 1), "what was asked for is nothing to be told of"


async def test_another_server_than_the_proven_one_is_not_believed(
    engine: ContextEngine, switch: Switch
) -> None:
    """The proof is of one reign; the server that answers bears another."""
    await engine.build(REQUEST)
    switch.given = Proven(frozenset({Reign("f" * 80)}))
    assert (await engine.build(REQUEST)).source == "build"


async def test_the_session_goes_on_without_proof(engine: ContextEngine, switch: Switch) -> None:
    """Coordinates are never trusted, and so need none: the next turn still inherits them."""
    await engine.build(REQUEST)
    switch.given = None
    turn = ContextBuildInput.model_validate(
        {"userId": "ana", "workspaceId": "w", "sessionId": "s", "message": "and now?"}
    )
    context = AgentContext.model_validate_json((await engine.build(turn)).context)
    assert context.table is not None
    assert context.table.id == "t0"


async def test_liveness_is_asked_for_after_the_request_and_before_each_read(
    engine: ContextEngine, cache: RedisCache, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof from before a request arrived says nothing of what happened since, and one that is
    looked at after the read says nothing of the read."""
    steps: list[str] = []
    look, proven = cache.look, switch.proven

    async def looking(look_: Look) -> Seen:
        steps.append("read")
        return await look(look_)

    async def proving() -> Proven | None:
        steps.append("proof")
        return await proven()

    monkeypatch.setattr(cache, "look", looking)
    monkeypatch.setattr(switch, "proven", proving)
    turn = REQUEST.model_copy(update={"table_ids": None})
    for request in (REQUEST, REQUEST, turn):  # the last inherits, so that it looks twice
        steps.append("request")
        await engine.build(request)
    told = " ".join(steps).split("request")[1:]
    assert [one.split() for one in told] == [["proof", "read"]] * 2 + [["proof", "read"] * 2]


async def test_bypasses_come_a_few_at_a_time_and_hits_do_not_wait_for_them(
    engine: ContextEngine, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cache would have answered must not fall on the database all at once; who gets no
    turn within the build's bound is told to try again."""
    await engine.build(REQUEST)
    domain = engine._domain
    snapshot, running, most, held = domain.snapshot, 0, 0, asyncio.Event()

    @asynccontextmanager
    async def counted() -> AsyncIterator[DomainReads]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await held.wait()
            async with snapshot() as reads:
                yield reads
        finally:
            running -= 1

    monkeypatch.setattr(domain, "snapshot", counted)
    switch.given = None
    # Each another question: equal ones are one build.
    asked = [REQUEST.model_copy(update={"message": f"question {n}"}) for n in range(20)]
    waiting = [asyncio.create_task(engine.build(one)) for one in asked]
    async with asyncio.timeout(1.0):
        while most < 2:  # noqa: ASYNC110 - the builds that begin tell nobody
            await asyncio.sleep(0.01)
    switch.given = Proven(None)
    assert (await engine.build(REQUEST)).source == "cache"
    held.set()
    await asyncio.gather(*waiting)
    assert most == 2

    held.clear()
    switch.given = None
    late = await asyncio.gather(*map(engine.build, asked[:3]), return_exceptions=True)
    assert all(isinstance(one, Unavailable) for one in late)


# -- what a request asks of a cached answer ------------------------------------------------------


async def test_a_write_that_is_proven_applied_keeps_the_cache(
    engine: ContextEngine, cache: RedisCache
) -> None:
    """Its mark is under the clock that the answer was judged by: if that holds, so does this."""
    token = of_mark(await cache.mark("w", frozenset({keys.project("p")}), create=True))
    options = Options(after=(token,))
    assert (await engine.build(REQUEST, options)).source == "build"
    assert (await engine.build(REQUEST, options)).source == "cache"


@pytest.mark.parametrize(
    "token",
    [
        AppliedMark("w", Epoch("of before"), Reign("r"), 1),
        Published(Place("domain.membership", 0), 5),
        Unproven("1"),
    ],
    ids=str,
)
async def test_a_write_that_is_not_proven_is_built_at_once(
    engine: ContextEngine, token: Token
) -> None:
    """From the primary, where its commit is; the answer says why, and fills the cache."""
    await engine.build(REQUEST)
    answer = await engine.build(REQUEST, Options(after=(token,)))
    assert answer.source == "build"
    assert any("not proven applied" in remark for remark in remarks(answer))
    assert (await engine.build(REQUEST)).source == "cache"


async def test_a_published_write_is_proven_by_the_applied_position(
    engine: ContextEngine, switch: Switch
) -> None:
    """At the offset or before it: not yet. Beyond it: applied."""
    place = Place("domain.membership", 0)
    options = Options(after=(Published(place, 5),))
    await engine.build(REQUEST)
    for applied, source in ((5, "build"), (6, "cache")):
        switch.given = Proven(None, {place: applied})
        assert (await engine.build(REQUEST, options)).source == source


async def test_an_answer_older_than_asked_for_is_built_anew(
    engine: ContextEngine, database: AsyncEngine, cache: RedisCache, switch: Switch
) -> None:
    """By the store's clock; 0 takes none. What was built over a surface is as old as that."""
    first = ContextBuildInput.model_validate(REQUEST.model_dump() | {"message": "one"})
    second = ContextBuildInput.model_validate(REQUEST.model_dump() | {"message": "two"})
    await engine.build(first)
    seen = await cache.liveness.pulse()
    assert (await engine.build(first, Options(max_age_ms=60_000))).source == "cache"
    assert (await engine.build(second)).source == "surface"
    while (await cache.liveness.pulse()).at_ms <= seen.at_ms + 50:  # noqa: ASYNC110 - its clock
        await asyncio.sleep(0.01)
    assert (await engine.build(second, Options(max_age_ms=20))).source == "build"
    assert (await engine.build(second, Options(max_age_ms=0))).source == "build"


async def test_a_wide_age_permits_nothing_that_is_not_proven(
    engine: ContextEngine, switch: Switch
) -> None:
    await engine.build(REQUEST)
    switch.given = None
    assert (await engine.build(REQUEST, Options(max_age_ms=10**9))).source == "build"
