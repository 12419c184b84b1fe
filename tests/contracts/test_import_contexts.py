"""All six workspaces, all coordinates: contexts of every table and view, for two people.

What each of them is told is held against a plain reading of the file, rows in sight and all.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.baserow import read_workspace
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from context_engine.models.sections import SAMPLED_FIELDS, SAMPLED_VIEWS
from context_engine.settings import Settings
from tests.support.overlay import (
    ADMIN,
    BARRED,
    HIDDEN_PROJECT,
    PROJECT,
    TEAM,
    VIEWER,
    Overlay,
    lay,
)
from tests.support.plain_baserow import NOW, PlainFile, Row
from tests.support.services import RecordingMarker
from tests.support.shared_data import WORKSPACES, workspace_file
from tests.support.stack import Databases
from tests.support.world import SECRET, Statements, engine_over

Built = dict[str, Any]


@pytest.fixture(scope="module", params=WORKSPACES)
async def loaded(
    request: pytest.FixtureRequest, databases: Databases
) -> AsyncIterator[tuple[AsyncEngine, Overlay]]:
    """Once for all tests of a file: they read it."""
    plain = PlainFile(workspace_file(request.param))
    url = await databases.create()
    database = create_engine(Settings.model_validate({"database_url": url, "tag_secret": SECRET}))
    services = DomainServices(database, RecordingMarker(database), ids_as_given=True)
    made = read_workspace(plain.path.read_bytes())
    await services.imports.load("op", made, admin_id=ADMIN)
    yield database, await lay(services, database, made, plain)
    await database.dispose()
    await databases.drop(url)


@pytest.fixture
def database(loaded: tuple[AsyncEngine, Overlay]) -> AsyncEngine:
    return loaded[0]


@pytest.fixture
def overlay(loaded: tuple[AsyncEngine, Overlay]) -> Overlay:
    return loaded[1]


@pytest.fixture
def engine(database: AsyncEngine) -> ContextEngine:
    cache = MemoryCache(now=lambda: int(NOW.timestamp() * 1000))
    return engine_over(database, cache, now=lambda: NOW)


async def context(engine: ContextEngine, overlay: Overlay, user: str, **more: Any) -> Built:
    asked = {"userId": user, "workspaceId": overlay.workspace.id, **more}
    answer = await engine.build(ContextBuildInput.model_validate(asked), Options(strict=True))
    found: Built = json.loads(answer.context)
    return found


def in_sight(overlay: Overlay, user: str, table: int) -> list[Row]:
    rows = overlay.plain.rows[table].values()
    return [row for row in rows if overlay.sees(user, table, row)]


@pytest.mark.parametrize("user", [ADMIN, VIEWER])
async def test_every_table_and_view_is_told_as_the_file_has_it(
    engine: ContextEngine, overlay: Overlay, user: str
) -> None:
    """Counts of rows in sight, of fields and views, and their samples, table by table."""
    plain, prefix = overlay.plain, overlay.workspace.id
    for table, raw in plain.tables.items():
        table_id = f"{prefix}-t{table}"
        views = sorted(raw["views"], key=lambda view: (view["order"], view["id"]))
        for view in (None, *views):
            asked = {} if view is None else {"viewId": f"{prefix}-v{view['id']}"}
            found = await context(engine, overlay, user, tableIds=[table_id], **asked)
            section = found["table"]
            assert section["name"] == raw["name"]
            assert section["recordCount"] == exactly(len(in_sight(overlay, user, table)))
            assert section["fieldCount"] == len(raw["fields"])
            order = [view, *(one for one in views if one is not view)] if view else views
            assert section["viewCount"] == len(views)
            assert [number(one["id"]) for one in section["views"]] == [
                one["id"] for one in order[:SAMPLED_VIEWS]
            ]
            assert [number(one["id"]) for one in section["fields"]] == sampled(plain, table, view)
            if view is not None:
                check_view(found["view"], overlay, user, table, view)
                status = found["trace"]["sections"]["view"]["status"]
                assert status == ("included" if plain.countable(view) else "unavailable")


def check_view(told: Built, overlay: Overlay, user: str, table: int, view: Any) -> None:
    plain = overlay.plain
    assert (told["name"], told["type"]) == (view["name"], view["type"])
    assert told["filtered"] == bool(view.get("filters"))
    shown = len(plain.field_order(table)) - len(plain.hidden(table, view))
    assert told["fieldCount"] == shown
    count = told["recordCount"]
    if not plain.countable(view):
        assert (count["value"], count["exact"]) == (None, False)
        assert "formula" in count["unavailable"]
        return

    def sees(of: int, row: Row) -> bool:
        return overlay.sees(user, of, row)

    rows = in_sight(overlay, user, table)
    assert count == exactly(sum(plain.passes(view, row, NOW, sees) for row in rows)), view["name"]


def exactly(number: int) -> Built:
    return {"value": number, "exact": True, "unavailable": None}


def sampled(plain: PlainFile, table: int, view: Any) -> list[int]:
    order = [plain.primary(table)]
    order += plain.shown(table, view) if view is not None else []
    order += plain.field_order(table)
    return list(dict.fromkeys(order))[:SAMPLED_FIELDS]


def number(id: str) -> int:
    return int(id.rpartition("-")[2][1:])


async def test_all_tables_at_once_take_no_more_statements_than_one(
    engine: ContextEngine, overlay: Overlay, database: AsyncEngine
) -> None:
    """Every table with its count, every link between two of them once."""
    plain, prefix = overlay.plain, overlay.workspace.id
    ids = [f"{prefix}-t{table}" for table in plain.tables]
    async with Statements(database) as one:
        await context(engine, overlay, VIEWER, tableIds=ids[:1])
    async with Statements(database) as all_of_them:
        found = await context(engine, overlay, VIEWER, tableIds=ids)
    assert len(one.reading) == len(all_of_them.reading)
    assert {number(x["id"]): x["recordCount"]["value"] for x in found["tables"]} == {
        table: len(in_sight(overlay, VIEWER, table)) for table in plain.tables
    }
    assert {
        (number(r["tableId"]), number(r["fieldId"]), number(r["linkedTableId"]))
        for r in found["relations"]
    } == {
        (plain.owner[id], id, one["link_row_table_id"])
        for id, one in plain.fields.items()
        if one["type"] == "link_row"
    }


async def test_teams_projects_and_tasks_are_told_as_far_as_their_rows_are_in_sight(
    engine: ContextEngine, overlay: Overlay
) -> None:
    """The viewer counts the tasks on rows of the viewer's own; other people's are not found."""
    walled = overlay.workspace.rows
    (table,) = {row.table_id for row in walled if number(row.table_id) in overlay.walled} & {
        (await context(engine, overlay, ADMIN, taskId=overlay.tasks[0]))["task"]["tableId"]
    }
    rows = [row for row in walled if row.table_id == table][:9]
    mine = [n for n, row in enumerate(rows) if number(row.id) % 3 == 0]
    for user, seen in ((ADMIN, list(range(len(rows)))), (VIEWER, mine)):
        found = await context(engine, overlay, user, projectId=PROJECT, teamId=TEAM)
        assert found["project"]["tasks"]["value"] == len(seen)
        assert found["project"]["openTasks"]["value"] == sum(n % 2 == 0 for n in seen)
        assert found["team"]["memberCount"]["value"] == 1
        for n, task in enumerate(overlay.tasks):
            if n in seen:
                told = (await context(engine, overlay, user, taskId=task))["task"]
                assert told["recordId"] == rows[n].id
            else:
                with pytest.raises(NotFound):
                    await context(engine, overlay, user, taskId=task)
    for coordinate in ({"projectId": HIDDEN_PROJECT}, {"teamId": BARRED}):
        with pytest.raises(NotFound):
            await context(engine, overlay, VIEWER, **coordinate)
