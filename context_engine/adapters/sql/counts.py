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
from context_engine.adapters.sql.faults import QUERY_CANCELED, sqlstate
from context_engine.adapters.sql.predicates import Binds, predicate_sql
from context_engine.adapters.sql.rows import live_rows
from context_engine.adapters.sql.view_filters import view_filter_sql
from context_engine.models.sections import Count
from context_engine.ports import Counts

COUNT_CAP = 10_000
"""How far rows are counted, unless settings say otherwise."""

BEFORE_COUNTS = "before_counts"
"""The savepoint that every reading transaction begins with."""

COUNT_MS = 500
"""Longest time of a statement that counts, in milliseconds; `facts.TABLES` sets it."""

ONE_BY_ONE_MS = 1_000
"""Time for all counts that are asked for one by one, in milliseconds."""

TOO_SLOW = "the database took too long"
CLOSED = "done"
"""Status of a task that is not open any more."""

Kind = Literal["table", "link", "view", "tasks", "open tasks", "task row", "task title"]
Key = tuple[Kind, str]
"""What is counted, and of which table or link field."""

_Queries = dict[Key, Callable[[Binds], str]]


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
        numbers = await _at_once(reader, wanted) if wanted else {}
    except StatementTooSlow:
        numbers = await _one_by_one(reader, wanted)
    return _counts(scope, _Found(numbers, cap), passing=len(numbers) < len(wanted))


def _counts(scope: VisibleScope, found: _Found, *, passing: bool) -> Counts:
    task, view, project = scope.task, scope.view, scope.project
    row_in = task.row_in if task is not None else None
    return Counts(
        tables={table.id: _of_table(table, found) for table in scope.tables},
        links={link.key: _of_link(link, found) for link in scope.links if link.target is not None},
        view=_unless(view.uncountable, found.count("view")) if view is not None else None,
        project_tasks=found.count("tasks") if project is not None else None,
        project_open_tasks=found.count("open tasks") if project is not None else None,
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


class StatementTooSlow(Exception):
    """The server cancelled a statement at its time limit."""


async def _at_once(reader: Reader, wanted: _Queries) -> dict[Key, int]:
    binds = Binds()
    row = await _in_time(reader, [query(binds) for query in wanted.values()], binds)
    return dict(zip(wanted, row, strict=True))


async def _one_by_one(reader: Reader, wanted: _Queries) -> dict[Key, int]:
    """As many as the time for all allows, each behind the savepoint."""
    found: dict[Key, int] = {}
    clock = asyncio.get_running_loop().time
    end = clock() + ONE_BY_ONE_MS / 1000
    for key, query in wanted.items():
        left = int((end - clock()) * 1000)
        if left <= 0:
            break
        await reader.execute(_AGAIN.format(ms=min(left, COUNT_MS)))
        binds = Binds()
        with suppress(StatementTooSlow):
            found[key] = (await _in_time(reader, [query(binds)], binds))[0]
    return found


_AGAIN = (
    f"ROLLBACK TO SAVEPOINT {BEFORE_COUNTS};"
    " SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL statement_timeout = {ms}"
)


async def _in_time(reader: Reader, queries: list[str], binds: Binds) -> Any:
    try:
        return await reader.fetchrow(f"SELECT {', '.join(queries)}", *binds.values)
    except Exception as error:
        if sqlstate(error) == QUERY_CANCELED:
            raise StatementTooSlow from error
        raise


# -- what --------------------------------------------------------------------------------------


def _wanted(scope: VisibleScope, cap: int) -> _Queries:
    """A subquery for each count; none for what cannot be told."""
    wanted: _Queries = {}

    def number(kind: Kind, id: str, table: str, condition: Callable[[Binds], str]) -> None:
        # One more than the cap tells that there are more.
        wanted[kind, id] = lambda binds: (
            f"(SELECT count(*) FROM (SELECT FROM {table} WHERE {condition(binds)}"  # noqa: S608
            f" LIMIT {cap + 1}) AS counted)"
        )

    for table in scope.tables:
        if table.uncountable is None:
            number("table", table.id, "records", partial(_rows, table))
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


def _rows(table: VisibleTable, binds: Binds) -> str:
    return live_rows(table.id, table.rows, binds)


def _view(view: VisibleView, binds: Binds) -> str:
    within = f"{live_rows(view.table_id, view.rows, binds)} AND {predicate_sql(view.filter, binds)}"
    if view.where is not None:
        within = f"{within} AND {view_filter_sql(view.where, binds)}"
    return within


def _links(link: VisibleLink, binds: Binds) -> str:
    """Links whose two rows are both in sight."""
    assert link.target is not None, "an opaque link is not counted"
    starts = live_rows(link.table.id, link.starts, binds)
    ends = live_rows(link.target.id, link.ends, binds)
    return (
        f"links.field_id = {binds.text(link.field.id)}"
        f" AND {_exists(f'records.id = links.from_record_id AND {starts}')}"
        f" AND {_exists(f'records.id = links.to_record_id AND {ends}')}"
    )


def _tasks(project_id: str, tables: Sequence[VisibleTable], binds: Binds) -> str:
    """Tasks of a project that are in sight: those without a row, and those whose row is."""
    in_sight = ["tasks.record_id IS NULL"]
    in_sight += [_exists(f"records.id = tasks.record_id AND {_rows(t, binds)}") for t in tables]
    return f"tasks.project_id = {binds.text(project_id)} AND ({' OR '.join(in_sight)})"


def _still_open(tasks: Callable[[Binds], str], binds: Binds) -> str:
    return f"{tasks(binds)} AND tasks.status <> {binds.text(CLOSED)}"


def _task_row(record_id: str, table: VisibleTable, binds: Binds, *, titled: bool) -> str:
    """Whether a task's row is in sight; `titled`: by a way that shows its primary field too."""
    primary = tuple(field.id for field in table.fields if field.primary)
    sets = table.showing(primary) if primary else ()
    rows = live_rows(table.id, sets if titled else table.rows, binds)
    return f"({_exists(f'records.id = {binds.text(record_id)} AND {rows}')})::int"


def _exists(condition: str) -> str:
    return f"EXISTS (SELECT FROM records WHERE {condition})"
