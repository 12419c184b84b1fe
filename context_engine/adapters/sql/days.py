"""How a time's local date compares with a day, as SQL."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal, assert_never

from context_engine import policy
from context_engine.adapters.sql.binds import Binds

DayOp = Literal["eq", "lt", "lte", "gt", "gte"]


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
