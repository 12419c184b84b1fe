"""Builds against changes in any interleaving: nothing older than what was acknowledged is served.

In the world of `freshness_world`, and then with the faults of `freshness_faults` planted in it,
each of which must be found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.freshness_faults import FAULTS
from tests.properties.freshness_world import AtItsLimit, InMemory, Stale, T
from tests.support.cache import RedisStore, Store

EXPLORE = settings(
    max_examples=1_000,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_nothing_stale_is_served_from_memory() -> None:
    class AtItsLimitInMemory(AtItsLimit, InMemory):
        pass

    run_state_machine_as_test(AtItsLimitInMemory, settings=EXPLORE)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """For steps taken one by one from code that does not await."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_nothing_stale_is_served_from_valkey(
    redis_url: str, loop: asyncio.AbstractEventLoop
) -> None:
    store = RedisStore(redis_url)

    class InValkey(AtItsLimit):
        def make_store(self) -> Store:
            loop.run_until_complete(store.flush())
            return store

        def do(self, step: Coroutine[Any, Any, T]) -> T:
            return loop.run_until_complete(asyncio.wait_for(step, 10))

    try:
        run_state_machine_as_test(InValkey, settings=settings(EXPLORE, max_examples=60))
    finally:
        loop.run_until_complete(store.close())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: type[InMemory]) -> None:
    """By the same steps, always in the same order, within a bound with room to spare."""
    search = settings(
        EXPLORE,
        max_examples=10_000,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    with pytest.raises(Stale):
        run_state_machine_as_test(fault, settings=search)
