"""Whom the filter of a view is told: who may change it, where all that it names is in sight."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from tests.support.frozen import changeable
from tests.support.services import ANA, BEN, BUD, NED

HIGH: JsonValue = {"cmp": {"ref": "field:n", "op": "gt", "operand": {"literal": 7}}}
MINE: JsonValue = {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}}
LED: JsonValue = {"linkedAny": {"field": "link", "pred": {"all": [
    MINE, {"cmp": {"ref": "field:far-name", "op": "eq", "operand": {"literal": "x"}}},
]}}}  # fmt: skip
LOOKED_UP: JsonValue = {"cmp": {"ref": "field:name", "op": "in", "operand": {"attr": {
    "table": "far", "keyField": "far-name", "valueField": "far-text"}}}}  # fmt: skip


def where(value: JsonValue, field: str = "n") -> JsonValue:
    """A filter in the language of views, as an import stores it."""
    return {"where": {"field": field, "value": value, "test": {"op": "empty"}}}


STORED_BY_IMPORT: dict[str, JsonValue] = {
    "where": where({"cell": "n", "kind": "number"}),
    "where-column": where({"system": "updated_at"}),
    "where-count": where({"count": {"field": "link", "table": "far"}}, field="name"),
    "garbage": {"all": 1},
}


async def shown(services: DomainServices, who: str) -> set[str]:
    return set((await services.tables.show(who, "w", "tbl")).filters)


@pytest.fixture
async def views(services: DomainServices, database: AsyncEngine) -> None:
    """Table `far`, a link to it, and views of `tbl` with filters of every kind."""
    await services.tables.create(ANA, "w", name="Far", id="far", primary_id="far-name")
    await services.fields.create(ANA, "w", "far", name="Text", type="text", id="far-text")
    await services.links.create(ANA, "w", "tbl", name="L", linked_table_id="far", id="link")
    for id, filter in (
        ("all", None), ("high", HIGH), ("mine", MINE), ("led", LED), ("looked-up", LOOKED_UP),
        *((id, HIGH) for id in STORED_BY_IMPORT),
    ):  # fmt: skip
        await services.views.create(ANA, "w", "tbl", name=id, filter=filter, id=id)
    await services.views.create(
        ANA, "w", "tbl", name="R", ownership="restricted", filter=HIGH, id="restricted"
    )
    async with database.begin() as connection:
        for id, stored in STORED_BY_IMPORT.items():
            await connection.execute(
                update(t.views).where(t.views.c.id == id).values(filter=stored)
            )


@pytest.mark.usefixtures("views")
async def test_a_filter_is_told_to_whoever_may_change_the_view(services: DomainServices) -> None:
    """As it is stored, but no garbage; of a restricted view it is a boundary, and an ADMIN's."""
    readable = {"high", "mine", "led", "looked-up", "where", "where-column", "where-count"}
    filters = (await services.tables.show(ANA, "w", "tbl")).filters
    assert set(filters) == readable | {"restricted"}
    assert (filters["high"], filters["where"]) == (HIGH, STORED_BY_IMPORT["where"])
    await services.grants.set(
        ANA, "w", subject_type="user", subject_id=BUD, scope_type="view", scope_id="restricted",
        role="viewer",
    )  # fmt: skip
    assert await shown(services, BUD) == readable
    assert await shown(services, BEN) == set()


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize(
    ("table", "field", "gone"),
    [
        ("tbl", "n", {"high", "where", "where-column"}),
        ("tbl", "name", {"looked-up", "where-count"}),
        ("tbl", "link", {"led", "where-count"}),
        ("far", "far-name", {"led", "looked-up"}),
        ("far", "far-text", {"looked-up"}),
        ("far", None, {"led", "looked-up", "where-count"}),
    ],
)
async def test_a_filter_that_names_what_is_hidden_is_not_told(
    services: DomainServices, table: str, field: str | None, gone: set[str]
) -> None:
    """A field, a link, a field on its other side, a table that is looked into."""
    before = await shown(services, BUD)
    if field is None:
        await services.grants.set(
            ANA, "w", subject_type="user", subject_id=BUD, scope_type="table", scope_id=table,
            role="none",
        )  # fmt: skip
    else:
        await services.field_permissions.set(
            ANA, "w", table, field, subject_type="user", subject_id=BUD, level="none"
        )
    assert await shown(services, BUD) == before - gone


@pytest.mark.usefixtures("views")
async def test_by_the_grant_on_a_view_alone_no_filter_is_told(services: DomainServices) -> None:
    """Whoever sees its rows is not told what keeps the others out."""
    await services.grants.set(
        ANA, "w", subject_type="user", subject_id=NED, scope_type="view", scope_id="restricted",
        role="editor",
    )  # fmt: skip
    shape = await services.tables.show(NED, "w", "tbl")
    assert [view.facts.id for view in shape.table.views] == ["restricted"]
    assert shape.filters == {}


@pytest.mark.usefixtures("views")
async def test_what_is_told_is_the_readers_own(services: DomainServices) -> None:
    """Whoever changes it changes no filter that is kept, and so no boundary; and of a table that is
    handed out nothing can be changed."""
    shape = await services.tables.show(ANA, "w", "tbl")
    told = shape.filters["restricted"]
    assert isinstance(told, dict)
    told.clear()
    assert (await services.tables.show(ANA, "w", "tbl")).filters["restricted"] == HIGH
    assert list(changeable((shape.table, await services.tables.list(ANA, "w")))) == []
    (view,) = [one.facts for one in shape.table.views if one.facts.id == "restricted"]
    assert isinstance(view.filter, dict)
    with pytest.raises(TypeError, match="copy"):
        view.filter.clear()
