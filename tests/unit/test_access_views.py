"""Views in sight: their fields, the rows that they filter, and the one that is looked at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from context_engine import keys, policy, view_filters
from context_engine.access import VisibleView
from context_engine.facts import Facts
from context_engine.models.sections import TOO_SLOW
from context_engine.view_filters import NOT_COMPUTED, RowSet
from tests.support.facts import (
    USER,
    at,
    cmp,
    computed,
    field,
    grant,
    link,
    member,
    only_table,
    permission,
    policy_of,
    resolve,
    table,
    view,
)

NOON = datetime(2026, 1, 7, 12, tzinfo=UTC)
A = cmp("f", literal="a")
IS_A = policy.parse(A)
SHUT_X = (grant("none", "table:x"),)


def place(filter: Any, *more: Any, ownership: str = "collaborative", **rules: Any) -> Facts:
    """A table with a view that filters, and a link to the table `x`."""
    stored = table("t", field("f"), link("l", "x"), *more,
                   views=(view("v", ownership, filter=filter),), **rules)  # fmt: skip
    return member("viewer", stored, table("x")).model_copy(update={"now": NOON})


def looked_at(facts: Facts, *tables: str) -> VisibleView:
    found = resolve(facts, at(*tables or ("t",), view_id="v")).view
    assert found is not None
    return found


def counted(table_id: str = "x") -> Any:
    step = {"field": "l", "table": table_id}
    return {"where": {"field": "l", "value": {"count": step},
                      "test": {"op": "higher_than", "to": 1}}}  # fmt: skip


# -- fields and rows ---------------------------------------------------------------------------


def test_a_views_fields_are_those_in_sight_in_its_order() -> None:
    """Its own order first, then by id; what it hides and what the user may not read is absent."""
    fields = [field(id) for id in ("e", "d", "c", "b", "a")]
    hidden = view(hidden=("b", "gone"), field_order=("d", "gone", "c", "b"))
    stored = table("t", *fields, views=(hidden,), field_permissions=(permission("c", "none"),))
    (one,) = only_table(member("viewer", stored)).views
    assert one.field_ids == ("d", "a", "e")
    assert (one.table_id, one.facts, one.filter, one.uncountable) == ("t", hidden, True, None)


def test_a_view_filters_the_rows_of_the_table_and_its_own() -> None:
    """Never those that another view brought; its fields are those that these two ways show."""
    views = (
        view("c", hidden=("g",)),
        view("v", "restricted", filter=A),
        view("o", "restricted", filter=False, hidden=("f",)),
    )
    rules: Any = {"field_permissions": (permission("g", "none", "role:viewer"),), "views": views}
    stored = table("t", field("f"), field("g"), **rules)
    given = (grant("editor", "view:v"), grant("commenter", "view:o"))
    seen = only_table(member("viewer", stored, grants=given)).views
    assert [(one.facts.id, one.rows, one.field_ids) for one in seen] == [
        ("c", (RowSet(True),), ("f",)),
        ("v", (RowSet(True), RowSet(IS_A)), ("f", "g")),
        ("o", (RowSet(True), RowSet(False)), ("g",)),
    ]
    alone = only_table(member("viewer", stored, grants=(grant("none"), *given))).views
    assert [(one.facts.id, one.rows) for one in alone] == [
        ("v", (RowSet(IS_A),)),
        ("o", (RowSet(False),)),
    ]


def test_a_view_has_no_count_where_its_boundary_has_none() -> None:
    """Unless the table's own way holds every row; another view's trouble is none of its own."""
    dark = {"where": {"unavailable": "a formula"}}
    views = (view("v", "restricted", filter=dark), view("o", "restricted"), view("c"))
    given = (grant("viewer", "view:v"), grant("viewer", "view:o"))
    narrow = table(views=views, policies=(policy_of(A),))
    for stored, reason in ((narrow, "a formula"), (table(views=views), None)):
        seen = only_table(member("viewer", stored, grants=given)).views
        assert {v.facts.id: v.uncountable for v in seen} == {"v": reason, "o": None, "c": None}
    facts = member("viewer", narrow, grants=given)
    assert looked_at(facts).uncountable == "a formula"
    assert looked_at(facts).filter is True


# -- which view ---------------------------------------------------------------------------------


def test_the_view_asked_for_is_on_a_table_of_the_request_or_alone() -> None:
    """With its table beside it; elsewhere it is absent."""
    facts = place(None)
    for tables in ((), ("t",), ("x", "t")):
        scope = resolve(facts, at(*tables, view_id="v"))
        assert scope.view is not None
        assert scope.view_table is not None
        assert (scope.view.facts.id, scope.view_table.id) == ("v", "t")
        assert keys.ANY_VIEW in scope.told
        assert {keys.views("t"), keys.schema("t"), keys.rows("t")} <= scope.told
        assert scope.absent == ()
    for tables, wanted in ((("x",), "v"), (("t",), "gone")):
        scope = resolve(facts, at(*tables, view_id=wanted))
        assert (scope.view, scope.view_table) == (None, None)
        assert [(one.coordinate, one.id) for one in scope.absent] == [("viewId", wanted)]
        assert keys.ANY_VIEW in scope.told
        assert (f"view {wanted}", "missing or out of sight") in [
            (one.what, one.rule) for one in scope.denials
        ]
    assert keys.views("t") not in resolve(facts, at("x", view_id="v")).tags


def test_without_a_view_no_view_is_asked_for() -> None:
    """Nothing depends on views that come and go."""
    scope = resolve(place(None), at("t"))
    assert (scope.view, scope.view_table, scope.absent) == (None, None, ())
    assert keys.ANY_VIEW not in scope.tags


def test_a_hidden_view_is_kept_as_a_dependency_and_not_told() -> None:
    """It falls when the grant comes."""
    facts = place(A, ownership="restricted")
    scope = resolve(facts, at(view_id="v"))
    assert scope.view is None
    assert keys.views("t") in scope.tags - scope.told


# -- its filter --------------------------------------------------------------------------------


def test_its_filter_is_for_presentation() -> None:
    """Resolved for the user; it reads hidden fields of its own table all the same."""
    for filter, made in (
        (None, True),
        (True, True),
        (A, IS_A),
        ({"not": A}, policy.Not(not_=IS_A)),
        ({"all": [A, True]}, policy.All(all=(IS_A, True))),
        ({"any": [A, False]}, policy.Any_(any=(IS_A, False))),
        (cmp("sys:created_by", user="id"), policy.parse(cmp("sys:created_by", literal="u"))),
    ):
        found = looked_at(place(filter))
        assert (found.filter, found.where, found.uncountable) == (made, None, None)
    hidden = looked_at(place(A, field("g"), field_permissions=(permission("f", "none"),)))
    assert (hidden.filter, hidden.uncountable) == (IS_A, None)
    assert hidden.field_ids == ("g", "l")


def test_only_the_view_looked_at_has_its_filter_made() -> None:
    """The others are listed, not counted."""
    (one,) = only_table(place({"cmp": "?"})).views
    assert (one.filter, one.uncountable) == (True, None)


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        ({"cmp": "?"}, NOT_COMPUTED),
        (cmp("gone"), NOT_COMPUTED),
        (cmp("f", now={"unit": "today", "tz": "Mars/Base"}), NOT_COMPUTED),
        ({"where": {"unavailable": "a formula"}}, "a formula"),
        (counted("gone").copy() | {"x": 1}, NOT_COMPUTED),
    ],
)
def test_a_filter_that_cannot_be_computed_has_no_count(filter: Any, reason: str) -> None:
    """Never the unfiltered number."""
    found = looked_at(place(filter))
    assert (found.filter, found.where, found.uncountable) == (False, None, reason)
    assert [rows.pred for rows in found.rows] == [True]


def linked(pred: Any = True) -> Any:
    return {"linkedAny": {"field": "l", "pred": pred}}


def test_a_linked_row_counts_where_it_is_in_sight() -> None:
    """By any way into its table; a table out of sight has none. A predicate alone cannot say so,
    and whoever counts predicates alone has no count."""
    seen = policy.LinkedAny(linked_any=policy.LinkedIn(field="l", table="x", pred=IS_A))
    for filter, made in (
        (linked(A), seen),
        ({"not": linked(A)}, policy.Not(not_=seen)),
        ({"any": [linked(A), A]}, policy.Any_(any=(seen, IS_A))),
        ({"all": [A, linked(A)]}, policy.All(all=(IS_A, seen))),
    ):
        found = looked_at(place(filter))
        assert (found.filter, found.uncountable) == (True, None)
        assert found.where is not None
        assert (found.where.filter, found.where.sights) == (made, {"x": (RowSet(True),)})
    shut = looked_at(place(linked(A)).model_copy(update={"grants": SHUT_X}))
    assert (shut.filter, shut.where) == (False, None)
    ruled = looked_at(
        place(linked()).model_copy(
            update={
                "tables": (place(linked()).tables[0], table("x", policies=(policy_of(A),))),
            }
        )
    )
    assert ruled.where is not None
    assert ruled.where.sights == {"x": (RowSet(IS_A),)}


def test_a_linked_row_behind_a_boundary_in_the_language_of_views_counts_within_it() -> None:
    """That of a granted view, as an import may have made it."""
    stored = {"where": {"field": "f", "value": {"cell": "f", "kind": "text"},
                        "test": {"op": "empty"}}}  # fmt: skip
    other = table("x", views=(view("z", "restricted", filter=stored),))
    base = place(linked(A))
    facts = base.model_copy(
        update={"tables": (base.tables[0], other), "grants": (*SHUT_X, grant("viewer", "view:z"))}
    )
    found = looked_at(facts)
    assert (found.filter, found.uncountable) == (True, None)
    assert found.where is not None
    (rows,) = found.where.sights["x"]
    assert rows.where is not None
    assert rows.where.filter == view_filters.parse(stored)


def test_a_filter_in_the_language_of_views_sees_linked_rows_in_sight() -> None:
    """It stands beside the predicate; whatever it looks up there, only those rows count."""
    found = looked_at(place(counted()))
    assert (found.filter, found.uncountable) == (True, None)
    assert found.where is not None
    assert found.where.sights == {"x": (RowSet(True),)}
    assert found.where.now == NOON
    shut = looked_at(place(counted()).model_copy(update={"grants": SHUT_X}))
    assert shut.where is not None
    assert shut.where.sights == {"x": ()}
    lookup = {"lookup": {"step": {"field": "l", "table": "x"},
                         "value": {"cell": "f", "kind": "text"}}}  # fmt: skip
    filter = {"where": {"field": "l", "value": lookup, "test": {"op": "empty"}}}
    base = place(filter)
    assert looked_at(base).uncountable is None
    # A field that permissions hide is read all the same where its table is in sight.
    other = table("x", field("f"), field("g"), field_permissions=(permission("f", "none"),))
    hidden = base.model_copy(update={"tables": (base.tables[0], other)})
    assert looked_at(hidden).uncountable is None


LATE = policy.AttrLookup(table="x", key_field="f", value_field="f")
MY_OWN = cmp("f", "in", attr={"table": "x", "keyField": "f", "valueField": "f"})


@pytest.mark.parametrize(
    ("filter", "rules", "reason"),
    [
        (MY_OWN, (), TOO_SLOW),
        (linked(MY_OWN), (), TOO_SLOW),
        (linked(A), (policy_of(MY_OWN),), TOO_SLOW),
        (counted(), (policy_of(MY_OWN),), TOO_SLOW),
        (linked(A), (policy_of(MY_OWN, "restrictive", "user:other"),), None),
        (counted(), (), None),
        (A, (policy_of(MY_OWN),), None),
    ],
)
def test_a_view_has_no_count_where_what_it_asks_was_not_read_in_time(
    filter: Any, rules: Any, reason: str | None
) -> None:
    """Of the user, or by rules of rows that it looks into: they are not known to be out of sight.
    Rules of other tables are none of its own."""
    base = place(filter)
    facts = base.model_copy(update={"tables": (base.tables[0], table("x", policies=rules))})
    found = resolve(facts, at("t", view_id="v"), attributes={LATE: None}).view
    assert found is not None
    assert found.uncountable == reason
    assert reason is None or (found.filter, found.where) == (False, None)
    known = resolve(facts, at("t", view_id="v"), attributes={LATE: ("a",)}).view
    assert known is not None
    assert known.uncountable is None


@pytest.mark.parametrize("filter", [linked(A), counted()])
def test_a_view_has_no_count_where_nobody_knows_the_rows_that_it_looks_into(filter: Any) -> None:
    """Those of a boundary that cannot be computed; unless another way holds all rows."""
    other = table("x", views=(view("z", "restricted", filter={"where": {"unavailable": "why"}}),))
    base = place(filter)
    facts = base.model_copy(update={"tables": (base.tables[0], other)})
    assert looked_at(facts).uncountable is None
    only = facts.model_copy(update={"grants": (*SHUT_X, grant("viewer", "view:z"))})
    found = looked_at(only)
    assert (found.filter, found.where, found.uncountable) == (False, None, "why")


def test_a_filter_over_its_own_table_reads_hidden_fields() -> None:
    """Presentation applies to them too, in the language of views as well."""
    filter = {"where": {"field": "f", "value": {"cell": "f", "kind": "text"},
                        "test": {"op": "empty"}}}  # fmt: skip
    facts = place(filter, field("g"), field_permissions=(permission("f", "none"),))
    found = looked_at(facts)
    assert found.uncountable is None
    assert found.where is not None
    self_linked = {"where": {"field": "s", "value": {"lookup": {
        "step": {"field": "s", "table": "t"}, "value": {"cell": "f", "kind": "text"}}},
        "test": {"op": "empty"}}}  # fmt: skip
    facts = place(self_linked, link("s", "t"), field_permissions=(permission("f", "none"),),
                  policies=(policy_of(A),))  # fmt: skip
    found = looked_at(facts)
    assert found.where is not None
    assert found.where.sights == {"t": (RowSet(IS_A),)}


# -- dependencies ------------------------------------------------------------------------------


def test_what_the_filter_reads_is_a_dependency() -> None:
    """Told where its table is in sight, kept where it is not."""
    stored = {"where": {"field": "f", "value": {"cell": "f", "kind": "text"},
                        "test": {"op": "empty"}}}  # fmt: skip
    for filter in (A, stored):
        told = resolve(place(filter), at("t", view_id="v")).told
        assert {keys.value("t", "f"), keys.any_value("t")} <= told
        assert keys.value("t", "f") not in resolve(place(filter), at("t")).told
    base = place(linked(cmp("g", literal="a")))
    other = table("x", field("f"), field("g"))
    facts = base.model_copy(update={"tables": (base.tables[0], other)})
    assert keys.value("x", "g") in resolve(facts, at("t", view_id="v")).told
    # Of a table out of sight nothing is read; that it comes in sight is what the count waits for.
    shut = resolve(facts.model_copy(update={"grants": SHUT_X}), at("t", view_id="v"))
    assert keys.value("x", "g") not in shut.tags
    assert keys.rows("x") in shut.tags - shut.told


def test_what_the_filter_reads_is_told_though_it_leads_into_another_table() -> None:
    """Which is decided in the middle of it where the view is asked for alone."""
    for filter in ({"all": [linked(A), A]}, {"where": {"every": [
        counted()["where"],
        {"field": "f", "value": {"cell": "f", "kind": "text"}, "test": {"op": "empty"}},
    ]}}):  # fmt: skip
        alone = resolve(place(filter), at(view_id="v"))
        assert {keys.value("t", "l"), keys.value("t", "f"), keys.rows("x")} <= alone.told


def test_a_filter_along_a_link_out_of_sight_counts_as_along_one_that_leads_nowhere() -> None:
    """Whatever is asked there, fields that are gone too: no such row; what is beside it holds."""
    for pred in (linked(A), linked(cmp("gone"))):
        for filter, made in (
            (pred, False),
            ({"not": pred}, policy.Not(not_=False)),
            ({"all": [A, pred]}, policy.All(all=(IS_A, False))),
            ({"any": [pred, A]}, policy.Any_(any=(False, IS_A))),
        ):
            shut = place(filter).model_copy(update={"grants": SHUT_X})
            gone = place(filter)
            gone = gone.model_copy(update={"tables": gone.tables[:1]})
            for facts in (shut, gone):
                found = looked_at(facts)
                assert (found.filter, found.uncountable) == (made, None)
    assert looked_at(place(linked(cmp("gone")))).uncountable == NOT_COMPUTED
    assert looked_at(place({"linkedAny": {"field": "f", "pred": True}})).uncountable == NOT_COMPUTED


def test_what_nobody_can_read_is_not_counted_though_it_stands_behind_a_link_out_of_sight() -> None:
    """No such row is asked; what would be asked is garbage all the same."""
    for garbage in (None, [], {"cmp": {"ref": "field:f", "op": "eq", "more": 1}}, {"any": {}}):
        shut = place(linked(garbage)).model_copy(update={"grants": SHUT_X})
        gone = shut.model_copy(update={"tables": shut.tables[:1]})
        for facts in (shut, gone):
            assert looked_at(facts).uncountable == NOT_COMPUTED


def test_the_count_ends_with_the_filters_days() -> None:
    """In either language; in the user's own zone where the filter names none."""
    zoned = USER.model_copy(update={"timezone": "Asia/Tokyo"})
    dated = {"where": {"field": "f", "value": {"cell": "f", "kind": "date"},
                       "test": {"op": "date_is", "days": {"tz": "Asia/Tokyo"}}}}  # fmt: skip
    for filter in (cmp("f", now={"unit": "today"}), dated):
        facts = place(filter).model_copy(update={"user": zoned})
        assert resolve(facts, at("t", view_id="v")).until == datetime(2026, 1, 7, 15, tzinfo=UTC)
        assert resolve(facts, at("t")).until is None


def test_a_view_with_a_computed_field_shows_it_where_its_sources_show() -> None:
    """In the table's way; the view's own hidden fields are presentation there."""
    stored = table("t", field("f"), computed("c", "t.f"), views=(view(hidden=("f",)),))
    (one,) = only_table(member("viewer", stored)).views
    assert one.field_ids == ("c",)
