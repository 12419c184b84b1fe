"""Turns of builds: a share for each workspace, and none that waits for another's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from context_engine.errors import RateLimited
from context_engine.turns import HERD_BUILDS, Turns

pytestmark = pytest.mark.unit


@dataclass(eq=False)
class Build:
    """A build that somebody waits for, and what it waits for itself."""

    waiting: int = 1
    running: bool = False
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, turns: Turns, workspace: str) -> None:
        async with turns.of(workspace, self):
            self.running = True
            await self.end.wait()


async def begun(turns: Turns, workspace: str, *builds: Build) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(build.run(turns, workspace)) for build in builds]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_a_workspace_has_its_share_and_others_theirs() -> None:
    """Its third build waits, its fifth is refused at once; another workspace is not held up."""
    turns, noisy, quiet = Turns(at_once=2, most=4), [Build() for _ in range(4)], Build()
    tasks = await begun(turns, "noisy", *noisy)
    with pytest.raises(RateLimited):
        await Build().run(turns, "noisy")
    tasks += await begun(turns, "quiet", quiet)
    assert [build.running for build in (*noisy, quiet)] == [True, True, False, False, True]
    for build in (*noisy, quiet):
        build.end.set()
    await asyncio.gather(*tasks)
    assert all(build.running for build in noisy)


async def test_who_shares_a_build_holds_a_seat_too() -> None:
    """Where many builds are under way, each that waits for one counts: the next is refused."""
    turns, running, waits = Turns(at_once=1, most=20), Build(), Build(waiting=3)
    others = [Build() for _ in range(HERD_BUILDS - 1)]
    tasks = await begun(turns, "w", running, waits, *others)
    turns.board("w", waits)
    waits.waiting += 1
    for refused in (running, waits):
        with pytest.raises(RateLimited):
            turns.board("w", refused)
    with pytest.raises(RateLimited):
        await Build().run(turns, "w")
    turns.board("another", waits)
    for build in (running, waits, *others):
        build.end.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("builds", [1, 14])
async def test_a_herd_for_a_few_builds_is_let_in(builds: int) -> None:
    """However many wait for what runs already, or soon will, they hold nobody up for long."""
    turns, few = Turns(at_once=1, most=100), [Build() for _ in range(builds)]
    tasks = await begun(turns, "w", *few)
    for build in few:
        build.waiting = 1_000
        turns.board("w", build)
        build.end.set()
    await asyncio.gather(*tasks)


async def test_who_asks_for_much_beside_others_is_built_for_one_at_a_time() -> None:
    """Alone it has what its worker may do at once; with company it rests after each build, and
    all the same each of its builds has its turn."""
    turns = Turns(at_once=2, most=4)
    turns.asked("noisy")
    alone = [Build(), Build()]
    tasks = await begun(turns, "noisy", *alone)
    assert [build.running for build in alone] == [True, True]
    turns.asked("quiet")
    beside, quiet = [Build(), Build()], Build()
    tasks += await begun(turns, "noisy", *beside)
    tasks += await begun(turns, "quiet", quiet)
    for build in alone:
        build.end.set()
    await asyncio.gather(*tasks[:2])
    await asyncio.sleep(0)
    assert sum(build.running for build in beside) == 1
    assert quiet.running
    for build in (*beside, quiet):
        build.end.set()
    await asyncio.gather(*tasks)
    assert all(build.running for build in beside)


async def test_nothing_is_kept_of_a_workspace_without_builds() -> None:
    """Not of one that built, nor of one that failed, nor of one that was given up waiting."""
    turns, first = Turns(at_once=1, most=2), Build()
    tasks = await begun(turns, "a", first, Build())
    tasks[1].cancel()
    await asyncio.gather(tasks[1], return_exceptions=True)
    first.end.set()
    await tasks[0]
    with pytest.raises(ValueError, match="fault"):
        async with turns.of("b", Build()):
            raise ValueError("fault")
    assert turns._queues == {}
    async with turns.of("a", Build()), turns.of("b", Build()):
        pass


async def test_who_is_refused_is_told_when_to_ask_again() -> None:
    """Not before any build was done; then by how long they take, and how many wait."""
    turns = Turns(at_once=1, most=0)
    async with turns.of("a", Build()):
        with pytest.raises(RateLimited) as first:
            await Build().run(turns, "a")
        assert first.value.retry_after_ms is None
        await asyncio.sleep(0.02)
    async with turns.of("a", Build()):
        with pytest.raises(RateLimited) as second:
            await Build().run(turns, "a")
    assert second.value.retry_after_ms is not None
    assert second.value.retry_after_ms >= 20
