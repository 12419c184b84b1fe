"""The comparison of two JSON values, and of two contexts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from context_engine.evidence import (
    MISSING,
    Change,
    Denied,
    Item,
    applied,
    compare,
    denied,
    diff,
    path_text,
)
from context_engine.ports import SnapshotRecord
from workers.cli.evidence import VALUE_CHARS, bounded_json, differing, moment, parsed

NAMES = st.sampled_from(["a", "b", "id", "name"])
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, "", "x", "y"])
IDS = st.sampled_from(["i", "j", "k", "l"])


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists of objects with ids, as sections have them."""
    made = st.tuples(IDS, st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2))
    lists = st.lists(made, max_size=4, unique_by=lambda one: one[0])
    return lists.map(lambda found: [{"id": id, **rest} for id, rest in found])


VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3) | objects(inner)
    ),
    max_leaves=12,
)


def text(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True)


@given(VALUES)
def test_equal_values_do_not_differ(value: JsonValue) -> None:
    assert diff(value, json.loads(json.dumps(value))) == ()


@given(VALUES, VALUES)
def test_differences_lead_from_the_one_to_the_other(old: JsonValue, new: JsonValue) -> None:
    """And there are some exactly where the two are not the same JSON."""
    changes = diff(old, new)
    assert text(applied(old, changes)) == text(new)
    assert bool(changes) == (text(old) != text(new))


@given(VALUES, VALUES)
def test_what_appears_one_way_went_the_other_way(old: JsonValue, new: JsonValue) -> None:
    """The same paths with the sides exchanged; the order of a list is told where it matters."""

    def sides(changes: tuple[Change, ...], *, turned: bool) -> list[str]:
        other = {"appeared": "went", "went": "appeared"}
        return sorted(
            f"{path_text(c.path)} {other.get(c.kind, c.kind)} {c.new!r} {c.old!r}"
            if turned
            else f"{path_text(c.path)} {c.kind} {c.old!r} {c.new!r}"
            for c in changes
            if c.kind != "reordered"
        )

    assert sides(diff(old, new), turned=False) == sides(diff(new, old), turned=True)


def test_objects_of_a_list_are_told_apart_by_their_ids() -> None:
    old: JsonValue = {"tables": [{"id": "t1", "n": 1}, {"id": "t2", "n": 1}], "tags": ["a"]}
    new: JsonValue = {"tables": [{"id": "t3", "n": 1}, {"id": "t1", "n": 2}], "tags": ["b"]}
    tables = ("tables",)
    found = {(c.path, c.kind): (c.old, c.new) for c in diff(old, new)}
    assert found == {
        ((*tables, Item("id", "t1"), "n"), "changed"): (1, 2),
        ((*tables, Item("id", "t2")), "went"): ({"id": "t2", "n": 1}, MISSING),
        ((*tables, Item("id", "t3")), "appeared"): (MISSING, {"id": "t3", "n": 1}),
        (tables, "reordered"): (["t1", "t2"], ["t3", "t1"]),
        (("tags",), "changed"): (["a"], ["b"]),
    }


def test_another_id_is_another_object() -> None:
    """A view in the place of another is not the same view under a new name."""
    one, other = {"id": "v1", "name": "A"}, {"id": "v2", "name": "B"}
    assert diff({"view": one}, {"view": other}) == (Change(("view",), one, other, "changed"),)


def test_json_tells_true_from_one() -> None:
    assert [c.kind for c in diff({"a": True, "b": 1}, {"a": 1, "b": 1.0})] == ["changed"] * 2


# -- contexts ----------------------------------------------------------------------------------


def context(**more: Any) -> dict[str, Any]:
    section = {"status": "included", "reason": "in sight", "chars": 9, "age_ms": 0}
    sections = {"tables": section, "view": section} | more.pop("trace", {})
    return {
        "schemaVersion": "1.0", "scopeKey": "s", "contextId": "c", "contextHash": "h",
        "user": {"id": "u", "name": "U"}, "session": None, "view": None, "unresolved": [],
        "table": {"id": "t1", "n": 1}, "tables": [{"id": "t1", "n": 1}, {"id": "t2", "n": 1}],
        "trace": {"sections": sections, "inherited": more.pop("inherited", [])},
    } | more  # fmt: skip


def test_what_is_no_content_is_no_difference() -> None:
    """Ids, times, source, tags, trace and the session's last hash tell nothing apart."""
    one = context(session={"id": "s", "lastContextHash": "x"}, ageMs=1, tags=["a"], source="build")
    other = context(session={"id": "s", "lastContextHash": "y"}, contextId="d", generatedAt="now")
    found = compare(one, other)
    assert (found.head, found.sections) == ((), ())


def test_a_section_says_why_from_both_traces() -> None:
    absent = {"status": "absent", "reason": "not found"}
    one = context(view={"id": "v", "name": "Mine"})
    other = context(
        view=None, trace={"view": absent}, inherited=["tableIds"],
        unresolved=[{"coordinate": "viewId", "id": "v"}], tables=[{"id": "t1", "n": 2}],
        table={"id": "t1", "n": 2},
    )  # fmt: skip
    found = {section.name: section for section in compare(one, other).sections}
    assert {name: s.kind for name, s in found.items()} == {
        "tables": "changed", "view": "went", "unresolved": "appeared",
    }  # fmt: skip
    assert found["view"].why == (
        "included (in sight) before, absent (not found) now",
        "viewId asked for and not found now",
    )
    assert "tableIds inherited from the session now" in found["tables"].why
    kinds = [(path_text(c.path), c.kind) for c in found["tables"].changes]
    assert kinds == [("[t1].n", "changed"), ("[t2]", "went")]


def test_denials_are_told_with_their_section_and_only_where_they_are_given() -> None:
    one, other = context(), context(tables=[{"id": "t1", "n": 1}])
    rule = Denied("table t2", "role none", "c")
    gone = Denied("table t9", "agent stack", "c")
    (with_rules,) = compare(one, other, ((gone,), (rule,))).sections
    assert with_rules.denials == (
        "table t2 denied now: role none",
        "table t9 denied before, not now: agent stack",
    )
    (without,) = compare(one, other).sections
    assert without.denials == ()
    assert "role none" not in repr(without)


def test_sections_of_another_version_are_compared_too() -> None:
    found = compare(context(later=[1]), context(later=[2])).sections
    assert [(one.name, one.kind) for one in found] == [("later", "changed")]


def test_another_schema_or_scope_is_told_first() -> None:
    found = compare(context(), context(scopeKey="other"))
    assert [path_text(one.path) for one in found.head] == ["scopeKey"]
    assert found.sections == ()


# -- for people ----------------------------------------------------------------------------------


def test_texts_are_compared_line_by_line() -> None:
    """What steers a terminal is gone; a long line starts where it differs."""
    found = list(differing("same\nold \x1b[31m", "same\nnew\nmore"))
    assert found == [("-", "old [31m"), ("+", "new"), ("+", "more")]
    (one, other) = differing("x" * 300 + "a", "x" * 300 + "b")
    assert (one[0], one[1][0], one[1][-1], len(one[1])) == ("-", "…", "a", VALUE_CHARS // 2 + 2)
    assert other[1][-1] == "b"


@pytest.mark.parametrize("text", ["soon", "2x", "2026-13-01", "999999d", "-1h"])
def test_a_time_that_is_none_is_refused_with_its_remedy(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--since: no time; write 2026-05-01"):
        moment(text)


def test_a_time_is_a_date_or_how_long_ago() -> None:
    """With a time zone in any case."""
    assert moment(None) is None
    assert moment("2026-05-01T09:30+00:00") == datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
    ago = moment("90m")
    assert ago is not None
    assert timedelta(minutes=90) <= datetime.now(UTC) - ago < timedelta(minutes=91)


def test_a_long_value_is_only_begun_in_json() -> None:
    assert bounded_json({"a": 1}) == {"a": 1}
    cut = bounded_json("x" * 9_000)
    assert isinstance(cut, dict)
    assert (cut["truncated"], cut["chars"]) == (True, 9_002)


def kept(context: str = "{}", trace: Any = None, compression: Any = None) -> SnapshotRecord:
    return SnapshotRecord(
        context_id="c-1",
        context_hash="h",
        workspace_id="w",
        user_id="u",
        scope_key="s",
        source="build",
        summary="",
        context=context.encode(),
        compression={} if compression is None else compression,
        operator_trace={} if trace is None else trace,
        generated_at=datetime.now(UTC),
    )


@pytest.mark.parametrize(
    "context",
    ["[]", '"x"', "null", "{", "[" * 3_000 + "]" * 3_000, '{"a":' * 300 + "1" + "}" * 300],
)
def test_a_damaged_context_is_refused_by_its_id(context: str) -> None:
    """Whatever is in its place: no error of Python reaches the operator."""
    with pytest.raises(InvalidRequest, match="the context of c-1 is damaged"):
        parsed(kept(context))


def test_a_damaged_trace_is_not_one_without_denials() -> None:
    """Of the context itself, and of the one whose build read its surface."""
    for refused in (
        lambda: parsed(kept(trace=[])),
        lambda: denied(kept(trace=[])),
        lambda: denied(kept(), kept(trace=[])),
    ):
        with pytest.raises(InvalidRequest, match="the operator trace of c-1 is damaged"):
            refused()
    with pytest.raises(InvalidRequest, match="the compression of c-1 is damaged"):
        parsed(kept(compression=["x"]))
