"""Cells in services: read and written where one way into the table has both row and field."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import InvalidRequest, NotFound, NotPermitted
from tests.support.services import ANA, BEN, BUD, NED, VIC, row


def _permit(
    services: DomainServices, field: str, level: str, who: str, *, table: str = "tbl"
) -> Awaitable[Any]:
    return services.field_permissions.set(
        ANA, "w", table, field, subject_type="user", subject_id=who, level=level
    )


def _on_view(services: DomainServices, view: str, who: str, role: str) -> Awaitable[Any]:
    return services.grants.set(
        ANA, "w", subject_type="user", subject_id=who, scope_type="view", scope_id=view, role=role
    )


async def _cells(services: DomainServices, who: str) -> dict[str, dict[str, Any]]:
    return {one.id: one.cells for one in await services.records.list(who, "w", "tbl")}


@pytest.fixture
async def split(services: DomainServices) -> None:
    """r1 is open and r2 done; the view `opened` has the one without `n`, `done` the other
    without names. r3 is in neither."""
    for record, state in (("r1", "open"), ("r2", "done")):
        await services.records.update(ANA, "w", "tbl", record, {"state": state, "n": 7})
    for view, state, hidden in (("opened", "open", "n"), ("closed", "done", "name")):
        await services.views.create(
            ANA, "w", "tbl", name=view, id=view, ownership="restricted", hidden=[hidden],
            filter={"cmp": {"ref": "field:state", "op": "eq", "operand": {"literal": state}}},
        )  # fmt: skip


OPENED = {"r1": {"name": "Thing 1", "state": "open"}}
CLOSED = {"r2": {"n": 7, "state": "done"}}


# -- read --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("split")
async def test_a_record_is_listed_without_the_cells_that_are_out_of_sight(
    services: DomainServices,
) -> None:
    """Never the rows of one way with the fields of another."""
    await _permit(services, "n", "none", VIC)
    assert (await _cells(services, VIC))["r1"] == {"name": "Thing 1", "state": "open"}
    await _on_view(services, "opened", NED, "viewer")
    assert await _cells(services, NED) == OPENED
    await _on_view(services, "closed", NED, "viewer")
    assert await _cells(services, NED) == OPENED | CLOSED
    listed = await services.records.list(NED, "w", "tbl", limit=1, after="r1")
    assert [one.id for one in listed] == ["r2"]


# -- written -----------------------------------------------------------------------------------


async def test_a_field_that_may_only_be_read_is_not_written(services: DomainServices) -> None:
    """By an EDITOR, in an old record or a new one; the other fields are."""
    await _permit(services, "n", "read", BEN)
    for write in (
        services.records.update(BEN, "w", "tbl", "r1", {"n": 1}),
        services.records.update(BEN, "w", "tbl", "r1", {"n": None}),
        services.records.create(BEN, "w", "tbl", {"name": "New", "n": 1}),
    ):
        with pytest.raises(NotPermitted, match="field 'n'"):
            await write
    await services.records.update(BEN, "w", "tbl", "r1", {"ok": True})
    await services.records.create(BEN, "w", "tbl", {"name": "New"})
    await _permit(services, "n", "write", VIC)
    with pytest.raises(NotPermitted, match="takes the role editor"):
        await services.records.update(VIC, "w", "tbl", "r1", {"n": 1})


async def test_a_field_out_of_sight_is_written_as_one_that_is_missing(
    services: DomainServices,
) -> None:
    """The same words, but for the id."""

    async def refused(field: str) -> list[str]:
        said = []
        for write in (
            services.records.update(BEN, "w", "tbl", "r1", {field: 1}),
            services.records.create(BEN, "w", "tbl", {field: 1}),
            services.links.set(BEN, "w", "tbl", field, "r1", []),
        ):
            with pytest.raises(InvalidRequest) as error:
                await write
            said.append(error.value.message.replace(field, "FIELD"))
        return said

    await services.fields.create(ANA, "w", "tbl", name="H", type="number", id="hidden-1")
    await _permit(services, "hidden-1", "none", BEN)
    assert await refused("hidden-1") == await refused("hidden-2")


@pytest.mark.usefixtures("split")
async def test_a_view_granted_to_an_editor_is_edited_within_its_bounds(
    services: DomainServices,
) -> None:
    """Its rows, its fields: others are missing, or in sight and not to be written."""
    for who in (NED, VIC):  # who sees nothing else, and who sees the whole table
        await _on_view(services, "opened", who, "editor")
        await services.records.update(who, "w", "tbl", "r1", {"ok": True})
    with pytest.raises(NotFound, match="record 'r2'"):
        await services.records.update(NED, "w", "tbl", "r2", {"ok": True})
    with pytest.raises(InvalidRequest, match="no such field"):
        await services.records.update(NED, "w", "tbl", "r1", {"n": 1})
    with pytest.raises(NotPermitted, match="record 'r2' is in sight"):
        await services.records.update(VIC, "w", "tbl", "r2", {"ok": True})
    with pytest.raises(NotPermitted, match="field 'n'"):
        await services.records.update(VIC, "w", "tbl", "r1", {"n": 1})
    await _on_view(services, "closed", NED, "viewer")
    with pytest.raises(NotPermitted, match="record 'r2'"):
        await services.records.update(NED, "w", "tbl", "r2", {"n": 1})
    with pytest.raises(NotPermitted, match="field 'n'"):
        await services.records.update(NED, "w", "tbl", "r1", {"n": 1})


@pytest.mark.usefixtures("split")
async def test_records_come_and_go_by_the_role_on_the_table_alone(
    services: DomainServices,
) -> None:
    """A view grant makes, deletes and restores nothing, whatever its role."""
    await _on_view(services, "opened", VIC, "admin")
    await _on_view(services, "opened", NED, "admin")
    for who in (VIC, NED):
        for write in (
            services.records.create(who, "w", "tbl", {}),
            services.records.delete(who, "w", "tbl", ["r1"]),
        ):
            with pytest.raises(NotPermitted, match="takes the role editor"):
                await write
    own = {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}}
    subjects = [{"type": "user", "id": BEN}]
    await services.policies.set(
        ANA, "w", "tbl",
        {"default": "deny_all", "policies": [
            {"subjects": subjects, "pred": own, "mode": "permissive"}]},
    )  # fmt: skip
    await _on_view(services, "opened", BEN, "editor")
    await services.records.update(BEN, "w", "tbl", "r1", {"ok": True})
    with pytest.raises(NotPermitted, match="by a view alone"):
        await services.records.delete(BEN, "w", "tbl", ["r1"])
    mine = (await services.records.create(BEN, "w", "tbl", {"state": "done"})).id
    await services.records.delete(BEN, "w", "tbl", [mine])
    await services.records.restore(BEN, "w", "tbl", [mine])


# -- links -------------------------------------------------------------------------------------


@pytest.fixture
async def linked(services: DomainServices) -> None:
    """`link` leads from things to others, and back; r1 is linked to o1 and o2."""
    await services.tables.create(ANA, "w", name="Others", id="other", primary_id="o-name")
    await services.links.create(
        ANA, "w", "tbl", name="Link", linked_table_id="other", id="link",
        back_name="Back", back_id="back",
    )  # fmt: skip
    for record in ("o1", "o2", "o3"):
        await services.records.create(ANA, "w", "other", {"o-name": record}, id=record)
    await services.links.set(ANA, "w", "tbl", "link", "r1", ["o1", "o2"])
    await services.views.create(
        ANA, "w", "other", name="Some", id="some", ownership="restricted",
        filter={"cmp": {"ref": "field:o-name", "op": "ne", "operand": {"literal": "o2"}}},
    )  # fmt: skip


async def _links(database: AsyncEngine) -> set[tuple[str, str, str]]:
    k = t.links.c
    query = select(k.field_id, k.from_record_id, k.to_record_id)
    async with database.connect() as connection:
        return {tuple(one) for one in await connection.execute(query)}  # type: ignore[misc]


@pytest.mark.usefixtures("linked")
async def test_a_link_field_is_written_as_any_other(services: DomainServices) -> None:
    """`read` stops an EDITOR, in old records and new ones."""
    await _permit(services, "link", "read", BEN)
    for write in (
        services.links.set(BEN, "w", "tbl", "link", "r1", ["o1"]),
        services.records.create(BEN, "w", "tbl", {}, links={"link": ["o1"]}),
    ):
        with pytest.raises(NotPermitted, match="field 'link'"):
            await write
    await _permit(services, "link", "none", BEN)
    with pytest.raises(InvalidRequest, match="no link field 'link'"):
        await services.links.set(BEN, "w", "tbl", "link", "r1", ["o1"])


@pytest.mark.usefixtures("linked")
async def test_links_that_lead_out_of_sight_stay_as_they_are(
    services: DomainServices, database: AsyncEngine
) -> None:
    """An EDITOR who sees some of the rows links to those, and cuts no other link by it."""
    await services.grants.set(
        ANA, "w", subject_type="user", subject_id=BEN, scope_id="other", role="none"
    )
    with pytest.raises(NotPermitted, match="'link' leads out") as hidden:
        await services.links.set(BEN, "w", "tbl", "link", "r1", ["o1"])
    assert "other" not in hidden.value.message
    await _on_view(services, "some", BEN, "viewer")
    with pytest.raises(NotFound, match="record 'o2'"):
        await services.links.set(BEN, "w", "tbl", "link", "r1", ["o2"])
    await services.links.set(BEN, "w", "tbl", "link", "r1", ["o3"])
    assert await _links(database) == {
        (field, *ends)
        for to in ("o2", "o3")
        for field, ends in (("link", ("r1", to)), ("back", (to, "r1")))
    }


# -- what else names rows and fields -----------------------------------------------------------


async def test_a_title_is_written_by_who_sees_the_primary_field(services: DomainServices) -> None:
    """The task is in sight all the same, and the rest of it is written."""
    await services.tasks.create(ANA, "w", title="T", table_id="tbl", record_id="r1", id="k")
    await services.tasks.update(BEN, "w", "k", title="Known")
    await _permit(services, "name", "none", BEN)
    with pytest.raises(NotPermitted, match="title"):
        await services.tasks.update(BEN, "w", "k", title="Unknown")
    await services.tasks.update(BEN, "w", "k", status="done")


async def test_a_view_keeps_hidden_what_its_editor_cannot_name(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Nor is a hidden field named in a filter, an order or a list of hidden ones."""
    await services.views.create(
        ANA, "w", "tbl", name="V", id="v", hidden=["n", "ok"], field_order=["n", "name"]
    )
    await services.fields.create(ANA, "w", "tbl", name="H", type="number", id="hidden-1")
    for field in ("n", "hidden-1"):
        await _permit(services, field, "none", BUD)
    await services.views.update(BUD, "w", "tbl", "v", hidden=["day"], field_order=["day", "name"])
    stored = await row(database, t.views, "v")
    assert (stored.hidden, stored.field_order) == (["day", "n"], ["day", "name", "n"])

    async def refused(field: str) -> list[str]:
        said = []
        compared = {"cmp": {"ref": f"field:{field}", "op": "eq", "operand": {"literal": 1}}}
        for given in ({"hidden": [field]}, {"field_order": [field]}, {"filter": compared}):
            with pytest.raises(InvalidRequest) as error:
                await services.views.update(BUD, "w", "tbl", "v", **given)  # type: ignore[arg-type]
            said.append(error.value.message.replace(field, "FIELD"))
        return said

    assert await refused("hidden-1") == await refused("hidden-2")


async def test_a_builder_does_not_find_a_field_out_of_sight(services: DomainServices) -> None:
    """An ADMIN of the table does, who says what is in whose sight."""
    await _permit(services, "n", "none", BUD)
    await _permit(services, "n", "none", ANA)
    for write in (
        services.fields.update(BUD, "w", "tbl", "n", name="X"),
        services.fields.delete(BUD, "w", "tbl", "n"),
    ):
        with pytest.raises(NotFound, match="field 'n'"):
            await write
    shape = await services.tables.show(BUD, "w", "tbl")
    assert "n" not in shape.names
    await services.fields.update(ANA, "w", "tbl", "n", name="X")
    await services.fields.delete(ANA, "w", "tbl", "n")


async def test_a_version_is_expected_of_what_is_changed_alone(services: DomainServices) -> None:
    """Whether another record is there is not told, nor is nothing said of it."""
    for other in ("r2", "gone"):
        with pytest.raises(InvalidRequest, match=f"'{other}' is not among the changes") as refused:
            await services.records.update_many(
                BEN, "w", "tbl", {"r1": {"n": 1}}, expected_versions={"r1": 1, other: 1}
            )
        assert refused.value.field == "expectedVersions"
