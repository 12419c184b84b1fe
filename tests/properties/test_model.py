"""The protocol of docs/freshness.md, walked through state by state: it breaks no promise.

And every fault that is planted in it does, so the walk is fine enough to find one. `-s` shows how.
`AREA=model` in the environment asks for the larger worlds.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.properties.model.explorer import explore
from tests.properties.model.spanning import Locks, Spanning
from tests.properties.model.spanning import steps as spanning
from tests.properties.model.walk import timeline, walk
from tests.properties.model.world import Fault, World
from tests.properties.model.worlds import LONG, PLANTED, SHORT

ASKED = os.environ.get("AREA") == "model"
WITHOUT_LOCKS = (
    (Locks(locks=False), "spanning change without locks"),
    (Locks(list_after_lock=False), "spanning change that lists before it locks"),
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("world", SHORT, ids=lambda world: world.name)
def test_the_protocol_breaks_no_promise(world: World) -> None:
    """In any order of all steps that there can be."""
    found = walk(world)
    print(f"\n{world.name}: {found}")
    assert not found.broken, timeline(found)
    assert found.whole


@pytest.mark.skipif(not ASKED, reason="make properties AREA=model")
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("world", LONG, ids=lambda world: world.name)
def test_the_protocol_breaks_no_promise_in_a_larger_world(world: World) -> None:
    """Where it does, the way there is found by a second walk that remembers."""
    found = walk(world, remembering=False)
    print(f"\n{world.name}: {found}", flush=True)
    assert not found.broken, timeline(walk(world))
    assert found.whole


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("fault", "world", "within"), PLANTED, ids=[fault.value for fault, _, _ in PLANTED]
)
def test_a_planted_fault_is_found(fault: Fault, world: World, within: int) -> None:
    """In a world where the protocol as it is breaks nothing, by the shortest way there is."""
    found = walk(replace(world, fault=fault))
    print(f"\n{fault.value} ({world.name}; {found.states:,} states): {timeline(found)}")
    assert found.broken
    assert found.depth <= within


def test_every_fault_is_planted() -> None:
    assert {fault for fault, _, _ in PLANTED} == set(Fault) - {Fault.ABSENT}


def test_what_spans_workspaces_is_marked_in_each() -> None:
    """A workspace that is attached meanwhile is listed, or builds with the right as changed."""
    found = explore(Spanning(), lambda state: spanning(Locks(), state))
    print(f"\nspanning: {found}")
    assert not found.broken
    assert found.whole


@pytest.mark.parametrize(("locks", "fault"), WITHOUT_LOCKS, ids=[name for _, name in WITHOUT_LOCKS])
def test_a_fault_of_what_spans_workspaces_is_found(locks: Locks, fault: str) -> None:
    found = explore(Spanning(), lambda state: spanning(locks, state))
    steps = "\n".join(f"{n:>3}  {said}" for n, (said, _) in enumerate(found.trace, start=1))
    print(f"\n{fault} ({found.states:,} states): {found.broken}, in {found.depth} steps\n{steps}")
    assert found.broken
    assert found.depth <= 14
