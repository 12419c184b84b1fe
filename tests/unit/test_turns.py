"""Turns of builds: a share for each workspace, and none that waits for another's."""

from __future__ import annotations

import asyncio

import pytest

from context_engine.errors import RateLimited
from context_engine.turns import Turns

pytestmark = pytest.mark.unit


class Builds:
    """Builds of workspaces that run until they are told to end."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.running, self.end = turns, [], asyncio.Event()  # type: ignore[var-annotated]

    async def build(self, workspace: str) -> None:
        async with self.turns.of(workspace):
            self.running.append(workspace)
            await self.end.wait()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_workspace_has_its_share_and_others_theirs() -> None:
    """Its third build waits and its fifth is refused at once; another workspace is not held up."""
    builds = Builds(Turns(at_once=2, most=4))
    tasks = [asyncio.create_task(builds.build("noisy")) for _ in range(4)]
    await settled()
    with pytest.raises(RateLimited):
        await builds.build("noisy")
    tasks.append(asyncio.create_task(builds.build("quiet")))
    await settled()
    assert builds.running == ["noisy", "noisy", "quiet"]
    builds.end.set()
    await asyncio.gather(*tasks)
    assert sorted(builds.running) == ["noisy"] * 4 + ["quiet"]


async def test_nothing_is_kept_of_a_workspace_without_builds() -> None:
    """Not of one that built, nor of one that failed, nor of one that was given up waiting."""
    turns = Turns(at_once=1, most=2)
    builds = Builds(turns)
    first = asyncio.create_task(builds.build("a"))
    await settled()
    waits = asyncio.create_task(builds.build("a"))
    await settled()
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    builds.end.set()
    await first
    with pytest.raises(ValueError, match="fault"):
        async with turns.of("b"):
            raise ValueError("fault")
    assert turns._queues == {}
    async with turns.of("a"), turns.of("b"):
        pass


async def test_who_is_refused_is_told_when_to_ask_again() -> None:
    """Not before any build was done; then by how long they take, and how many wait."""
    turns = Turns(at_once=1, most=0)
    async with turns.of("a"):
        with pytest.raises(RateLimited) as first:
            await turns.of("a").__aenter__()
        assert first.value.retry_after_ms is None
        await asyncio.sleep(0.02)
    async with turns.of("a"):
        with pytest.raises(RateLimited) as second:
            await turns.of("a").__aenter__()
    assert second.value.retry_after_ms is not None
    assert second.value.retry_after_ms >= 20
