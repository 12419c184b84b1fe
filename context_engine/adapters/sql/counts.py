"""Every count of a context, with the predicates that `access` made: one statement.

Behind a savepoint, for a statement that the server cancels ends its transaction. Then each count
is asked for by itself, within a time for all; what is not had says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from context_engine.access import VisibleLink, VisibleScope, VisibleTable, VisibleView
from context_engine.adapters.sql.driver import Reader
from context_engine.adapters.sql.faults import BAD_DATA, QUERY_CANCELED, sqlstate
from context_engine.adapters.sql.predicates import Binds, predicate_sql
from context_engine.adapters.sql.row_counts import (
    Rows,
    RowsAlone,
    SharedRows,
    limited,
    row_is_seen,
)
from context_engine.adapters.sql.rows import live_rows
from context_engine.adapters.sql.view_filters import view_filter_sql
from context_engine.models.sections import Count
from context_engine.ports import Counts

COUNT_CAP = 10_000
"""How far rows are counted, unless settings say otherwise."""

BEFORE_COUNTS = "before_counts"
"""The savepoint that every reading transaction begins with."""

COUNT_MS = 500
"""Longest time of a statement that counts, in milliseconds; `table_facts.TABLES` sets it."""

ONE_BY_ONE_MS = 1_000
"""Time for all counts that are asked for one by one, in milliseconds."""

MOST_BINDS = 32_767
"""Values that PostgreSQL takes with one statement."""

TOO_SLOW = "the database took too long"
CLOSED = "done"
"""Status of a task that is not open any more."""

Kind = Literal["table", "link", "view", "tasks", "open tasks", "task row", "task title"]
Key = tuple[Kind, str]
"""What is counted, and of which table or link field."""

_Queries = dict[Key, Callable[[Rows], str]]


@dataclass(frozen=True, slots=True)
class _Found:
    """What was counted; what is not in `numbers` was not had in time."""

    numbers: Mapping[Key, int]
    cap: int

    def count(self, kind: Kind, id: str = "") -> Count:
        number = self.numbers.get((kind, id))
        if number is None:
            return Count.missing(TOO_SLOW)
        return Count.of(number) if number <= self.cap else Count.at_least(self.cap)

    def holds(self, kind: Kind) -> bool:
        """Unproven, it does not."""
        return bool(self.numbers.get((kind, ""), 0))


async def counted(reader: Reader, scope: VisibleScope, cap: int) -> Counts:
    """Every count of `scope`, each exact up to `cap`."""
    wanted = _wanted(scope, cap)
    try:
        numbers = await _at_once(reader, wanted, cap) if wanted else {}
    except CannotCount:
        numbers = await _one_by_one(reader, wanted, cap)
    return _counts(scope, _Found(numbers, cap), passing=len(numbers) < len(wanted))


def _counts(scope: VisibleScope, found: _Found, *, passing: bool) -> Counts:
    task, view, project = scope.task, scope.view, scope.project
    row_in = task.row_in if task is not None else None
    untold = next((why for table in scope.project_tables if (why := table.uncountable)), None)
    return Counts(
        tables={table.id: _of_table(table, found) for table in scope.tables},
        links={link.key: _of_link(link, found) for link in scope.links if link.target is not None},
        view=_unless(view.uncountable, found.count("view")) if view is not None else None,
        project_tasks=_unless(untold, found.count("tasks")) if project is not None else None,
        project_open_tasks=(
            _unless(untold, found.count("open tasks")) if project is not None else None
        ),
        task_row_visible=row_in is None or found.holds("task row"),
        task_title_visible=row_in is None or found.holds("task title"),
        passing=passing,
    )


def _of_table(table: VisibleTable, found: _Found) -> Count:
    return _unless(table.uncountable, found.count("table", table.id))


def _of_link(link: VisibleLink, found: _Found) -> Count:
    return _unless(link.uncountable, found.count("link", link.key))


def _unless(uncountable: str | None, count: Count) -> Count:
    return Count.missing(uncountable) if uncountable is not None else count


# -- asking ------------------------------------------------------------------------------------


class CannotCount(Exception):
    """The server cancelled a statement at its time limit, or met a value that it cannot read."""


async def _at_once(reader: Reader, wanted: _Queries, cap: int) -> dict[Key, int]:
    """All in one statement, in which the rows in sight of each table are found once, up to the
    cap; what looks into more of them than that by a second one, row by row."""
    shared = SharedRows(cap)
    queries = {key: query(shared) for key, query in wanted.items()}
    row = await _in_time(reader, shared.statement(queries.values()), shared.binds)
    found = dict(zip(queries, row, strict=False))
    cut = shared.cut(row[len(queries) :])
    again = {key: query for key, query in wanted.items() if cut & shared.used_by(queries[key])}
    if again:
        alone = RowsAlone(cap)
        statement = alone.statement([query(alone) for query in again.values()])
        found |= dict(zip(again, await _in_time(reader, statement, alone.binds), strict=True))
    return found


async def _one_by_one(reader: Reader, wanted: _Queries, cap: int) -> dict[Key, int]:
    """As many as the time for all allows, each behind the savepoint."""
    found: dict[Key, int] = {}
    clock = asyncio.get_running_loop().time
    end = clock() + ONE_BY_ONE_MS / 1000
    for key, query in wanted.items():
        left = int((end - clock()) * 1000)
        if left <= 0:
            break
        await reader.execute(again(min(left, COUNT_MS)))
        alone = RowsAlone(cap)
        statement = alone.statement([query(alone)])
        with suppress(CannotCount):
            found[key] = (await _in_time(reader, statement, alone.binds))[0]
    return found


def again(ms: int) -> str:
    """Goes on in the same snapshot after a statement that was cancelled, with a time of its own
    for each statement that follows."""
    return (
        f"ROLLBACK TO SAVEPOINT {BEFORE_COUNTS};"
        f" SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL statement_timeout = {ms}"
    )


async def _in_time(reader: Reader, statement: str, binds: Binds) -> Any:
    if len(binds.values) > MOST_BINDS:
        raise CannotCount  # else the connection would be lost, and every count with it
    try:
        return await reader.fetchrow(statement, *binds.values)
    except Exception as error:
        code = sqlstate(error) or ""
        if code == QUERY_CANCELED or code.startswith(BAD_DATA):
            raise CannotCount from error
        raise


# -- what --------------------------------------------------------------------------------------


def _wanted(scope: VisibleScope, cap: int) -> _Queries:
    """A subquery for each count; none for what cannot be told."""
    wanted: _Queries = {}

    def number(kind: Kind, id: str, table: str, condition: Callable[[Rows], str]) -> None:
        # One more than the cap tells that there are more.
        wanted[kind, id] = lambda rows: limited(table, condition(rows), cap)

    for table in scope.tables:
        if table.uncountable is None:
            wanted["table", table.id] = partial(_rows, table)
    for link in scope.links:
        if link.target is not None and link.uncountable is None:
            number("link", link.key, "links", partial(_links, link))
    if scope.view is not None and scope.view.uncountable is None:
        number("view", "", "records", partial(_view, scope.view))
    if scope.project is not None:
        tasks = partial(_tasks, scope.project.id, scope.project_tables)
        number("tasks", "", "tasks", tasks)
        number("open tasks", "", "tasks", partial(_still_open, tasks))
    if scope.task is not None and scope.task.row_in is not None:
        row = partial(_task_row, scope.task.facts.record_id or "", scope.task.row_in)
        wanted["task row", ""] = partial(row, titled=False)
        wanted["task title", ""] = partial(row, titled=True)
    if scope.task is None and any(one.coordinate == "taskId" for one in scope.absent):
        # The same steps as for a task whose row is out of sight: hidden tells what missing tells.
        wanted["task row", ""] = lambda _: "0"
    return wanted


def _rows(table: VisibleTable, rows: Rows) -> str:
    return rows.number(table.id, table.ways)


def _view(view: VisibleView, rows: Rows) -> str:
    binds = rows.binds
    within = f"{live_rows(view.table_id, view.rows, binds)} AND {predicate_sql(view.filter, binds)}"
    if view.where is not None:
        within = f"{within} AND {view_filter_sql(view.where, binds)}"
    return within


def _links(link: VisibleLink, rows: Rows) -> str:
    """Links whose two rows are both in sight."""
    assert link.target is not None, "an opaque link is not counted"
    return (
        f"links.field_id = {rows.binds.text(link.field.id)}"
        f" AND {rows.hold(link.table.id, link.starts, 'links.from_record_id')}"
        f" AND {rows.hold(link.target.id, link.ends, 'links.to_record_id')}"
    )


def _tasks(project_id: str, tables: Sequence[VisibleTable], rows: Rows) -> str:
    """Tasks of a project that are in sight: those without a row, and those whose row is."""
    in_sight = ["tasks.record_id IS NULL"]
    in_sight += [rows.hold(t.id, t.ways, "tasks.record_id") for t in tables]
    return f"tasks.project_id = {rows.binds.text(project_id)} AND ({' OR '.join(in_sight)})"


def _still_open(tasks: Callable[[Rows], str], rows: Rows) -> str:
    return f"{tasks(rows)} AND tasks.status <> {rows.binds.text(CLOSED)}"


def _task_row(record_id: str, table: VisibleTable, rows: Rows, *, titled: bool) -> str:
    """Whether a task's row is in sight; `titled`: by a way that shows its primary field too."""
    primary = tuple(field.id for field in table.fields if field.primary)
    ways = table.ways_showing(primary) if primary else ()
    seen = row_is_seen(
        table.id, ways if titled else table.ways, rows.binds.text(record_id), rows.binds
    )
    return f"({seen})::int"
