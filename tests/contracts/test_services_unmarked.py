"""Writers whose mark does not stand: the cache is away, or was failed over a moment ago."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import bootstrap
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices, Unmarked, marking
from context_engine.changes import MemberChanged, domain_change
from context_engine.errors import NotYetEnforced
from context_engine.settings import Settings
from tests.support.services import ANA, VIC, RecordingMarker, outbox, row


@pytest.fixture
def services(
    small_workspace: None, database: AsyncEngine, marker: RecordingMarker
) -> DomainServices:
    """They wait a second for what does not come."""
    return DomainServices(database, marker, enforce_seconds=1.0, ids_as_given=True)


async def test_an_edit_without_the_cache_returns_an_unmarked_token(
    services: DomainServices, marker: RecordingMarker, database: AsyncEngine
) -> None:
    """It is committed, and its token names the outbox row that will repeat the mark."""
    marker.away = True
    written = await services.records.update(ANA, "w", "tbl", "r1", {"n": 3})
    assert not written.marked
    assert isinstance(written.token, Unmarked)
    assert str((await outbox(database))[-1].id) == written.token.outbox_id
    assert (await row(database, t.records, "r1")).cells["n"] == 3


async def test_a_change_of_access_without_the_cache_is_reported_after_its_time(
    services: DomainServices, marker: RecordingMarker, database: AsyncEngine
) -> None:
    """The removal is committed; whoever asked is told that it is not enforced yet."""
    marker.away = True
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(NotYetEnforced, match="outbox") as late:
        await services.members.remove(ANA, "w", VIC)
    assert 0.1 < loop.time() - begin < 2
    row = (await outbox(database))[-1]
    assert late.value.after == (f"unmarked:{row.id}",)  # a request that names it is built
    change = domain_change.validate_python((await outbox(database))[-1].payload)
    assert change == MemberChanged.model_validate(change.model_dump())
    assert isinstance(change, MemberChanged)
    assert change.op == "removed"


async def test_a_change_of_access_outwaits_a_short_absence(
    services: DomainServices, marker: RecordingMarker
) -> None:
    """The cache comes back within the bound: the mark stands before the answer."""
    marker.away = True
    removal = asyncio.create_task(services.members.remove(ANA, "w", VIC))
    await asyncio.sleep(0.12)
    marker.away = False
    assert (await removal).marked


async def test_after_the_life_of_an_entry_a_change_of_access_is_enforced_in_any_case(
    services: DomainServices,
    marker: RecordingMarker,
    database: AsyncEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waits so long is answered: all that was built before the commit has expired. The
    token says still that nothing was marked."""
    monkeypatch.setattr(marking, "CLOCKS", timedelta(0))
    life = timedelta(seconds=0.4)
    patient = DomainServices(database, marker, enforce_seconds=60, entry_life=life)
    marker.away = True
    begin = asyncio.get_running_loop().time()
    async with asyncio.timeout(30):
        written = await patient.members.remove(ANA, "w", VIC)
    assert asyncio.get_running_loop().time() - begin >= 0.4
    assert isinstance(written.token, Unmarked)


async def test_a_change_of_access_waits_until_no_deposed_store_answers(
    services: DomainServices, marker: RecordingMarker
) -> None:
    """And marks again then: who took the first mark may be deposed itself."""
    marker.waits_ms = [120]
    marker.calls.clear()
    assert (await services.members.remove(ANA, "w", VIC)).marked
    assert len(marker.calls) == 2


async def test_what_cannot_be_enforced_in_time_is_told_at_once(
    services: DomainServices, marker: RecordingMarker
) -> None:
    """It is known how long a deposed store may answer: who waits less need not wait at all."""
    marker.waits_ms = [60_000]
    async with asyncio.timeout(30):
        with pytest.raises(NotYetEnforced, match="failed over"):
            await services.members.remove(ANA, "w", VIC)


async def test_another_change_does_not_wait_for_a_deposed_store(
    services: DomainServices, marker: RecordingMarker
) -> None:
    marker.waits_ms = [60_000]
    async with asyncio.timeout(30):
        written = await services.records.update(ANA, "w", "tbl", "r1", {"n": 3})
    assert not written.marked


async def test_the_setting_bounds_how_long_is_waited(
    services: DomainServices, database_url: str, config: Settings
) -> None:
    """Nobody listens at the cache's address; the default would wait for five seconds."""
    changed = {
        "database_url": SecretStr(database_url),
        "redis_url": "redis://127.0.0.1:1/0",
        "enforce_seconds": 0.3,
    }
    async with bootstrap.parts(config.model_copy(update=changed)) as parts:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(NotYetEnforced):
            await parts.services.members.remove(ANA, "w", VIC)
        assert asyncio.get_running_loop().time() - begin < 4
