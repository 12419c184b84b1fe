"""How a time's local date, or the day that a text spells, compares with a day, as SQL."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal, assert_never

from context_engine import policy
from context_engine.adapters.sql.binds import Binds

DayOp = Literal["eq", "lt", "lte", "gt", "gte"]

_DAY = "'^[0-9]{4}-[0-9]{2}-[0-9]{2}$'"
_TIME = (
    "'^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?"
    "(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])$'"
)
"""Times with their zone: what a session's own zone would have to complete is no time."""

_SIGNS = {"eq": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def spelled(text: str, op: DayOp, day: policy.OnDay, binds: Binds) -> str:
    """How what `text` spells compares with `day`: a day by its text, a time by the local date on
    which it falls, nothing else. `text` is asked for more than once."""
    by_text = f'{text} COLLATE "C" {_SIGNS[op]} {binds.text(day.day.isoformat())}'
    by_time = compared(f"{text}::timestamptz", op, day, binds)
    return (
        f"coalesce(CASE WHEN NOT ({_near(text, op, day, binds)}) THEN false"
        f" WHEN {text} ~ {_DAY} AND pg_input_is_valid({text}, 'date') THEN {by_text}"
        f" WHEN {text} ~ {_TIME} AND pg_input_is_valid({text}, 'timestamptz')"
        f" THEN {by_time} END, false)"
    )


def _near(text: str, op: DayOp, day: policy.OnDay, binds: Binds) -> str:
    """Where a text must be for its day to compare so: cheap, and most often enough. A local
    date is at most a day from that in UTC, and that as much from the one that is written."""
    near = []
    first, last = shifted(day, -2), shifted(day, 3)
    if op in ("eq", "gt", "gte") and first is not None:
        near.append(f'{text} COLLATE "C" >= {binds.text(first.isoformat())}')
    if op in ("eq", "lt", "lte") and last is not None:
        near.append(f'{text} COLLATE "C" < {binds.text(last.isoformat())}')
    return " AND ".join(near) or "true"


def compared(at: str, op: DayOp, day: policy.OnDay, binds: Binds) -> str:
    """How the local date of the time `at` compares with `day`.

    By the moments at which the day begins, told by the same clockwork that told which day it is:
    the server may know other rules of a zone, or not know the zone.
    """
    match op:
        case "eq":
            return f"({_reached(at, day, 0, binds)} AND NOT {_reached(at, day, 1, binds)})"
        case "lt":
            return f"(NOT {_reached(at, day, 0, binds)})"
        case "lte":
            return f"(NOT {_reached(at, day, 1, binds)})"
        case "gt":
            return _reached(at, day, 1, binds)
        case "gte":
            return _reached(at, day, 0, binds)
        case _:
            assert_never(op)


def _reached(at: str, day: policy.OnDay, ahead: int, binds: Binds) -> str:
    """Whether the local date of `at` is the day `ahead` of `day`, or later."""
    later = shifted(day, ahead)
    if later is None or later == date.min:  # no day is later than all, and none before the first
        return "false" if later is None else "true"
    turns = policy.begins(later, day.tz)
    # Reached at the first turn, undone by each second, reached again by each third.
    parts = [f"{at} >= {binds.time(turns[0])}"]
    for undone, again in zip(turns[1::2], turns[2::2], strict=True):
        parts.append(f"NOT ({at} >= {binds.time(undone)} AND {at} < {binds.time(again)})")
    return f"({' AND '.join(parts)})"


def shifted(day: policy.OnDay, days: int) -> date | None:
    """None beyond either end of time."""
    try:
        return day.day + timedelta(days=days)
    except OverflowError:
        return None
