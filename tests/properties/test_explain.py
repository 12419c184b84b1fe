"""What operators are told is what the engine does, for whatever is asked about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.access import Question, VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.explain import explain
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.rows import rows_of
from context_engine.errors import NotFound
from context_engine.keys import Coordinates
from context_engine.reading import visible
from context_engine.settings import Settings
from tests.support.oracle import Loader, Workspace, workspaces
from tests.support.oracle.draws import NOW
from tests.support.stack import Databases
from tests.support.world import SECRET


@pytest.fixture(scope="module")
async def database(databases: Databases) -> AsyncIterator[AsyncEngine]:
    url = await databases.create()
    made = create_engine(Settings.model_validate({"database_url": url, "tag_secret": SECRET}))
    yield made
    await made.dispose()
    await databases.drop(url)


@st.composite
def questions(draw: st.DrawFn, workspace: Workspace, user_id: str) -> Question:
    """Of what is in one table, most often; now and then of another's, or of nothing."""

    def one_of(ids: list[str], others: list[str]) -> str | None:
        return draw(st.sampled_from([None, *ids * 3, *others, "nowhere"]))

    tables = workspace.tables
    table = draw(st.sampled_from(tables))
    return Question(
        user_id=user_id,
        workspace_id=workspace.id,
        table_id=draw(st.sampled_from([table.id] * 9 + ["nowhere"])),
        view_id=one_of([v.id for v in table.views], [v.id for t in tables for v in t.views]),
        field_id=one_of([f.id for f in table.fields], [f.id for t in tables for f in t.fields]),
        record_id=one_of([r.id for r in table.records], [r.id for t in tables for r in t.records]),
        agent_stack=draw(st.sampled_from([(), (), ("a0",), ("a0", "a1"), ("nobody",)])),
    )


async def seen_by_the_engine(database: AsyncEngine, asked: Question) -> dict[str, bool]:
    """What is in sight, of all that is asked about, as a request would have it."""
    at = Coordinates(
        asked.workspace_id,
        asked.user_id,
        table_ids=(asked.table_id,),
        view_id=asked.view_id,
        agent_stack=asked.agent_stack,
    )
    scope = None
    with suppress(NotFound):
        async with SqlDomain(database).snapshot() as reads:
            scope = await visible(reads, at, now=NOW)
    table = scope.tables[0] if scope is not None else None
    seen = {"table": table is not None}
    if asked.view_id is not None:
        seen["view"] = scope is not None and scope.view is not None
    if asked.field_id is not None:
        seen["field"] = table is not None and table.shows(asked.field_id)
    if asked.record_id is not None:
        what, showing = ("record", ()) if asked.field_id is None else ("cell", (asked.field_id,))
        seen[what] = table is not None and await _has(database, table, showing, asked.record_id)
    return seen


async def _has(
    database: AsyncEngine, table: VisibleTable, showing: tuple[str, ...], record_id: str
) -> bool:
    query = select(t.records.c.id).where(t.records.c.id == record_id, rows_of(table, showing))
    async with database.connect() as connection:
        return (await connection.execute(query)).first() is not None


@pytest.mark.timeout(300)
@given(workspace=workspaces(), data=st.data())
@settings(max_examples=60, database=None, deadline=None, suppress_health_check=list(HealthCheck))
async def test_the_verdicts_are_those_of_the_engine(
    database: AsyncEngine, workspace: Workspace, data: st.DataObject
) -> None:
    """Every verdict that is given; where everything is shut out, the one on the table is given."""
    await Loader(database).load(workspace)
    for user in workspace.users:
        for _ in range(2):
            asked = data.draw(questions(workspace, user.id))
            note(f"{asked}")
            steps = await explain(database, asked, now=NOW)
            said = {
                step.step.removeprefix("verdict: ").split(maxsplit=1)[0]: step.outcome == "lets in"
                for step in steps
                if step.step.startswith("verdict: ")
            }
            wanted = await seen_by_the_engine(database, asked)
            note("\n".join(map(str, steps)))
            assert said == {what: wanted[what] for what in said}
            assert said.keys() == wanted.keys() or not any(wanted.values())
