"""Files at the limits of what can be kept: refused with a place, or loaded and reported."""

from __future__ import annotations

import json
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


def test_more_conditions_than_are_counted_leave_the_view_without_a_count_and_say_so() -> None:
    one = x.filter_(x.HOURS, "empty", "")
    assert reason_of(grouped([], [one] * 1_000)) is None
    document = grouped([], [one] * 1_001)
    assert reason_of(document) == view_filters.TOO_MANY
    gaps = read_workspace(as_bytes(document)).gaps
    assert any(view_filters.TOO_MANY in gap.what for gap in gaps)


# -- days --------------------------------------------------------------------------------------

NOW = datetime(2024, 7, 15, 12, tzinfo=UTC)


def prepared(days: dict[str, Any], now: datetime = NOW) -> view_filters.Prepared | str:
    value = {"cell": "due", "kind": "date"}
    where = {"field": "due", "value": value, "test": {"op": "date_is", "days": days}}
    sight = view_filters.Sight({"due": None}, view_filters.EVERY_ROW)
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


# -- cells -------------------------------------------------------------------------------------

WHEN = 299


def with_cell(field_id: int, value: Any) -> dict[str, Any]:
    """An export whose first task has `value` in a cell; field WHEN is a date with a time."""
    document = exported()
    tasks = tables(document)[1]
    tasks["fields"].append(
        {"id": WHEN, "type": "date", "name": "When", "order": 9, "primary": False,
         "date_include_time": True}
    )  # fmt: skip
    tasks["rows"][0][f"field_{field_id}"] = value
    return document


def cell(field_id: int, value: Any) -> JsonValue:
    """The cell as stored."""
    made = read_workspace(as_bytes(with_cell(field_id, value)))
    (row,) = (one for one in made.rows if one.id == f"small-t{x.TASKS}-r1")
    found: JsonValue = json.loads(row.cells)[f"small-f{field_id}"]
    return found


EARLY, LATE = "0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"


@pytest.mark.parametrize(
    ("field_id", "value", "words"),
    [
        (x.HOURS, "1E+999999999", "at most 100 digits"),
        (x.HOURS, "-1E+999999999", "at most 100 digits"),
        (x.HOURS, "1E+100", "at most 100 digits"),
        (x.HOURS, "1E-999999999", "more digits"),
        (x.HOURS, "sNaN", "should be a number"),
        (WHEN, EARLY, "years 1 to 9999"),
        (WHEN, LATE, "years 1 to 9999"),
        (x.STATE, True, "no select option True"),
    ],
)
def test_a_cell_out_of_bounds_is_refused_with_its_place(
    field_id: int, value: Any, words: str
) -> None:
    document = with_cell(field_id, value)
    tables(document)[1]["fields"][1]["select_options"].append({"id": 1, "value": "one"})
    with pytest.raises(BrokenFile, match=words) as caught:
        read_workspace(as_bytes(document))
    assert caught.value.place == f"export[0].tables[1].rows[0].field_{field_id}"


@pytest.mark.parametrize(
    ("field_id", "value", "kept"),
    [
        (x.HOURS, "1E+99", 10**99),
        (x.HOURS, "-0E+999999999", 0),
        (WHEN, "0007-01-01T00:00:00Z", "0007-01-01T00:00:00.000000Z"),
        (WHEN, "2024-02-03T04:05:06.7+01:00", "2024-02-03T03:05:06.700000Z"),
    ],
)
def test_a_cell_within_bounds_is_kept(field_id: int, value: str, kept: JsonValue) -> None:
    assert cell(field_id, value) == kept


@pytest.mark.parametrize("at", [EARLY, LATE])
def test_a_row_made_out_of_all_time_is_refused_with_its_place(at: str) -> None:
    document = exported()
    tables(document)[0]["rows"][0]["created_on"] = at
    with pytest.raises(BrokenFile, match="years 1 to 9999") as caught:
        read_workspace(as_bytes(document))
    assert caught.value.place == "export[0].tables[0].rows[0].created_on"


def test_an_operand_without_measure_is_unreadable() -> None:
    filters = [x.filter_(x.HOURS, "higher_than", "1E+999999999")]
    assert reason_of(grouped([], filters)) == view_filters.UNREADABLE


@pytest.mark.parametrize(
    "texts", [["A", "A (3)", "A"], ["A", "A", "A (2)"], ["A"] * 3, ["A (3)", "A (3)", "A (3)"]]
)
def test_select_options_stay_as_many_as_they_are(texts: list[str]) -> None:
    document = exported()
    options = [{"id": n, "value": text} for n, text in enumerate(texts, 1)]
    tables(document)[1]["fields"][1]["select_options"] = options
    for row in tables(document)[1]["rows"]:
        row[f"field_{x.STATE}"] = 3
    made = read_workspace(as_bytes(document))
    (choices,) = (one.options["choices"] for one in made.fields if one.name == "State")
    assert isinstance(choices, list)
    assert len(set(map(str, choices))) == len(texts)


# -- ids, and what is kept as it stands --------------------------------------------------------


@pytest.mark.parametrize("id", [2**63, int("9" * 300), -(2**63)])
def test_an_id_that_no_database_has_is_refused_with_its_place(id: int) -> None:
    document = exported()
    tables(document)[0]["fields"].append(
        {"id": id, "type": "text", "name": "Big", "order": 9, "primary": False}
    )
    with pytest.raises(BrokenFile, match=r"below 2\^63") as caught:
        read_workspace(as_bytes(document))
    assert caught.value.place == "export[0].tables[0].fields[4].id"


def nested(levels: int) -> JsonValue:
    made: JsonValue = 1
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ("a\x00", "", "NUL"),
        ({"b": ["a", "\ud800"]}, ".b[1]", "half a character"),
        ({"a\x00": 1}, "", "NUL"),
        ([float("inf")], "[0]", "without an end"),
        (nested(17), "[0]" * 16, "deeper than 16"),
        (nested(900), "[0]" * 16, "deeper than 16"),
    ],
)
@pytest.mark.parametrize("of", ["fields", "views"])
def test_what_cannot_be_kept_is_refused_with_its_place(
    of: str, value: JsonValue, place: str, words: str
) -> None:
    document = exported()
    tables(document)[0][of][0]["extra"] = value
    data = as_bytes(document).replace(b"Infinity", b"1e999")
    with pytest.raises(BrokenFile, match=words) as caught:
        read_workspace(data)
    assert caught.value.place == f"export[0].tables[0].{of}[0].extra{place}"


def test_what_can_be_kept_is_kept() -> None:
    document = exported()
    tables(document)[0]["fields"][0]["extra"] = nested(16)
    made = read_workspace(as_bytes(document))
    assert {"extra": nested(16)} in [one.options.get("baserow") for one in made.fields]


@pytest.mark.parametrize("field_id", [x.STATE, x.OWNER])
def test_a_cell_of_many_levels_is_refused_and_not_spelled(field_id: int) -> None:
    with pytest.raises(BrokenFile) as caught:
        read_workspace(as_bytes(with_cell(field_id, [nested(900)])))
    assert "[..]" in caught.value.message
    assert caught.value.place == f"export[0].tables[1].rows[0].field_{field_id}"


def test_a_rollup_by_a_function_of_many_levels_is_refused_with_its_place() -> None:
    document = exported()
    tables(document)[0]["fields"][2]["rollup_function"] = nested(900)
    with pytest.raises(BrokenFile, match="deeper than 16") as caught:
        read_workspace(as_bytes(document))
    assert caught.value.place.startswith("export[0].tables[0].fields[2].rollup_function[0]")
