"""A view's filter for one user at one time: what it reads, in whose sight, and until when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from pydantic import JsonValue

from context_engine import policy
from context_engine.errors import InvalidRequest
from context_engine.view_filters.days import next_midnight, span
from context_engine.view_filters.language import (
    NOT_COMPUTED,
    UNREADABLE,
    Condition,
    Days,
    Filter,
    InDays,
    conditions,
    parse,
    unavailable,
)
from context_engine.view_values import refs_read, steps_taken


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows of a table for which all of it holds."""

    pred: policy.Pred
    """A predicate whose operands are literals."""
    where: Prepared | None = None


EVERY_ROW = (RowSet(True),)


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen of a table: its fields, and its rows, which are in any of `rows`."""

    fields: Mapping[str, str | None]
    """By id, with the table that it links to."""
    rows: tuple[RowSet, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A filter at one time. Linked rows count only where `sights` shows them."""

    filter: Filter | policy.Pred
    """In the language of views; or a predicate that looks along links, its operands literals."""
    now: datetime
    sights: Mapping[str, tuple[RowSet, ...]]
    """Rows in sight of every table that links lead to: those in any of these; none for one out
    of sight."""
    reads: frozenset[tuple[str, str | None]]
    """Every (table, field or system column) that decides on a row; None: its rows do."""
    until: datetime | None
    """When a date in it turns, and a count with it; None without dates that move."""

    def __post_init__(self) -> None:
        """It is kept, as part of a table in sight: nobody's to change."""
        object.__setattr__(self, "sights", MappingProxyType(dict(self.sights)))


def prepare(
    raw: JsonValue,
    table_id: str,
    now: datetime,
    sight: Callable[[str], Sight | None],
) -> Prepared | str:
    """The stored filter of a view on `table_id`, ready to be counted; or why it cannot be.

    `sight` tells what is to be seen of a table; None where nothing. A linked table out of sight
    has no rows in sight, and links to it lead nowhere.
    """
    try:
        filter = parse(raw)
    except InvalidRequest:
        return NOT_COMPUTED
    if (reason := unavailable(filter)) is not None:
        return reason
    found = list(conditions(filter))
    values = [one.value for one in found]
    reads = frozenset(ref for value in values for ref in refs_read(value, table_id))
    steps = {taken for value in values for taken in steps_taken(value, table_id)}
    seen = {table: sight(table) for _, _, table in steps}
    known = {**seen, table_id: sight(table_id)}
    for table, name in reads:
        there = known[table]
        if there is not None and name not in there.fields and name not in _COLUMNS:
            return NOT_COMPUTED
    for table, field, to in steps:
        there = known[table]
        if there is not None and there.fields.get(field) != to:
            return NOT_COMPUTED  # it leads elsewhere, and of none that is found much may hold
    try:
        dated = [days for days in map(_days, found) if days is not None]
        for days in dated:
            span(days, now)
    except (ValueError, OverflowError):
        return UNREADABLE
    return Prepared(
        filter=filter,
        now=now,
        sights={table: there.rows if there else () for table, there in seen.items()},
        reads=reads,
        until=min(
            (next_midnight(days.tz, now) for days in dated if days.exact is None), default=None
        ),
    )


_COLUMNS = frozenset({"created_at", "updated_at"})


def _days(condition: Condition) -> Days | None:
    return condition.test.days if isinstance(condition.test, InDays) else None
