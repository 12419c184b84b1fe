"""Which days a filter's words mean: today is a day in the filter's own zone."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

from context_engine.policy import begins
from context_engine.view_filters.language import Days


def span(days: Days, now: datetime) -> tuple[date, date]:
    """First day, and the day after the last, in the filter's own zone."""
    if days.exact is not None:
        return days.exact, days.exact + timedelta(days=1)
    today = now.astimezone(ZoneInfo(days.tz)).date()
    match days.unit:
        case "day":
            first = today + timedelta(days=days.shift)
            return first, first + timedelta(days=1)
        case "week":
            first = today - timedelta(days=today.weekday()) + timedelta(weeks=days.shift)
            return first, first + timedelta(weeks=1)
        case "month":
            return _month(today, days.shift), _month(today, days.shift + 1)
        case "year":
            return date(today.year + days.shift, 1, 1), date(today.year + days.shift + 1, 1, 1)
        case _:
            assert_never(days.unit)


def _month(today: date, shift: int) -> date:
    year, month = divmod(today.year * 12 + today.month - 1 + shift, 12)
    return date(year, month + 1, 1)


def next_midnight(tz: str, now: datetime) -> datetime:
    """When it is next another day in `tz`, in UTC: until then, today stays what it is. Where
    clocks are set back over midnight, yesterday comes again."""
    today = now.astimezone(ZoneInfo(tz)).date()
    days = (today, today + timedelta(days=1))
    return min(turn for day in days for turn in begins(day, tz) if turn > now)
