"""What an import leaves out and a later one brings back: never with more in sight than before."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.baserow import read_workspace
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine
from context_engine.errors import NotFound
from context_engine.models import AgentContext, ContextBuildInput
from tests.support import exported as x
from tests.support.exported import as_bytes, exported, tables, view
from tests.support.overlay import WALL
from tests.support.services import RecordingMarker
from tests.support.world import engine_over

W, PEOPLE, TASKS = "small", f"small-t{x.PEOPLE}", f"small-t{x.TASKS}"
DUE, NARROW = f"small-f{x.DUE}", "small-v29"


def whole() -> dict[str, Any]:
    """With a restricted view of the tasks."""
    document = exported()
    tables(document)[1]["views"].append(view(29, x.TASKS, ownership_type="restricted"))
    return document


def without_field() -> dict[str, Any]:
    document = whole()
    people, tasks = tables(document)
    people["fields"].pop()  # computed from it
    tasks["fields"] = [field for field in tasks["fields"] if field["id"] != x.DUE]
    for row in tasks["rows"]:
        del row[f"field_{x.DUE}"]
    return document


def without_table() -> dict[str, Any]:
    document = exported()
    people, _ = tables(document)
    people["fields"], people["views"] = people["fields"][:1], people["views"][:1]
    for row in people["rows"]:
        del row[f"field_{x.OWNED}"]
    tables(document).pop()
    return document


@pytest.fixture
async def services(database: AsyncEngine) -> DomainServices:
    """With the whole workspace, and a VIEWER `vic`."""
    made = DomainServices(database, RecordingMarker(database), enforce_seconds=0.3)
    await load(made, whole())
    await made.users.create("op", name="Vic", id="vic")
    await made.members.add("ana", W, "vic", role="viewer")
    return made


@pytest.fixture
def engine(database: AsyncEngine) -> ContextEngine:
    return engine_over(database, MemoryCache())


async def load(services: DomainServices, document: Any, **more: Any) -> None:
    await services.imports.load("op", read_workspace(as_bytes(document)), admin_id="ana", **more)


async def shut(services: DomainServices, field: str) -> None:
    await services.field_permissions.set(
        "ana", W, TASKS, field, subject_type="user", subject_id="vic", level="none"
    )


async def fields_of(engine: ContextEngine, user: str = "vic") -> list[str]:
    asked = ContextBuildInput(user_id=user, workspace_id=W, table_ids=(TASKS,))
    context = AgentContext.model_validate_json((await engine.build(asked)).context)
    return [field.id for field in context.tables[0].fields]


async def grants(database: AsyncEngine) -> list[tuple[str, str, str]]:
    g = t.grants.c
    async with database.connect() as connection:
        query = select(g.scope_id, g.subject_id, g.role).order_by(g.scope_id, g.subject_id)
        return [tuple(row) for row in await connection.execute(query)]


async def test_a_field_comes_back_with_its_permissions(
    services: DomainServices, engine: ContextEngine
) -> None:
    """Whoever did not see it does not see it again; removed by hand it is another field."""
    await shut(services, DUE)
    await load(services, without_field(), replace=True)
    assert DUE not in await fields_of(engine, "ana")
    await load(services, whole(), replace=True)
    assert DUE in await fields_of(engine, "ana")
    assert DUE not in await fields_of(engine)
    await services.fields.delete("ana", W, TASKS, DUE)
    assert not await services.field_permissions.list("ana", W, TASKS)


async def test_a_table_comes_back_with_its_rules(
    services: DomainServices, engine: ContextEngine, database: AsyncEngine
) -> None:
    """Policies, field permissions and grants; in between it is trashed, and empty."""
    await services.policies.set("ana", W, TASKS, WALL | {"default": "deny_all"})
    await shut(services, DUE)
    await services.grants.set(
        "ana", W, subject_type="user", subject_id="vic", scope_id=TASKS, role="commenter"
    )
    before = await grants(database)
    await load(services, without_table(), replace=True)
    with pytest.raises(NotFound):
        await fields_of(engine, "ana")
    await services.tables.restore("ana", W, TASKS)
    assert not await services.records.list("ana", W, TASKS)
    await load(services, without_table(), replace=True)
    await load(services, whole(), replace=True)
    assert not await services.records.list("vic", W, TASKS)
    assert DUE not in await fields_of(engine)
    assert await grants(database) == before


@pytest.mark.parametrize("how", ["gone", "collaborative"])
async def test_a_role_on_a_view_does_not_come_back_with_it(
    services: DomainServices, database: AsyncEngine, how: str
) -> None:
    """Nor with its restriction: it would be a way in that nobody gave. NONE stays: it hides."""
    await services.users.create("op", name="Sam", id="sam")
    await services.members.add("ana", W, "sam", role="viewer")
    for user, role in (("vic", "viewer"), ("sam", "none")):
        await services.grants.set(
            "ana", W, subject_type="user", subject_id=user, scope_type="view", scope_id=NARROW,
            role=role,
        )  # fmt: skip
    await load(services, whole(), replace=True)
    assert await grants(database) == [(NARROW, "sam", "none"), (NARROW, "vic", "viewer")]
    other = exported()
    if how != "gone":
        tables(other)[1]["views"].append(view(29, x.TASKS))
    await load(services, other, replace=True)
    await load(services, whole(), replace=True)
    assert await grants(database) == [(NARROW, "sam", "none")]
