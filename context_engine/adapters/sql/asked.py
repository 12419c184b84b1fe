"""What a context counts: a subquery for each count, and the statement of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from context_engine.access import VisibleLink, VisibleScope, VisibleTable, VisibleView
from context_engine.adapters.sql.predicates import predicate_sql
from context_engine.adapters.sql.row_counts import Rows, SharedRows, limited, row_is_seen
from context_engine.adapters.sql.rows import live_rows
from context_engine.adapters.sql.view_filters import view_filter_sql

LONG, TWICE = "took long", 2
"""Noted with a scope: how often running its counts did."""

CLOSED = "done"
"""Status of a task that is not open any more."""

Kind = Literal["table", "link", "view", "tasks", "open tasks", "task row", "task title"]
Key = tuple[Kind, str]
"""What is counted, and of which table or link field."""

Queries = dict[Key, Callable[[Rows], str]]


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The statement of every count of a scope."""

    wanted: Queries
    shared: SharedRows
    queries: Mapping[Key, str]
    columns: Sequence[str]
    statement: str


def at_once(scope: VisibleScope, cap: int) -> AtOnce:
    """Written once for each scope: a decision that holds still is the same object."""
    key = AtOnce, cap, took_long(scope)
    made = scope.made.get(key)
    if not isinstance(made, AtOnce):
        wanted, shared = _wanted(scope, cap), SharedRows(cap, by_row=not took_long(scope))
        queries = {key: query(shared) for key, query in wanted.items()}
        columns = list(dict.fromkeys((*queries.values(), *shared.sizes().values())))
        made = AtOnce(wanted, shared, queries, columns, shared.statement(columns))
        scope.made[key] = made
    return made


def took_long(scope: VisibleScope) -> bool:
    """Whether the counts of a scope look at many rows: they took long twice running. Then they are
    asked for by a statement that takes longer to plan (`Binds.by_row`)."""
    return _times_long(scope) >= TWICE


def note_time(scope: VisibleScope, *, long: bool) -> None:
    """Once may have been the machine's fault."""
    if not took_long(scope):
        scope.made[LONG] = _times_long(scope) + 1 if long else 0


def _times_long(scope: VisibleScope) -> int:
    times = scope.made.get(LONG, 0)
    return times if isinstance(times, int) else 0


def _wanted(scope: VisibleScope, cap: int) -> Queries:
    """A subquery for each count; none for what cannot be told."""
    wanted: Queries = {}

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
    if scope.project is not None and scope.tasks_uncountable is None:
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
