"""The whole house over PostgreSQL, in any order of everybody's steps: each answer is what a build
from scratch says in a state that has every change which the request was owed.

`AREA=freshness` in the environment asks for the long run: `FRESHNESS_MINUTES` of it (30), from
`FRESHNESS_SEED` on; before it, every planted fault is found.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count, repeat

import hypothesis
import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import engine, flights, liveness
from context_engine.adapters.redis import liveness as redis_liveness
from context_engine.adapters.redis import packs
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.services.marking import Marking
from context_engine.settings import Settings
from tests.properties.freshness import ways
from tests.properties.freshness.faults import FAULTS
from tests.properties.freshness.machine import Freshness
from tests.properties.freshness.steps import Watched
from tests.properties.freshness.stores import InValkey, Store
from tests.properties.freshness.truth import Stale
from tests.properties.freshness.workspace import Rows, furnished
from tests.support.stack import Databases, valkey_part
from tests.support.world import SECRET
from workers import heartbeat

LONG = os.environ.get("AREA") == "freshness"
MINUTES = float(os.environ.get("FRESHNESS_MINUTES") or 30)
SEED = int(os.environ.get("FRESHNESS_SEED") or (int.from_bytes(os.urandom(4)) if LONG else 0))
QUICK_SECONDS = 15.0
"""No more is begun after so long, where the long run is not asked for."""

LIFE_MS = 400
"""Of a proof in Valkey, where time has to be waited for."""

EXPLORE = settings(
    max_examples=12,
    stateful_step_count=40,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
async def url(databases: Databases) -> AsyncIterator[str]:
    made = await databases.create()
    yield made
    await databases.drop(made)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """For steps taken one by one from code that does not await."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def machine(url: str, loop: asyncio.AbstractEventLoop) -> Iterator[type[Freshness]]:
    config = Settings.model_validate({"database_url": url, "tag_secret": SECRET})
    database = create_engine(config)
    rows = loop.run_until_complete(furnished(database))
    yield machine_over(loop, database, rows)
    loop.run_until_complete(database.dispose())


def machine_over(
    the_loop: asyncio.AbstractEventLoop, the_database: AsyncEngine, the_rows: Rows
) -> type[Freshness]:
    class Made(Freshness):
        loop, database, rows = the_loop, the_database, the_rows
        told, seen = Counter[str](), set[int]()

    return Made


@pytest.fixture(scope="module")
async def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    server = valkey_part(tmp_path_factory.mktemp("valkey"))
    await server.start()
    yield server.url
    await server.stop()


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits by a clock for another's step; nobody logs what is meant to happen."""
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent)
    monkeypatch.setattr(flights, "Flight", Watched)
    monkeypatch.setattr(engine, "time", ways.CLOCK)
    monkeypatch.setattr(engine, "pauses", lambda: repeat(0.0))
    monkeypatch.setattr(Marking, "done", ways.done)
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0)
    yield
    structlog.reset_defaults()


@pytest.fixture
def in_valkey(
    machine: type[Freshness],
    valkey_url: str,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[type[Freshness]]:
    """Under the server's clock, which cannot be turned on: proofs live shorter there."""
    store = InValkey(valkey_url)

    class Made(machine):  # type: ignore[misc,valid-type]
        life_ms = LIFE_MS

        async def make_store(self) -> Store:
            await store.begin()
            return store

    monkeypatch.setattr(redis_liveness, "LIFE_MS", LIFE_MS)
    for module in (packs, engine):
        monkeypatch.setattr(module, "LEAD_MS", InValkey.lead_ms)
    monkeypatch.setattr(liveness, "LOOK_SECONDS", 0.02)
    yield Made
    loop.run_until_complete(store.close())


@pytest.mark.timeout(300)
def test_nothing_older_than_what_was_owed_is_served(machine: type[Freshness]) -> None:
    """In memory: under a clock that jumps, and with a replica that lags."""
    machine.ends = time.monotonic() + QUICK_SECONDS
    run_state_machine_as_test(machine, settings=EXPLORE)


@pytest.mark.timeout(300)
def test_nothing_older_than_what_was_owed_is_served_from_valkey(in_valkey: type[Freshness]) -> None:
    """In the real store, which is emptied, filled up, cut off, and another's successor."""
    in_valkey.ends = time.monotonic() + QUICK_SECONDS
    run_state_machine_as_test(in_valkey, settings=settings(EXPLORE, max_examples=6))


if LONG:

    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("name", FAULTS)
    def test_a_planted_fault_is_found(
        machine: type[Freshness], name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each of them, by the same steps always."""
        FAULTS[name](monkeypatch)
        search = settings(EXPLORE, max_examples=1_000, derandomize=True, phases=(Phase.generate,))
        machine.seen.clear()
        machine.ends = float("inf")
        with pytest.raises((Stale, Flaky)):
            run_state_machine_as_test(machine, settings=search)
        print(f"{name}: found in interleaving {len(machine.seen)}")

    @pytest.mark.timeout(MINUTES * 60 + 900)
    def test_for_a_long_time(machine: type[Freshness], in_valkey: type[Freshness]) -> None:
        """Figures every minute or so; in memory and in Valkey by turns."""
        print(f"seed {SEED}: FRESHNESS_SEED={SEED} repeats this run")
        machine.seen.clear()
        machine.told.clear()
        began = said = time.monotonic()
        machine.ends = in_valkey.ends = began + MINUTES * 60
        for turn in count():
            which, examples = ((machine, 30), (in_valkey, 10))[turn % 2]
            hypothesis.seed(SEED + turn)(which)
            run_state_machine_as_test(which, settings=settings(EXPLORE, max_examples=examples))
            now = time.monotonic()
            if now - said >= 60 or now >= machine.ends:
                said = now
                print(figures(machine, (now - began) / 60), flush=True)
            if now >= machine.ends:
                break


def figures(machine: type[Freshness], minutes: float) -> str:
    told = machine.told
    sources = {name: told[name] for name in ("build", "surface", "cache", "bypass", "refused")}
    each = ", ".join(f"{number:,} {name}" for name, number in sources.items())
    return (
        f"{minutes:.1f} min: {len(machine.seen):,} interleavings, {told['steps']:,} steps,"
        f" {told['commits']:,} changes ({told['commits that matter']:,} that matter),"
        f" {sum(sources.values()):,} answers compared ({each}), 0 stale"
    )
