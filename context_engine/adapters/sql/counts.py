"""Every count of a context, with the predicates that `access` made: one statement.

Behind a savepoint, for a statement that the server cancels ends its transaction. Then each count
is asked for by itself, within a time for all; what is not had says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from context_engine.access import VisibleScope
from context_engine.adapters.sql.asked import AtOnce, Key, Kind, Queries, at_once, note_time
from context_engine.adapters.sql.driver import Reader
from context_engine.adapters.sql.faults import BAD_DATA, QUERY_CANCELED, sqlstate
from context_engine.adapters.sql.predicates import Binds
from context_engine.adapters.sql.row_counts import RowsAlone
from context_engine.models.sections import TOO_SLOW, Count
from context_engine.ports import Counts

COUNT_CAP = 10_000
"""How far rows are counted, unless settings say otherwise."""

BEFORE_COUNTS = "before_counts"
"""The savepoint that every reading transaction begins with."""

COUNT_MS = 500
"""Longest time of a statement that counts, in milliseconds; `table_facts.TABLES` sets it."""

LONG_MS = 100
"""Counts that took longer twice are asked for in another way then, in milliseconds."""

ONE_BY_ONE_MS = 1_000
"""Time for all counts that are asked for one by one, in milliseconds."""

MOST_BINDS = 32_767
"""Values that PostgreSQL takes with one statement."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What was counted; what is not in `numbers` was not had in time, or not asked for since nobody
    can tell it, which the scope says."""

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
    once, clock = at_once(scope, cap), asyncio.get_running_loop().time
    started = clock()
    try:
        numbers = await _at_once(reader, once, cap) if once.wanted else {}
    except CannotCount:
        numbers = await _one_by_one(reader, once.wanted, cap)
    note_time(scope, long=clock() - started > LONG_MS / 1000)
    return _counts(scope, _Found(numbers, cap), passing=len(numbers) < len(once.wanted))


def _counts(scope: VisibleScope, found: _Found, *, passing: bool) -> Counts:
    task, project = scope.task, scope.project
    row_in = task.row_in if task is not None else None
    return Counts(
        tables={table.id: found.count("table", table.id) for table in scope.tables},
        links={
            link.key: found.count("link", link.key)
            for link in scope.links
            if link.target is not None
        },
        view=found.count("view") if scope.view is not None else None,
        project_tasks=found.count("tasks") if project is not None else None,
        project_open_tasks=found.count("open tasks") if project is not None else None,
        task_row_visible=row_in is None or found.holds("task row"),
        task_title_visible=row_in is None or found.holds("task title"),
        passing=passing,
    )


# -- asking ------------------------------------------------------------------------------------


class CannotCount(Exception):
    """The server cancelled a statement at its time limit, or met a value that it cannot read."""


async def _at_once(reader: Reader, once: AtOnce, cap: int) -> dict[Key, int]:
    """All in one statement, in which the rows in sight of each table are found once, up to the
    cap; what looks into more of them than that by a second one, row by row."""
    row = await _in_time(reader, once.statement, once.shared.binds)
    told = dict(zip(once.columns, row, strict=True))
    found = {key: told[query] for key, query in once.queries.items()}
    cut = {name for name, size in once.shared.sizes().items() if told[size] > cap}
    again = {
        key: query
        for key, query in once.wanted.items()
        if cut & once.shared.used_by(once.queries[key])
    }
    if again:
        alone = RowsAlone(cap)
        statement = alone.statement([query(alone) for query in again.values()])
        found |= dict(zip(again, await _in_time(reader, statement, alone.binds), strict=True))
    return found


async def _one_by_one(reader: Reader, wanted: Queries, cap: int) -> dict[Key, int]:
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
