"""How services write: in one transaction, told to the outbox, marked before they answer."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import delete, text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.services import DomainServices, NewRecord
from context_engine.changes import RecordsChanged, domain_change
from context_engine.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    NotPermitted,
    Unavailable,
)
from context_engine.ports import Marked
from context_engine.settings import Settings
from tests.support.services import (
    ANA,
    BEN,
    RecordingMarker,
    outbox,
    row,
)  # fmt: skip


async def test_a_change_is_marked_after_its_commit_and_before_the_answer(
    services: DomainServices, marker: RecordingMarker, database: AsyncEngine
) -> None:
    """When the mark is set, the outbox row is there for others to read."""
    before = len(await outbox(database))
    written = await services.records.update(ANA, "w", "tbl", "r1", {"n": 1})
    assert marker.committed[-1] == before + 1
    workspace, tags, create = marker.calls[-1]
    assert (workspace, create) == ("w", True)
    assert keys.value("tbl", "n") in tags
    assert isinstance(written.token, Marked)
    assert written.marked
    assert written.version == 2


async def test_the_outbox_holds_the_change_as_it_goes_on_the_wire(
    services: DomainServices, database: AsyncEngine
) -> None:
    """The payload parses as a change and names actor, workspace, kind and type."""
    written = await services.records.update(BEN, "w", "tbl", "r1", {"n": 2, "ok": True})
    last = (await outbox(database))[-1]
    assert (last.aggregatetype, last.aggregateid, last.type) == (
        "record-edit", "w", "records.changed",
    )  # fmt: skip
    change = domain_change.validate_python(last.payload)
    assert isinstance(change, RecordsChanged)
    assert (change.actor_id, change.record_ids) == (BEN, ("r1",))
    assert change.field_ids == ("n", "ok")
    assert written.changes == (change,)
    assert last.payload["recordIds"] == ["r1"]


async def test_a_write_that_fails_leaves_neither_row_nor_change_nor_mark(
    services: DomainServices, marker: RecordingMarker, database: AsyncEngine
) -> None:
    """The second record of the batch is wrong, so the first is not there either."""
    before, marks = len(await outbox(database)), len(marker.calls)
    batch = [NewRecord({"n": 1}, id="new-1"), NewRecord({"n": "one"}, id="new-2")]
    with pytest.raises(InvalidRequest, match=r"cells\.n: write a finite number"):
        await services.records.create_many(ANA, "w", "tbl", batch)
    with pytest.raises(Conflict, match="taken"):
        await services.records.create(ANA, "w", "tbl", {}, id="r1")
    assert len(await outbox(database)) == before
    assert len(marker.calls) == marks
    assert await row(database, t.records, "new-1") is None


async def test_an_unexpected_version_conflicts_and_writes_nothing(
    services: DomainServices, database: AsyncEngine
) -> None:
    """The message names the version found; the right one passes and raises it."""
    with pytest.raises(Conflict, match="has version 1, not 7"):
        await services.records.update(ANA, "w", "tbl", "r1", {"n": 1}, expected_version=7)
    with pytest.raises(Conflict, match="has version"):
        await services.tables.rename(ANA, "w", "tbl", name="X", expected_version=9)
    written = await services.records.update(ANA, "w", "tbl", "r1", {"n": 1}, expected_version=1)
    assert written.version == 2
    assert (await row(database, t.records, "r1")).version == 2


async def test_two_writers_of_one_version_are_told_apart(services: DomainServices) -> None:
    """Of two updates that expect the same version, one wins and one conflicts."""
    results = await asyncio.gather(
        *(
            services.records.update(ANA, "w", "tbl", "r1", {"n": n}, expected_version=1)
            for n in (1, 2)
        ),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "Written"]


async def test_the_last_admin_stays_under_concurrent_removals(services: DomainServices) -> None:
    """Two ADMINs remove each other at once: one removal is refused."""
    await services.members.set(ANA, "w", BEN, role="admin")
    results = await asyncio.gather(
        services.members.remove(ANA, "w", BEN),
        services.members.remove(BEN, "w", ANA),
        return_exceptions=True,
    )
    failed = [result for result in results if isinstance(result, Exception)]
    assert len(failed) == 1
    # The loser was removed first, and so sees no workspace any more.
    assert isinstance(failed[0], NotFound)
    survivor = ANA if isinstance(results[0], Exception) is False else BEN
    for change in (
        services.members.remove(survivor, "w", survivor),
        services.members.set(survivor, "w", survivor, role="builder"),
        services.members.set(survivor, "w", survivor, active=False),
        services.users.update("op", survivor, active=False),
        services.users.delete("op", survivor),
    ):
        with pytest.raises(Conflict, match="without an admin"):
            await change


async def test_two_admins_who_leave_at_once_do_not_both(services: DomainServices) -> None:
    """Each leaves while the other is still there: the second is refused."""
    await services.members.set(ANA, "w", BEN, role="admin")
    results = await asyncio.gather(
        services.members.remove(ANA, "w", ANA),
        services.users.update("op", BEN, active=False),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "Written"]


async def test_rights_are_checked_in_the_current_state(services: DomainServices) -> None:
    """A write that waits behind its actor's demotion is refused."""
    results = await asyncio.gather(
        services.members.set(ANA, "w", BEN, role="viewer"),
        *(services.records.update(BEN, "w", "tbl", "r1", {"n": n}) for n in range(5)),
        return_exceptions=True,
    )
    assert not isinstance(results[0], Exception)
    with pytest.raises(NotPermitted, match="takes the role editor"):
        await services.records.update(BEN, "w", "tbl", "r1", {"n": 9})


async def test_what_spans_workspaces_becomes_a_change_for_each(
    services: DomainServices, marker: RecordingMarker, database: AsyncEngine
) -> None:
    """A user and an organization of two workspaces: both are told and marked."""
    await services.organizations.create("op", name="Org", id="o")
    await services.workspaces.create("op", name="Two", maker_id=ANA, organization_id="o", id="w2")
    await services.workspaces.attach("op", "w", organization_id="o")
    written = await services.users.update("op", ANA, email="Ana@Example.org")
    assert [change.workspace_id for change in written.changes] == ["w", "w2"]
    assert {token.workspace_id for token in written.tokens} == {"w", "w2"}
    member = await services.organizations.set_member("op", "o", ANA, role="owner")
    assert {change.workspace_id for change in member.changes} == {"w", "w2"}
    assert {call[0] for call in marker.calls[-2:]} == {"w", "w2"}
    assert (await row(database, t.users, ANA)).email_norm == "ana@example.org"


async def test_attaching_waits_for_a_change_of_the_organization(
    services: DomainServices, database: AsyncEngine
) -> None:
    """While somebody holds the organization for a change, a workspace is not attached to it."""
    await services.organizations.create("op", name="Org", id="o")
    async with database.begin() as holder:
        await holder.execute(text("SELECT id FROM organizations WHERE id = 'o' FOR UPDATE"))
        attach = asyncio.create_task(services.workspaces.attach("op", "w", organization_id="o"))
        _, pending = await asyncio.wait([attach], timeout=0.2)
        assert pending
    assert (await attach).marked


async def test_the_database_away_is_unavailable(database: AsyncEngine) -> None:
    """Nobody listens on the port: a typed error that may be retried, not a driver's."""
    away = create_engine(
        Settings.model_validate(
            {"database_url": "postgresql+asyncpg://x@127.0.0.1:1/x", "tag_secret": "s" * 32}
        )
    )
    with pytest.raises(Unavailable, match="database"):
        await DomainServices(away, RecordingMarker(database)).users.create("op", name="X")
    await away.dispose()


async def test_a_failed_transaction_ends_in_a_typed_error(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Ids with a NUL, and a workspace that is gone, are the caller's errors."""
    with pytest.raises(InvalidRequest, match="NUL"):
        await services.records.update(ANA, "w", "tbl", "r\x001", {"n": 1})
    async with database.begin() as connection:
        await connection.execute(delete(t.workspaces))
    with pytest.raises(NotFound, match="workspace 'w' was not found"):
        await services.records.update(ANA, "w", "tbl", "r1", {"n": 1})
    with pytest.raises(NotFound, match="user"):
        await services.workspaces.create("op", name="X", maker_id="nobody")
