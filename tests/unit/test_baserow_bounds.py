"""Files at the limits of what can be kept: refused with a place, or loaded and reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from context_engine import view_filters
from context_engine.adapters.baserow import read_workspace
from context_engine.errors import BrokenFile
from tests.support import exported as x
from tests.support.exported import as_bytes, exported, tables

# -- groups of filters -------------------------------------------------------------------------


def grouped(parents: list[tuple[int, int | None]], filters: list[Any]) -> dict[str, Any]:
    """An export whose view 21 has groups, each with its parent, and filters."""
    document = exported()
    tables(document)[1]["views"][0].update(
        filters=filters,
        filter_groups=[
            {"id": id, "filter_type": "AND", "parent_group": parent} for id, parent in parents
        ],
    )
    return document


def reason_of(document: dict[str, Any]) -> str | None:
    return view_filters.unavailable(view_filters.parse(stored(document)))


def stored(document: dict[str, Any]) -> JsonValue:
    made = read_workspace(as_bytes(document))
    (found,) = (one.filter for one in made.views if one.id.endswith("v21"))
    return found


def chain(levels: int) -> dict[str, Any]:
    parents = [(n, n - 1 if n > 1 else None) for n in range(1, levels + 1)]
    return grouped(parents, [x.filter_(x.HOURS, "empty", "", group=levels)])


@pytest.mark.parametrize(
    ("parents", "at"), [([(1, 2), (2, 1)], 0), ([(1, 1)], 0), ([(3, None), (1, 2), (2, 1)], 1)]
)
def test_groups_in_a_circle_are_refused_and_never_left_out(
    parents: list[tuple[int, int | None]], at: int
) -> None:
    filters = [x.filter_(x.HOURS, "empty", "", group=id) for id, _ in parents]
    with pytest.raises(BrokenFile, match="form a circle") as caught:
        read_workspace(as_bytes(grouped(parents, filters)))
    place = f"export[0].tables[1].views[0].filter_groups[{at}].parent_group"
    assert caught.value.place == place


def test_a_group_that_is_there_twice_is_refused() -> None:
    document = grouped([(1, None), (1, None)], [x.filter_(x.HOURS, "empty", "", group=1)])
    with pytest.raises(BrokenFile, match="filter group 1 is there twice"):
        read_workspace(as_bytes(document))


@pytest.mark.parametrize("levels", [33, 900, 3_000])
def test_groups_nested_too_deeply_leave_the_view_without_a_count(levels: int) -> None:
    assert reason_of(chain(levels)) == view_filters.NOT_COMPUTED
    assert reason_of(chain(20)) is None


# -- days --------------------------------------------------------------------------------------

NOW = datetime(2024, 7, 15, 12, tzinfo=UTC)


def prepared(days: dict[str, Any], now: datetime = NOW) -> view_filters.Prepared | str:
    value = {"cell": "due", "kind": "date"}
    where = {"field": "due", "value": value, "test": {"op": "date_is", "days": days}}
    sight = view_filters.Sight(frozenset({"due"}), True)
    return view_filters.prepare({"where": where}, "t", now, lambda _: sight)


@pytest.mark.parametrize(
    ("days", "counted"),
    [
        ({"exact": "9999-12-31"}, False),
        ({"exact": "9999-12-30"}, True),
        ({"exact": "0001-01-01"}, True),
        ({"unit": "year", "shift": 9_999 - 2024}, False),
        ({"unit": "year", "shift": -2024}, False),
        ({"unit": "month", "shift": -100_000}, False),
        ({"unit": "week", "shift": 100_000}, True),
        ({"unit": "day", "shift": -100_000}, True),
    ],
)
def test_days_near_the_ends_of_the_calendar_are_counted_or_said_to_be_unreadable(
    days: dict[str, Any], counted: bool
) -> None:
    made = prepared(days)
    assert isinstance(made, view_filters.Prepared) == counted
    assert counted or made == view_filters.UNREADABLE


def test_an_exact_day_alone_never_turns() -> None:
    exact, moving = prepared({"exact": "2024-07-15"}), prepared({})
    assert isinstance(exact, view_filters.Prepared)
    assert isinstance(moving, view_filters.Prepared)
    assert (exact.until, moving.until) == (None, NOW + timedelta(hours=12))


def test_the_last_day_of_the_calendar_is_reported_when_a_file_is_loaded() -> None:
    day = "UTC?9999-12-31?exact_date"
    assert reason_of(grouped([], [x.filter_(x.DUE, "date_is", day)])) == view_filters.UNREADABLE
