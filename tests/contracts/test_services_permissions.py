"""Who may say what of a field and of a view, and what ends with what."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices, Written
from context_engine.changes import FieldChanged, FieldPermissionChanged, GrantChanged
from context_engine.errors import Conflict, InvalidRequest, NotFound, NotPermitted
from tests.support.services import ANA, BEN, BUD, COM, NED, OUT, VIC, RecordingMarker, row

NO_ADMIN = (BUD, BEN, COM, VIC)


def _permit(
    services: DomainServices, who: str, field: str = "n", table: str = "tbl", **more: Any
) -> Awaitable[Written]:
    given = {"subject_type": "user", "subject_id": VIC, "level": "none"}
    return services.field_permissions.set(who, "w", table, field, **(given | more))


def _lift(services: DomainServices, who: str, **more: Any) -> Awaitable[Written]:
    given = {"subject_type": "user", "subject_id": VIC}
    return services.field_permissions.remove(who, "w", "tbl", "n", **(given | more))


def _grant(services: DomainServices, who: str, **more: Any) -> Awaitable[Written]:
    given = {"subject_type": "user", "subject_id": VIC, "scope_id": "tbl", "role": "viewer"}
    return services.grants.set(who, "w", **(given | more))


def _on_view(services: DomainServices, who: str, view: str, **more: Any) -> Awaitable[Written]:
    return _grant(services, who, **({"scope_type": "view", "scope_id": view} | more))


async def _rows(database: AsyncEngine, table: Any) -> list[tuple[str, str]]:
    """The subjects of what is stored."""
    query = select(table.c.subject_type, table.c.subject_id)
    async with database.connect() as connection:
        return sorted(tuple(row) for row in await connection.execute(query))


# -- fields ------------------------------------------------------------------------------------


async def test_an_admin_of_the_workspace_or_the_table_says_what_of_a_field(
    services: DomainServices,
) -> None:
    """Nobody under that, and who does not see the table is not told that it is there."""
    for who in NO_ADMIN:
        for write in (
            _permit(services, who),
            _lift(services, who),
            services.field_permissions.list(who, "w", "tbl"),
        ):
            with pytest.raises(NotPermitted):
                await write
    for who in (NED, OUT):
        with pytest.raises(NotFound) as hidden:
            await _permit(services, who)
        with pytest.raises(NotFound) as missing:
            await _permit(services, who, table="gone")
        assert hidden.value.kind == missing.value.kind
    await _grant(services, ANA, subject_id=BEN, role="admin")
    await _permit(services, BEN)
    await services.tables.create(ANA, "w", name="Other", id="other", primary_id="o-name")
    with pytest.raises(NotPermitted):
        await _permit(services, BEN, "o-name", "other")


async def test_who_is_shut_out_by_mistake_can_be_let_in_again(services: DomainServices) -> None:
    """By an ADMIN of the workspace who sees neither the field nor the table."""
    await _permit(services, ANA, subject_id=ANA)
    await _permit(services, ANA, subject_type="role", subject_id="admin")
    await _grant(services, ANA, subject_id=ANA, role="none")
    for subject in (("user", ANA), ("role", "admin")):
        await _lift(services, ANA, subject_type=subject[0], subject_id=subject[1])
    assert await services.field_permissions.list(ANA, "w", "tbl") == []


async def test_a_field_permission_is_kept_told_and_marked(
    services: DomainServices, marker: RecordingMarker
) -> None:
    """Its version rises, an older one is refused, and whom it names is what is marked."""
    made = await _permit(services, ANA)
    (change,) = made.changes
    assert isinstance(change, FieldPermissionChanged)
    assert (change.table_id, change.field_id, change.op) == ("tbl", "n", "created")
    assert (change.subject.type, change.subject.id) == ("user", VIC)
    assert (made.id, made.version, made.marked) == ("n", 1, True)
    assert marker.calls[-1][1] == {keys.access(VIC)}
    again = await _permit(services, ANA, level="read", expected_version=1)
    assert (again.version, again.changes[0].op) == (2, "updated")  # type: ignore[union-attr]
    with pytest.raises(Conflict, match="has version 2, not 1"):
        await _permit(services, ANA, expected_version=1)
    with pytest.raises(NotFound):
        await _permit(services, ANA, subject_id=BEN, expected_version=1)
    await _permit(services, ANA, "ok", subject_type="role", subject_id="viewer", level="write")
    assert marker.calls[-1][1] == {keys.schema("tbl"), keys.rows("tbl")}
    found = await services.field_permissions.list(ANA, "w", "tbl")
    assert [(p.field_id, p.subject_type, p.subject_id, p.level) for p in found] == [
        ("n", "user", VIC, "read"),
        ("ok", "role", "viewer", "write"),
    ]
    assert await services.field_permissions.list(ANA, "w", "tbl", "n") == found[:1]
    gone = await _lift(services, ANA)
    assert (gone.version, gone.changes[0].op) == (2, "deleted")  # type: ignore[union-attr]
    with pytest.raises(NotFound, match=f"field permission 'user:{VIC} on n'"):
        await _lift(services, ANA)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subject_type": "agent"}, "use user, team or role"),
        ({"subject_type": "role", "subject_id": "none"}, "use one of viewer"),
        ({"subject_type": "role", "subject_id": "boss"}, "use one of viewer"),
        ({"subject_id": OUT}, "not an active member"),
        ({"level": "admin"}, "use one of none, read, write"),
    ],
)
async def test_a_field_permission_that_names_nobody_is_refused(
    services: DomainServices, given: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        await _permit(services, ANA, **given)


async def test_a_field_permission_stays_in_its_table_and_workspace(
    services: DomainServices,
) -> None:
    """Another table's field, another workspace's table or team, and a trashed table: not found."""
    await services.tables.create(ANA, "w", name="Other", id="other", primary_id="o-name")
    await services.workspaces.create("op", name="Two", maker_id=ANA, id="w2")
    await services.tables.create(ANA, "w2", name="Far", id="far", primary_id="f-name")
    await services.teams.create(ANA, "w2", name="Far", id="far-team")
    for write in (
        _permit(services, ANA, "gone"),
        _permit(services, ANA, "o-name"),
        _permit(services, ANA, "f-name", "far"),
        _permit(services, ANA, subject_type="team", subject_id="far-team"),
    ):
        with pytest.raises(NotFound):
            await write
    await services.tables.trash(ANA, "w", "tbl")
    with pytest.raises(NotFound, match="table 'tbl'"):
        await _permit(services, ANA)


async def test_what_is_said_ends_with_the_field_the_team_and_the_membership(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Nothing of it waits for somebody who comes later under the same id."""
    await services.teams.create(ANA, "w", name="T", id="g")
    for field in ("n", "ok"):
        await _permit(services, ANA, field)
        await _permit(services, ANA, field, subject_type="team", subject_id="g")
    await services.fields.delete(ANA, "w", "tbl", "n")
    assert await _rows(database, t.field_permissions) == [("team", "g"), ("user", VIC)]
    await services.teams.delete(ANA, "w", "g")
    assert await _rows(database, t.field_permissions) == [("user", VIC)]
    await services.members.remove(ANA, "w", VIC)
    assert await _rows(database, t.field_permissions) == []


async def _made_of(database: AsyncEngine, field: str, *sources: tuple[str, str]) -> None:
    """Makes a text field one that is computed from others."""
    reads = [list(source) for source in sources]
    async with database.begin() as connection:
        await connection.execute(
            t.fields.update().where(t.fields.c.id == field).values(type="formula", reads=reads)
        )


async def test_a_changed_field_names_the_tables_that_are_computed_from_it(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Through any number of fields, round circles too, and after the field is gone."""
    for table in ("a", "b", "c"):
        await services.tables.create(ANA, "w", name=table, id=table, primary_id=f"{table}-name")
        await services.fields.create(ANA, "w", table, name="F", type="text", id=f"{table}-f")
    await _made_of(database, "a-f", ("tbl", "n"), ("c", "c-f"))
    await _made_of(database, "b-f", ("a", "a-name"), ("a", "a-f"))
    await _made_of(database, "c-f", ("b", "b-f"))

    def told(written: Written) -> list[tuple[str, ...]]:
        return [c.dependent_table_ids for c in written.changes if isinstance(c, FieldChanged)]

    async def renamed(table: str, field: str) -> list[tuple[str, ...]]:
        return told(await services.fields.update(ANA, "w", table, field, name="X"))

    assert await renamed("tbl", "n") == [("a", "b", "c")]
    assert await renamed("tbl", "ok") == [()]
    assert await renamed("a", "a-name") == [("b", "c")]
    assert await renamed("a", "a-f") == [("b", "c")]
    assert told(await services.fields.delete(ANA, "w", "tbl", "n")) == [("a", "b", "c")]
    stored = await row(database, t.fields, "a-f")
    assert stored.reads == [["tbl", "n"], ["c", "c-f"]], "what it was made of stays, and denies"
    made = await services.fields.create(ANA, "w", "tbl", name="N", type="number", id="n")
    assert told(made) == [("a", "b", "c")]
    link = {"name": "L", "linked_table_id": "tbl"}
    await _made_of(database, "b-f", ("a", "later"))
    linked = await services.links.create(ANA, "w", "a", id="later", **link)  # type: ignore[arg-type]
    assert told(linked) == [("b", "c")]


async def test_what_is_computed_from_a_deleted_field_is_nobodys(
    services: DomainServices, database: AsyncEngine
) -> None:
    """It stays, out of everyone's sight, until an ADMIN removes it or the source is back."""
    await services.tables.create(ANA, "w", name="Far", id="far", primary_id="far-name")
    await services.fields.create(ANA, "w", "far", name="Made", type="text", id="made")
    await _made_of(database, "made", ("tbl", "n"))
    await _permit(services, ANA, "n")

    async def sees(who: str) -> bool:
        return "made" in (await services.tables.show(who, "w", "far")).names

    assert (await sees(ANA), await sees(VIC)) == (True, False)
    await services.fields.delete(ANA, "w", "tbl", "n")
    assert not await sees(ANA)
    await services.fields.create(ANA, "w", "tbl", name="N", type="number", id="n")
    assert await sees(VIC), "what was said of the one before ended with it"
    await services.fields.delete(ANA, "w", "tbl", "n")
    with pytest.raises(NotFound, match="field 'made'"):
        await services.fields.delete(BUD, "w", "far", "made")
    await services.fields.delete(ANA, "w", "far", "made")


# -- views -------------------------------------------------------------------------------------


@pytest.fixture
async def views(services: DomainServices) -> None:
    """A view of each ownership; the personal ones are ANA's and BUD's."""
    for who, view, ownership in (
        (ANA, "open", "collaborative"),
        (ANA, "narrow", "restricted"),
        (ANA, "own", "personal"),
        (BUD, "buds", "personal"),
    ):
        await services.views.create(who, "w", "tbl", name=view, id=view, ownership=ownership)


@pytest.mark.usefixtures("views")
async def test_an_admin_grants_on_restricted_views_and_hides_any(
    services: DomainServices, marker: RecordingMarker
) -> None:
    """A role on another view would be without effect: it is refused, and NONE is not."""
    made = await _on_view(services, ANA, "narrow", role="editor")
    (change,) = made.changes
    assert isinstance(change, GrantChanged)
    assert (change.scope.type, change.scope.id, change.op) == ("view", "narrow", "created")
    assert marker.calls[-1][1] == {keys.access(VIC)}
    for view in ("open", "own"):
        with pytest.raises(InvalidRequest, match="only a restricted one"):
            await _on_view(services, ANA, view)
        await _on_view(services, ANA, view, role="none")
    gone = await services.grants.remove(
        ANA, "w", subject_type="user", subject_id=VIC, scope_type="view", scope_id="narrow"
    )
    assert gone.changes[0].op == "deleted"  # type: ignore[union-attr]
    for given, says in (
        ({"role": "defer"}, "use one of none"),
        ({"subject_type": "role", "subject_id": "viewer"}, "use user or team"),
        ({"subject_id": OUT}, "not an active member"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            await _on_view(services, ANA, "narrow", **given)


@pytest.mark.usefixtures("views")
async def test_only_an_admin_grants_on_views_and_nobody_learns_of_hidden_ones(
    services: DomainServices,
) -> None:
    """Out of sight is as missing, for all but ADMINs: a restricted one, another's own, any of a
    hidden table."""
    for who in NO_ADMIN:
        with pytest.raises(NotPermitted):
            await _on_view(services, who, "open", role="none")
    unseen = [(who, "narrow") for who in NO_ADMIN]
    unseen += [(BEN, "buds"), *((who, "gone") for who in (ANA, BEN))]
    unseen += [(NED, view) for view in ("open", "narrow", "gone")]
    for who, view in unseen:
        with pytest.raises(NotFound) as refused:
            await _on_view(services, who, view, role="none")
        assert refused.value.message == f"view '{view}' was not found", who
    await _grant(services, ANA, subject_id=BEN, role="admin")
    await _on_view(services, BEN, "narrow")


@pytest.mark.usefixtures("views")
async def test_an_admin_takes_a_personal_view_from_its_owner(services: DomainServices) -> None:
    """NONE holds on any view, by an ADMIN of the workspace or of the table, who does not see it;
    a role on it would be without effect."""
    await _grant(services, ANA, subject_id=BEN, role="admin")

    async def sees() -> bool:
        shape = await services.tables.show(BUD, "w", "tbl")
        return "buds" in {view.facts.id for view in shape.table.views}

    for who in (ANA, BEN):
        assert await sees()
        with pytest.raises(InvalidRequest, match="only a restricted one"):
            await _on_view(services, who, "buds", subject_id=BUD)
        await _on_view(services, who, "buds", subject_id=BUD, role="none")
        assert not await sees()
        (listed,) = await services.listings.grants(who, "w", view_id="buds")
        assert listed in await services.listings.grants(who, "w", table_id="tbl")
        with pytest.raises(NotFound, match="view 'buds'"):
            await services.views.update(BUD, "w", "tbl", "buds", name="X")
        await services.grants.remove(
            who, "w", subject_type="user", subject_id=BUD, scope_type="view", scope_id="buds"
        )


@pytest.mark.usefixtures("views")
async def test_an_admin_hidden_from_a_view_can_be_let_in_again(services: DomainServices) -> None:
    """By an ADMIN, who is shut out themselves."""
    await _on_view(services, ANA, "narrow", subject_id=ANA, role="none")
    await _grant(services, ANA, subject_id=ANA, role="none")
    await services.grants.remove(
        ANA, "w", subject_type="user", subject_id=ANA, scope_type="view", scope_id="narrow"
    )


@pytest.mark.usefixtures("views")
async def test_grants_on_a_view_end_with_it_and_stay_in_the_workspace(
    services: DomainServices, database: AsyncEngine
) -> None:
    """A later view of the same id is nobody's by an old grant."""
    await services.workspaces.create("op", name="Two", maker_id=ANA, id="w2")
    await services.tables.create(ANA, "w2", name="Far", id="far")
    await services.views.create(ANA, "w2", "far", name="V", ownership="restricted", id="far-view")
    with pytest.raises(NotFound, match="view 'far-view'"):
        await _on_view(services, ANA, "far-view")
    await _grant(services, ANA, subject_id=BEN)
    await _on_view(services, ANA, "narrow")
    await services.views.delete(ANA, "w", "tbl", "narrow")
    assert await _rows(database, t.grants) == [("user", BEN)]


@pytest.mark.usefixtures("views")
async def test_a_personal_view_is_its_owners_to_change(services: DomainServices) -> None:
    """Not even an ADMIN finds it."""
    for write in (
        services.views.update(ANA, "w", "tbl", "buds", name="X"),
        services.views.delete(ANA, "w", "tbl", "buds"),
    ):
        with pytest.raises(NotFound, match="view 'buds'"):
            await write
    await services.views.update(BUD, "w", "tbl", "buds", name="X")
