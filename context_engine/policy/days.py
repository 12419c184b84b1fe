"""Days: which one it is in a zone, and when it begins and ends.

Clocks are set back over midnight in some zones, and some zones have skipped a day: what counts is
the local date, which may begin twice, and a day may be one that never was.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from context_engine.policy.grammar import Now, OnDay

_STEP = timedelta(hours=1)
"""No zone sets its clocks twice within it."""
_REACH = timedelta(hours=36)
"""More than any zone is away from UTC."""
_FIRST, _LAST = datetime(1, 1, 4, tzinfo=UTC), datetime(9999, 12, 28, tzinfo=UTC)
"""Between them every moment within reach has a local date in every zone."""


def day_of_text(text: str) -> date | None:
    """The day that a text spells as YYYY-MM-DD, and in no other way."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.isoformat() == text else None


def day_of(now: Now, zone: ZoneInfo, at: datetime) -> OnDay:
    """The day that `now` means at `at`: of a week, its Monday."""
    return OnDay(day=_first(now, at.astimezone(zone).date()), tz=zone.key)


def next_day_of(now: Now, zone: ZoneInfo, at: datetime) -> datetime:
    """When `now` next means another day than at `at`, in UTC."""
    first = _first(now, at.astimezone(zone).date())
    after = first + timedelta(days=7 if now.unit == "week" else 1)
    ahead = [turn for day in (first, after) for turn in begins(day, zone.key) if turn > at]
    return min(ahead)


def _first(now: Now, today: date) -> date:
    return today if now.unit == "today" else today - timedelta(days=today.weekday())


@lru_cache(maxsize=1024)
def begins(day: date, tz: str) -> tuple[datetime, ...]:
    """When the local date in `tz` comes to be `day` or later, in UTC and ascending.

    Most often one moment. Where clocks are set back over midnight, it is undone by the second and
    comes about again by the third. `day` is not the first of all, which no moment begins.
    """
    midnight = datetime.combine(day, time.min, UTC)  # of a clock that shows UTC
    settled = min(max(midnight, _FIRST), _LAST)
    if settled != midnight:  # no zone sets its clocks so near the ends of time
        return (midnight - _offset(ZoneInfo(tz), settled),)
    turns: list[datetime] = []
    reached = False
    for start, end, offset in _spells(ZoneInfo(tz), midnight - _REACH, midnight + _REACH):
        if (start + offset >= midnight) != reached:
            reached = not reached
            turns.append(start)
        if not reached and start < midnight - offset < end:
            reached = True
            turns.append(midnight - offset)
    return tuple(turns)


def _spells(
    zone: ZoneInfo, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """The spells of time between `start` and `end` in which the zone keeps one offset."""
    since, offset = start, _offset(zone, start)
    at = start
    while at < end:
        after = min(at + _STEP, end)
        if _offset(zone, after) != offset:
            turn = _turn(zone, at, after)
            yield since, turn, offset
            since, offset = turn, _offset(zone, turn)
        at = after
    yield since, end, offset


def _turn(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The second at which the offset changes between two moments."""
    old = _offset(zone, before)
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()
