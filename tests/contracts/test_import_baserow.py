"""Real exported workspaces in the database, held against a plain reading of their files."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import view_filters
from context_engine import view_values as v
from context_engine.adapters.baserow import read_workspace
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.predicates import Binds
from context_engine.adapters.sql.services import DomainServices, Imported
from context_engine.adapters.sql.view_filters import value_sql
from context_engine.changes import MemberChanged, WorkspaceChanged
from context_engine.keys import WORKSPACE
from context_engine.loading import NewWorkspace
from tests.support.plain_baserow import PlainFile
from tests.support.services import RecordingMarker
from tests.support.shared_data import WORKSPACES, workspace_file

_value: TypeAdapter[v.Value] = TypeAdapter(v.Value)


@pytest.fixture
def services(database: AsyncEngine) -> DomainServices:
    return DomainServices(
        database, RecordingMarker(database), enforce_seconds=0.3, ids_as_given=True
    )


@pytest.fixture(params=WORKSPACES)
def plain(request: pytest.FixtureRequest) -> PlainFile:
    return PlainFile(workspace_file(request.param))


async def loaded(services: DomainServices, plain: PlainFile) -> tuple[NewWorkspace, Imported]:
    made = read_workspace(plain.path.read_bytes())
    return made, await services.imports.load("op", made, admin_id="ana")


async def everything(database: AsyncEngine, table: Any) -> list[Any]:
    async with database.connect() as connection:
        return list((await connection.execute(select(table))).all())


def number(id: str) -> int:
    """The file's id out of one of ours."""
    return int("".join(c for c in id.rpartition("-")[2] if c.isdigit()))


async def test_everything_of_the_file_is_there(
    services: DomainServices, database: AsyncEngine, plain: PlainFile
) -> None:
    """As many tables, fields, views, rows and links as the file has, and the very same ones."""
    made, _ = await loaded(services, plain)
    for table, ids in (
        (t.tables, set(plain.tables)),
        (t.fields, set(plain.fields)),
        (t.views, {view["id"] for _, view in plain.views()}),
    ):
        assert {number(row.id) for row in await everything(database, table)} == ids
    records = await everything(database, t.records)
    assert Counter(number(row.table_id) for row in records) == Counter(
        {id: len(rows) for id, rows in plain.rows.items() if rows}
    )
    links = {
        (number(x.field_id), number(x.from_record_id), number(x.to_record_id))
        for x in await everything(database, t.links)
    }
    assert links == plain.links()
    assert made.counts.as_json() == {
        "tables": len(plain.tables),
        "fields": len(plain.fields),
        "views": len(list(plain.views())),
        "rows": len(records),
        "links": len(links),
    }


async def test_cells_hold_what_the_file_says(
    services: DomainServices, database: AsyncEngine, plain: PlainFile
) -> None:
    """Every cell that is no formula, file or password, in its type; and when its row was made."""
    await loaded(services, plain)
    async with database.connect() as connection:
        assert (await connection.execute(select(func.count()).select_from(t.records))).scalar()
    stored = ("text", "number", "rating", "autonumber", "boolean", "date", "single_select")
    kept = {"long_text", "email", "phone_number", "url", *stored}
    for row in await everything(database, t.records):
        raw = plain.rows[number(row.table_id)][number(row.id)]
        wanted = {}
        for one in plain.tables[number(row.table_id)]["fields"]:
            value = plain.value(one["id"], raw) if one["type"] in kept else None
            if value is not None and raw.get(f"field_{one['id']}") is not None:
                wanted[one["id"]] = value
        found = {number(id): value for id, value in row.cells.items()}
        assert {id: _plain(value) for id, value in found.items()} == {
            id: value if isinstance(value, str | bool | Decimal) else value.isoformat()
            for id, value in wanted.items()
        }
        assert row.created_at.isoformat() == raw["created_on"]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool) else Decimal(str(value))


async def test_computed_fields_keep_what_they_are_made_of(
    services: DomainServices, database: AsyncEngine, plain: PlainFile
) -> None:
    """As the file says of lookups, rollups and counts; of all others, as it was read."""
    made, _ = await loaded(services, plain)
    stored = {row.id: row.reads for row in await everything(database, t.fields)}
    for one in made.fields:
        reads = stored[one.id]
        assert reads == (None if one.reads is None else [list(pair) for pair in one.reads])
        raw = plain.fields[number(one.id)]
        if one.type in ("lookup", "rollup", "count"):
            named = {raw["through_field_id"], raw.get("target_field_id")} - {None}
            assert named <= {number(field) for _, field in reads}


async def test_views_keep_their_filters_sorts_hidden_fields_and_order(
    services: DomainServices, database: AsyncEngine, plain: PlainFile
) -> None:
    await loaded(services, plain)
    stored = {number(view.id): view for view in await everything(database, t.views)}
    for table, view in plain.views():
        found = stored[view["id"]]
        assert {number(id) for id in found.hidden} == plain.hidden(table, view)
        hidden = plain.hidden(table, view)
        shown = [number(id) for id in found.field_order if number(id) not in hidden]
        assert shown == plain.shown(table, view)
        assert [(number(s["field"]), s["descending"]) for s in found.sorts] == [
            (s["field_id"], s["order"] == "DESC") for s in view.get("sortings", [])
        ]
        assert (found.filter is not None) == bool(view.get("filters"))
        if found.filter is not None:
            filter = view_filters.parse(found.filter)
            assert (view_filters.unavailable(filter) is None) == plain.countable(view)
        assert found.ownership == view.get("ownership_type", "collaborative")


async def test_computed_values_are_those_of_the_plain_reading(
    services: DomainServices, database: AsyncEngine, plain: PlainFile
) -> None:
    """Every lookup, count and rollup without a formula in its chain, of every row, in SQL."""
    made, _ = await loaded(services, plain)
    for one in made.fields:
        if "value" not in one.options:
            continue
        value = _value.validate_python(one.options["value"])
        assert (v.missing(value) is not None) == plain.needs_formula(number(one.id))
        if v.missing(value) is not None:
            continue
        binds = Binds()
        sights = dict.fromkeys((table.id for table in made.tables), view_filters.EVERY_ROW)
        query = f"SELECT id, {value_sql(value, sights, binds)} FROM records WHERE table_id = "
        query += binds.text(one.table_id)
        async with database.connect() as connection:
            found = (await connection.exec_driver_sql(query, tuple(binds.values))).all()
        table = number(one.table_id)
        assert {number(id): _comparable(value) for id, value in found} == {
            id: _comparable(plain.value(number(one.id), row), made.id)
            for id, row in plain.rows[table].items()
        }


def _comparable(value: Any, prefix: str = "") -> Any:
    if isinstance(value, list):
        return sorted((_comparable(item, prefix) for item in value), key=str)
    if isinstance(value, tuple):
        return f"{prefix}-t{value[0]}-r{value[1]}"
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return Decimal(str(value))
    return value.isoformat()


def test_46_of_62_computed_fields_and_29_of_81_filters_can_be_had() -> None:
    """The rest stands on formulas, whose values no file holds."""
    files = [PlainFile(workspace_file(name)) for name in WORKSPACES]
    computed = filtered = 0
    had: Counter[str] = Counter()
    for plain in files:
        made = read_workspace(plain.path.read_bytes())
        for one in made.fields:
            if "value" in one.options:
                computed += 1
                had["fields"] += v.missing(_value.validate_python(one.options["value"])) is None
        for view in made.views:
            if view.filter is not None:
                filtered += 1
                had["views"] += view_filters.unavailable(view_filters.parse(view.filter)) is None
    assert (had["fields"], computed, had["views"], filtered) == (46, 62, 81 - 52, 81)


async def test_what_has_no_counterpart_is_named_by_table_and_field(plain: PlainFile) -> None:
    """Each formula, file and password field, each field over one, each view without a count."""
    gaps = read_workspace(plain.path.read_bytes()).gaps
    named = {(gap.table, gap.field) for gap in gaps if gap.field}
    for id, one in plain.fields.items():
        lost = one["type"] in ("formula", "file", "password") or plain.needs_formula(id)
        dead = one["type"] == "link_row" and any(
            to not in plain.rows[one["link_row_table_id"]]
            for row in plain.rows[plain.owner[id]].values()
            for to in row[f"field_{id}"]
        )
        where = (plain.tables[plain.owner[id]]["name"], one["name"])
        assert (where in named) == (lost or dead), where
    uncounted = {(gap.table, gap.view) for gap in gaps if gap.view and "count" in gap.what}
    assert uncounted == {
        (plain.tables[table]["name"], view["name"])
        for table, view in plain.views()
        if not plain.countable(view)
    }


async def test_one_change_stands_for_the_whole_workspace(
    services: DomainServices, database: AsyncEngine
) -> None:
    """It is marked after the commit, and everything made of the workspace depends on it."""
    plain = PlainFile(workspace_file("product-roadmap"))
    made, imported = await loaded(services, plain)
    kinds = [type(change) for change in imported.written.changes]
    assert kinds == [MemberChanged, WorkspaceChanged]
    assert imported.written.marked
    marker = services.imports._writer._marking._cache
    assert isinstance(marker, RecordingMarker)
    assert [(id, WORKSPACE in tags) for id, tags, _ in marker.calls] == [(made.id, True)]
    assert marker.committed == [2]
    (payload,) = (
        row.payload for row in await everything(database, t.outbox) if "workspace" in row.type
    )
    assert json.loads(json.dumps(payload))["workspaceId"] == made.id
