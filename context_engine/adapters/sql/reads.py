"""One consistent reading of the domain: facts with the dialogue, then counts. Two statements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine.access import VisibleScope, VisibleTable
from context_engine.adapters.sql.driver import InTransaction, Reader, driver_of
from context_engine.adapters.sql.facts import DIALOGUE, FACTS
from context_engine.adapters.sql.faults import QUERY_CANCELED, database_faults, sqlstate
from context_engine.adapters.sql.predicates import Binds, as_condition, predicate_sql
from context_engine.adapters.sql.view_filters import view_filter_sql
from context_engine.facts import Facts
from context_engine.keys import Coordinates
from context_engine.models.sections import Count
from context_engine.ports import Counts, DomainReads

OLDER_MESSAGES = 40
"""Messages before the tail that a summary may take from."""

OLDER_CHARS = 2_000
"""Characters of an older message that are read."""

GROUP_REACH = 30
"""Messages beyond the tail whose tools' tables are looked at, since the tail reaches back."""

TOO_SLOW = "the database took too long"
CLOSED = "done"
"""Status of a task that is not open any more."""


class SqlReads:
    """`DomainReads` over one connection."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @classmethod
    def within(cls, connection: AsyncConnection) -> SqlReads:
        """In a write's transaction, whose writes it sees."""
        return cls(InTransaction(connection))

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """All that decides permission for `at`, and the dialogue of who takes part in it."""
        values = {
            "workspace_id": at.workspace_id,
            "user_id": at.user_id,
            "table_ids": list(at.table_ids),
            "view_id": at.view_id,
            "task_id": at.task_id,
            "project_id": at.project_id,
            "team_id": at.team_id,
            "organization_id": at.organization_id,
            "workflow_id": at.workflow_id,
            "agent_stack": list(at.agent_stack),
            "conversation_id": at.conversation_id,
            "tail": tail,
            "reach": tail + GROUP_REACH if tail else 0,
            "older": OLDER_MESSAGES,
            "older_chars": OLDER_CHARS,
        }
        async with database_faults():
            statement = FACTS if _names_more(at) else DIALOGUE
            row = await self._reader.fetchrow(
                statement.sql, *(values[name] for name in statement.names)
            )
        return Facts.model_validate_json(row[0])

    async def counts(self, scope: VisibleScope) -> Counts:
        """Every count in one statement; where that takes too long, no number at all."""
        binds = Binds()
        wanted = _wanted(scope, binds)
        if not wanted:
            return Counts()
        try:
            async with database_faults():
                row = await self._one_in_time(f"SELECT {', '.join(wanted.values())}", binds)
        except StatementTooSlow:
            return _uncounted(scope)
        found = dict(zip(wanted, row, strict=True))
        return Counts(
            tables={one.id: Count.of(found["table", one.id]) for one in scope.tables},
            view=_view_count(scope, found.get(_VIEW)),
            project_tasks=_optional(found.get(_TASKS)),
            project_open_tasks=_optional(found.get(_OPEN_TASKS)),
            task_row_visible=bool(found.get(_TASK_ROW, True)),
        )

    async def _one_in_time(self, statement: str, binds: Binds) -> Any:
        try:
            return await self._reader.fetchrow(statement, *binds.values)
        except Exception as error:
            if sqlstate(error) == QUERY_CANCELED:
                raise StatementTooSlow from error
            raise


def _names_more(at: Coordinates) -> bool:
    """Whether anything but a conversation and agents is asked for."""
    one = (at.view_id, at.project_id, at.task_id, at.team_id, at.organization_id, at.workflow_id)
    return bool(at.table_ids) or any(id is not None for id in one)


class StatementTooSlow(Exception):
    """The server cancelled a statement at its time limit."""


class SqlDomain:
    """`Domain` on PostgreSQL's primary."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """One statement is a snapshot of its own: no BEGIN and COMMIT to wait for."""
        async with database_faults(), driver_of(self._engine) as driver:
            return await SqlReads(driver).facts(at, tail=tail)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[DomainReads]:
        """A REPEATABLE READ, read-only transaction."""
        async with (
            database_faults(),
            driver_of(self._engine) as driver,
            driver.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield SqlReads(driver)


# -- counts ------------------------------------------------------------------------------------


def rows_of(table: VisibleTable) -> ColumnElement[bool]:
    """The live records of `table` that its user sees, as a condition: what counts, and lists."""
    return as_condition(lambda binds: _rows(table, binds))


def _rows(table: VisibleTable, binds: Binds) -> str:
    return (
        f"records.table_id = {binds.text(table.id)} AND records.deleted_at IS NULL"
        f" AND {predicate_sql(table.rows, binds)}"
    )


_Key = tuple[str, str | None]
_VIEW: _Key = ("view", None)
_TASKS: _Key = ("tasks", None)
_OPEN_TASKS: _Key = ("open tasks", None)
_TASK_ROW: _Key = ("task row", None)


def _wanted(scope: VisibleScope, binds: Binds) -> dict[_Key, str]:
    """What is to be counted in `scope`, each by a subquery of its own."""
    wanted: dict[_Key, str] = {
        ("table", table.id): _number_of("records", _rows(table, binds)) for table in scope.tables
    }
    view, owner = scope.view, scope.view_table
    if view is not None and owner is not None and view.uncountable is None:
        within = f"{_rows(owner, binds)} AND {predicate_sql(view.filter, binds)}"
        if view.where is not None:
            within = f"{within} AND {view_filter_sql(view.where, binds)}"
        wanted[_VIEW] = _number_of("records", within)
    if scope.project is not None:
        tasks = _project_tasks(scope.project.id, scope.project_tables, binds)
        wanted[_TASKS] = _number_of("tasks", tasks)
        still_open = f"tasks.status <> {binds.text(CLOSED)}"
        wanted[_OPEN_TASKS] = _number_of("tasks", f"{tasks} AND {still_open}")
    if scope.task is not None and scope.task.row_in is not None:
        row = binds.text(scope.task.facts.record_id or "")
        wanted[_TASK_ROW] = _exists(f"records.id = {row} AND {_rows(scope.task.row_in, binds)}")
    return wanted


def _number_of(table: str, condition: str) -> str:
    return f"(SELECT count(*) FROM {table} WHERE {condition})"  # noqa: S608 - values are bound


def _exists(condition: str) -> str:
    return f"EXISTS (SELECT FROM records WHERE {condition})"


def _project_tasks(project_id: str, tables: tuple[VisibleTable, ...], binds: Binds) -> str:
    """Tasks of a project that are in sight: those without a row, and those whose row is."""
    in_sight = ["tasks.record_id IS NULL"]
    in_sight += [_exists(f"records.id = tasks.record_id AND {_rows(t, binds)}") for t in tables]
    return f"tasks.project_id = {binds.text(project_id)} AND ({' OR '.join(in_sight)})"


def _view_count(scope: VisibleScope, number: object) -> Count | None:
    if scope.view is not None and scope.view.uncountable is not None:
        return Count.missing(scope.view.uncountable)
    return _optional(number)


def _optional(number: object) -> Count | None:
    return Count.of(number) if isinstance(number, int) else None


def _uncounted(scope: VisibleScope) -> Counts:
    """No number where none is known; the task's row, unproven, is out of sight."""
    missing = Count.missing(TOO_SLOW)
    return Counts(
        tables={table.id: missing for table in scope.tables},
        view=_view_count(scope, None) or (missing if scope.view is not None else None),
        project_tasks=missing if scope.project is not None else None,
        project_open_tasks=missing if scope.project is not None else None,
        task_row_visible=scope.task is None or scope.task.row_in is None,
        passing=True,
    )
