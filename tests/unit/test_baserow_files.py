"""Files that are broken say where, and what to do; what is odd and whole is loaded and reported."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine import view_filters
from context_engine.adapters.baserow import read_workspace
from context_engine.errors import BrokenFile, InvalidRequest
from tests.support import exported as x
from tests.support.exported import as_bytes, exported, tables

Breaks = Callable[[list[Any]], object]


def field(of: list[Any], id: int) -> Any:
    return next(one for table in of for one in table["fields"] if one["id"] == id)


BROKEN: dict[str, tuple[Breaks, str, str]] = {
    "link to a row that is not there": (
        lambda of: of[1]["rows"][2].update({f"field_{x.OWNER}": [99]}),
        f"export[0].tables[1].rows[2].field_{x.OWNER}",
        "no row 99",
    ),
    "link that is no list": (
        lambda of: of[1]["rows"][0].update({f"field_{x.OWNER}": 1}),
        f"export[0].tables[1].rows[0].field_{x.OWNER}",
        "list of row ids",
    ),
    "link to a table that is not there": (
        lambda of: field(of, x.OWNER).update(link_row_table_id=77),
        "export[0].tables[1].fields[3].link_row_table_id",
        "no table 77",
    ),
    "link whose other side is not there": (
        lambda of: field(of, x.OWNER).update(link_row_related_field_id=777),
        "export[0].tables[1].fields[3].link_row_related_field_id",
        "no link field 777",
    ),
    "rollup of a field that is not there": (
        lambda of: field(of, x.LOAD).update(target_field_id=777),
        "export[0].tables[0].fields[2].target_field_id",
        "no field 777",
    ),
    "rollup over a field that is no link": (
        lambda of: field(of, x.LOAD).update(through_field_id=x.NAME),
        "export[0].tables[0].fields[2].through_field_id",
        "leads nowhere",
    ),
    "row twice": (
        lambda of: of[1]["rows"].append(of[1]["rows"][0]),
        "export[0].tables[1].rows[4].id",
        "row 1 is there twice",
    ),
    "field twice": (
        lambda of: of[1]["fields"].append({**of[1]["fields"][0], "primary": False}),
        "export[0].tables[1].fields[5].id",
        "field 201 is there twice",
    ),
    "table twice": (
        lambda of: of.append({**of[0], "fields": [], "views": [], "rows": []}),
        "export[0].tables[2].id",
        "table 10 is there twice",
    ),
    "view twice": (
        lambda of: of[0]["views"].append(of[0]["views"][0]),
        "export[0].tables[0].views[2].id",
        "view 11 is there twice",
    ),
    "select option twice": (
        lambda of: field(of, x.STATE)["select_options"].append({"id": x.OPEN, "value": "again"}),
        "export[0].tables[1].fields[1].select_options[2].id",
        "twice",
    ),
    "field without a type": (
        lambda of: field(of, x.HOURS).pop("type"),
        "export[0].tables[1].fields[2].type",
        "should be a text",
    ),
    "view without a type": (
        lambda of: of[0]["views"][0].pop("type"),
        "export[0].tables[0].views[0].type",
        "should be a text",
    ),
    "table without rows": (
        lambda of: of[0].pop("rows"),
        "export[0].tables[0].rows",
        "should be a list",
    ),
    "no primary field": (
        lambda of: field(of, x.NAME).update(primary=False),
        "export[0].tables[0].fields",
        "one field should be primary",
    ),
    "select option that is not there": (
        lambda of: of[1]["rows"][0].update({f"field_{x.STATE}": 99}),
        f"export[0].tables[1].rows[0].field_{x.STATE}",
        "no select option 99",
    ),
    "number that is none": (
        lambda of: of[1]["rows"][0].update({f"field_{x.HOURS}": "many"}),
        f"export[0].tables[1].rows[0].field_{x.HOURS}",
        "should be a number",
    ),
    "number without an end": (
        lambda of: of[1]["rows"][0].update({f"field_{x.HOURS}": "Infinity"}),
        f"export[0].tables[1].rows[0].field_{x.HOURS}",
        "should be a number",
    ),
    "date that is none": (
        lambda of: of[1]["rows"][0].update({f"field_{x.DUE}": "2024-02-30"}),
        f"export[0].tables[1].rows[0].field_{x.DUE}",
        "YYYY-MM-DD",
    ),
    "text with a NUL": (
        lambda of: of[1]["rows"][0].update({f"field_{x.TITLE}": "a\x00b"}),
        f"export[0].tables[1].rows[0].field_{x.TITLE}",
        "NUL",
    ),
    "half a character": (
        lambda of: of[0].update(name="a\ud800"),
        "export[0].tables[0].name",
        "half a character",
    ),
    "filter on a field of another table": (
        lambda of: of[1]["views"][0]["filters"].append(x.filter_(x.NAME, "empty", "")),
        "export[0].tables[1].views[0].filters[1].field_id",
        "no field 101",
    ),
    "filter in a group that is not there": (
        lambda of: of[1]["views"][0]["filters"].append(x.filter_(x.HOURS, "empty", "", group=5)),
        "export[0].tables[1].views[0].filters[1].group",
        "no filter group 5",
    ),
    "time that is none": (
        lambda of: of[0]["rows"][0].update(created_on="yesterday"),
        "export[0].tables[0].rows[0].created_on",
        "should be a time",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_says_where_it_broke_and_what_to_do(how: str) -> None:
    breaks, place, words = BROKEN[how]
    document = exported()
    breaks(tables(document))
    with pytest.raises(BrokenFile) as caught:
        read_workspace(as_bytes(document))
    assert caught.value.place == place
    assert words in caught.value.message
    assert caught.value.code == "broken_file"
    assert any(word in caught.value.message for word in ("export", "remove", "round", "shorten"))


@given(st.data())
def test_a_file_cut_short_anywhere_is_refused_with_line_and_column(data: st.DataObject) -> None:
    whole = json.dumps(exported(), indent=1).encode()
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BrokenFile, match=r"line \d+, column \d+: .*cut short"):
        read_workspace(whole[:end])


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff{}", "byte 0"),
        (b"[]", "the file"),
        (b'{"export": NaN}', "the file"),
        (b"[" * 100_000, "the file"),
        (b"{}", "export"),
        (b'{"export": []}', "export"),
        (b'{"export": [1]}', "export[0]"),
    ],
)
def test_what_is_no_export_is_refused(data: bytes, place: str) -> None:
    with pytest.raises(BrokenFile) as caught:
        read_workspace(data)
    assert caught.value.place == place


def test_more_rows_than_the_limit_are_refused_before_they_are_looked_at() -> None:
    document = exported(rows=10)
    tables(document)[1]["rows"][5] = {"id": "nonsense"}
    with pytest.raises(BrokenFile, match=r"12 rows, more than 11; raise CONTEXT_IMPORT_MAX_ROWS"):
        read_workspace(as_bytes(document), max_rows=11)
    assert len(read_workspace(as_bytes(exported(10)), max_rows=12).rows) == 12


def test_links_to_a_deleted_row_are_left_out_and_reported_where_two_fields_agree() -> None:
    """A row that is gone leaves its id behind in all of its links; a stray id is in one only."""
    document = exported()
    people = tables(document)[0]
    people["fields"].append(
        {"id": 110, "type": "link_row", "name": "Reviews", "order": 110, "primary": False,
         "link_row_table_id": x.TASKS, "link_row_related_field_id": None}
    )  # fmt: skip
    for row in people["rows"]:
        row["field_110"] = [3]
    assert tables(document)[1]["rows"].pop(2)["id"] == 3
    made = read_workspace(as_bytes(document))
    dead = [(g.table, g.field, g.cells) for g in made.gaps if "deleted" in g.what]
    assert dead == [("People", "Owns", 1), ("People", "Reviews", 2)]
    assert not any(link.to_record_id.endswith("r3") for link in made.links)


def test_a_link_that_one_side_alone_has_is_made_whole_and_reported() -> None:
    document = exported()
    tables(document)[0]["rows"][0][f"field_{x.OWNED}"] = []
    made = read_workspace(as_bytes(document))
    assert [(g.field, g.cells) for g in made.gaps] == [("Owns", 2)]
    assert made.counts.links == 8


def test_two_options_of_one_text_stay_apart() -> None:
    document = exported()
    field(tables(document), x.STATE)["select_options"][1]["value"] = "open"
    made = read_workspace(as_bytes(document))
    (state,) = (one for one in made.fields if one.name == "State")
    assert state.options["choices"] == ["open", f"open ({x.DONE})"]
    assert any("two options of one text" in gap.what for gap in made.gaps)


def test_an_unknown_type_of_field_or_application_is_reported_and_the_rest_is_loaded() -> None:
    document = exported()
    field(tables(document), x.HOURS)["type"] = "ai"
    document["export"].append({"type": "dashboard", "name": "Board", "id": 2})
    made = read_workspace(as_bytes(document))
    said = {(gap.table, gap.field): gap.what for gap in made.gaps}
    assert "dashboard" in said["Board", None]
    assert "not known" in said["Tasks", "Hours"]
    assert "cannot be computed" in said["People", "Load"]
    assert made.counts.rows == 6


@pytest.mark.parametrize(
    ("type", "value", "reason"),
    [
        ("contains", "a", view_filters.UNKNOWN_OPERATOR),
        ("higher_than", "", view_filters.UNREADABLE),
        ("higher_than", "lots", view_filters.UNREADABLE),
        ("boolean", "perhaps", view_filters.UNREADABLE),
        ("date_is", "Nowhere/City??today", view_filters.UNREADABLE),
        ("date_is", "UTC??someday", view_filters.UNREADABLE),
        ("single_select_equal", "99", view_filters.UNREADABLE),
        ("equal", "text", view_filters.UNREADABLE),
        ("date_is", "UTC??today", view_filters.UNKNOWN_OPERATOR),
    ],
)
def test_a_filter_that_is_not_understood_never_passes_for_true(
    type: str, value: str, reason: str
) -> None:
    """Not even in an OR beside one that is: the view has no count, and says why."""
    document = exported()
    view = tables(document)[1]["views"][0]
    view["filters"].append(x.filter_(x.HOURS, type, value))
    view["filter_type"] = "OR"
    made = read_workspace(as_bytes(document))
    (raw,) = (one.filter for one in made.views if one.id.endswith("v21"))
    assert view_filters.unavailable(view_filters.parse(raw)) == reason


def test_a_name_gives_the_id_and_one_without_letters_is_refused() -> None:
    assert read_workspace(as_bytes(exported()), name="Søren's 2 Boats!").id == "søren-s-2-boats"
    with pytest.raises(InvalidRequest, match="letters and digits"):
        read_workspace(as_bytes(exported()), name="!!")


JUNK: list[Any] = [
    None, True, 0, 1, -1, 10**30, 1.5, "", "text", "1", "\x00", "\ud800", [], [1], ["a"], [[]], {},
    {"id": 1}, [{"id": 1}], [None], "UTC??today", "9" * 5_000,
]  # fmt: skip


def spots(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        found += spots(child, (*at, key)) if isinstance(child, dict | list) else [(*at, key)]
    return found


@given(st.data())
@settings(max_examples=600)
def test_whatever_is_wrong_in_a_file_it_is_loaded_whole_or_refused_with_a_place(
    data: st.DataObject,
) -> None:
    """A value anywhere replaced by another or left out: never an error without a name."""
    document = rich()
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(spots(document)))
        there = document
        for key in way:
            there = there[key]
        junk = data.draw(st.sampled_from([*JUNK, "DELETE"]))
        if junk == "DELETE":
            del there[last]
        else:
            there[last] = copy.deepcopy(junk)
    refused = None
    try:
        made = read_workspace(as_bytes(document))
    except (BrokenFile, InvalidRequest) as error:
        refused = error
    if refused is not None:
        assert refused.place if isinstance(refused, BrokenFile) else refused.field == "workspace"
        return
    ids = {row.id for row in made.rows}
    assert all({link.from_record_id, link.to_record_id} <= ids for link in made.links)
    for view in made.views:
        if view.filter is not None:
            view_filters.parse(json.loads(json.dumps(view.filter)))


def rich() -> dict[str, Any]:
    """An export with groups, sorts, options of fields and a lookup."""
    document = exported()
    people, tasks = tables(document)
    people["fields"].append(
        {"id": 105, "type": "lookup", "name": "Titles", "order": 105, "primary": False,
         "through_field_id": x.OWNED, "target_field_id": x.TITLE}
    )  # fmt: skip
    people["fields"].append(
        {"id": 106, "type": "count", "name": "Number", "order": 106, "primary": False,
         "through_field_id": x.OWNED}
    )  # fmt: skip
    tasks["views"].append(
        x.view(
            22, x.TASKS,
            [x.filter_(x.DUE, "date_is_before", "UTC?3?nr_days_ago", group=1),
             x.filter_(x.DUE, "date_within_days", "UTC?3", group=2),
             x.filter_(x.OWNER, "not_empty", "")],
            filter_groups=[{"id": 1, "filter_type": "OR", "parent_group": None},
                           {"id": 2, "filter_type": "AND", "parent_group": 1}],
            sortings=[{"field_id": x.DUE, "order": "DESC"}],
            field_options=[{"field_id": x.DUE, "hidden": True, "order": 1}],
            ownership_type="personal", owned_by="ana@x.example",
        )
    )  # fmt: skip
    return document


def test_views_belong_to_whom_the_file_says() -> None:
    """By name; without one they are everyone's, and what is not known here is an ADMIN's only."""
    document = exported()
    view = tables(document)[0]["views"][0]
    for said, ownership, owner in (
        ({}, "collaborative", None),
        ({"ownership_type": "personal", "owned_by": "a@x.example"}, "personal", "a@x.example"),
        ({"ownership_type": "restricted", "owned_by": "a@x.example"}, "restricted", None),
        ({"ownership_type": "galactic"}, "restricted", None),
    ):
        tables(document)[0]["views"][0] = {**view, **said}
        made = read_workspace(as_bytes(document))
        assert (made.views[0].ownership, made.views[0].owner_email) == (ownership, owner)
        odd = any("ownership" in gap.what for gap in made.gaps)
        assert odd == (said.get("ownership_type") == "galactic")


def test_progress_is_told_to_its_end() -> None:
    told: list[tuple[str, int, int]] = []
    read_workspace(as_bytes(exported()), progress=lambda *step: told.append(step))
    assert told[-1] == ("reading", 6, 6)
