"""Links in sight: those of the tables asked for, one step out, and what each tells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from context_engine import keys, policy
from context_engine.access import VisibleLink, Way
from context_engine.facts import Facts
from context_engine.view_filters import RowSet
from tests.support.facts import (
    at,
    cmp,
    computed,
    field,
    grant,
    link,
    member,
    permission,
    policy_of,
    resolve,
    table,
    view,
)

A, B = cmp("f", literal="a"), cmp("f", literal="b")
IS_A, IS_B = policy.parse(A), policy.parse(B)


def links(facts: Facts, *tables: str) -> list[VisibleLink]:
    return list(resolve(facts, at(*tables or ("t",))).links)


def told(facts: Facts, *tables: str) -> list[tuple[str, str, str | None, str | None]]:
    """(from, field, to, field on the other side)."""
    return [
        (one.table.id, one.key, one.target and one.target.id, one.back and one.back.id)
        for one in links(facts, *tables)
    ]


def rows(ways: Iterable[Way]) -> list[RowSet]:
    return [way.rows for way in ways]


def pair(**of_x: Any) -> tuple[Any, Any]:
    """`t` links to `x`, which has a field back."""
    there = table("x", field("f"), link("back", "t", "l"), **of_x)
    return table("t", field("f"), link("l", "x", "back")), there


def test_every_link_that_leaves_a_table_asked_for() -> None:
    """In the order of tables and fields; one that leads back is a link as well."""
    facts = member("viewer", *pair())
    assert told(facts) == [("t", "l", "x", "back")]
    assert told(facts, "x", "t") == [("x", "back", "t", "l"), ("t", "l", "x", "back")]


def test_links_that_arrive_without_a_field_on_this_side() -> None:
    """From tables that are not asked for; those with a field here are told by it."""
    one_way = table("y", field("f"), link("to.t", "t"), link("to.x", "x"), link("again", "t"))
    facts = member("viewer", *pair(), one_way)
    assert told(facts) == [
        ("t", "l", "x", "back"), ("y", "to.t", "t", None), ("y", "again", "t", None),
    ]  # fmt: skip
    assert told(facts, "t", "y") == [
        ("t", "l", "x", "back"),
        ("y", "to.t", "t", None), ("y", "to.x", "x", None), ("y", "again", "t", None),
    ]  # fmt: skip
    assert told(member("viewer", table(), table("z"), one_way)) == [
        ("y", "to.t", "t", None), ("y", "again", "t", None),
    ]  # fmt: skip


def test_a_table_out_of_sight_links_to_nobody() -> None:
    """Nor does a field out of sight."""
    one_way = table("y", field("f"), link("to.t", "t"), link("again", "t"))
    shut = grant("none", "table:y")
    assert told(member("viewer", table(), one_way, grants=(shut,))) == []
    hidden = one_way.model_copy(update={"field_permissions": (permission("to.t", "none"),)})
    assert told(member("viewer", table(), hidden)) == [("y", "again", "t", None)]
    third = table("z", field("f"), link("from.z", "t"))
    both = member("viewer", table(), one_way, third, grants=(shut,))
    assert told(both) == [("z", "from.z", "t", None)]


def test_a_link_to_a_table_out_of_sight_is_opaque() -> None:
    """As is one to a table that is gone: no name, no rows, no field (baserow#1558)."""
    here, there = pair()
    for facts in (member("viewer", here, there, grants=(grant("none", "table:x"),)),
                  member("viewer", here)):  # fmt: skip
        (one,) = links(facts)
        assert (one.target, one.ends, one.back) == (None, (), None)
        assert rows(one.starts) == [RowSet(True)]
        assert one.uncountable is None


def test_a_field_of_the_other_side_shows_where_it_is_in_sight() -> None:
    """Where the other side has one, its link is seen there only by a way that shows it."""
    hidden = member("viewer", *pair(field_permissions=(permission("back", "none"),)))
    (one,) = links(hidden)
    assert (one.target and one.target.id, one.back, one.ends) == ("x", None, ())
    bound = view("v", "restricted", filter=B)
    facts = member("viewer", *pair(policies=(policy_of(A),), views=(bound,)),
                   grants=(grant("viewer", "view:v"),))  # fmt: skip
    (one,) = links(facts)
    both = policy.All(all=(IS_B, IS_A))
    assert rows(one.ends) == [RowSet(IS_A), RowSet(both)]
    narrow = view("v", "restricted", filter=B, hidden=("back",))
    facts = member("viewer", *pair(policies=(policy_of(A),), views=(narrow,)),
                   grants=(grant("viewer", "view:v"),))  # fmt: skip
    (one,) = links(facts)
    assert (one.back and one.back.id, rows(one.ends)) == ("back", [RowSet(IS_A)])


def test_a_link_without_a_field_on_the_other_side_ends_in_any_row_in_sight() -> None:
    """Whichever way holds it; a field that is gone counts as none."""
    bound = view("v", "restricted", filter=B, hidden=("f",))
    there = table("x", field("f"), field("g"), policies=(policy_of(A),), views=(bound,))
    for here in (table("t", link("l", "x")), table("t", link("l", "x", "gone"))):
        facts = member("viewer", here, there, grants=(grant("viewer", "view:v"),))
        (one,) = links(facts)
        assert rows(one.ends) == [RowSet(IS_A), RowSet(policy.All(all=(IS_B, IS_A)))]
        assert one.back is None


def test_a_link_starts_in_rows_of_a_way_that_shows_it() -> None:
    """Not in those of the table's other ways."""
    bound = view("v", "restricted", filter=B, hidden=("l",))
    here = table("t", field("f"), link("l", "x"), policies=(policy_of(A),), views=(bound,))
    facts = member("viewer", here, table("x"), grants=(grant("viewer", "view:v"),))
    (one,) = links(facts)
    assert rows(one.starts) == [RowSet(IS_A)]


def test_links_are_counted_where_both_sides_are() -> None:
    """The reason of either; a side out of sight has none."""
    dark = view("v", "restricted", filter={"where": {"unavailable": "a formula"}})
    given = (grant("viewer", "view:v"),)
    closed: Any = {"policies": (policy_of(A),), "views": (dark,)}
    (one,) = links(member("viewer", *pair(**closed), grants=given))
    assert one.uncountable == "a formula"
    here = table("t", field("f"), link("l", "x"), **closed)
    for there in ((table("x"),), ()):
        (one,) = links(member("viewer", here, *there, grants=given))
        assert one.uncountable == "a formula"
    (one,) = links(member("viewer", *pair()))
    assert one.uncountable is None


def test_no_link_depends_on_new_rows_of_the_other_table() -> None:
    """Nothing leads to them yet. Of the table that is asked for they are counted."""
    here, there = pair()
    one_way = table("y", field("f"), link("to.t", "t"))
    scope = resolve(member("viewer", here, there, one_way), at("t"))
    assert len(scope.links) == 2
    assert {tag for tag in scope.tags if tag.startswith("rows-new")} == {keys.new_rows("t")}
    both = resolve(member("viewer", here, there, one_way), at("t", "x"))
    assert {keys.new_rows("t"), keys.new_rows("x")} <= both.told


def test_a_link_depends_on_its_cells_and_on_the_table_that_it_leads_to() -> None:
    """Told where that is in sight; where not, the same as if it were gone."""
    here, there = pair()
    scope = resolve(member("viewer", here, there), at("t"))
    there_tags = {keys.schema("x"), keys.rows("x")}
    assert {keys.value("t", "l")} | there_tags <= scope.told
    shut = resolve(member("viewer", here, there, grants=(grant("none", "table:x"),)), at("t"))
    assert keys.value("t", "l") in shut.told
    assert there_tags <= shut.tags - shut.told
    gone = resolve(member("viewer", here), at("t"))
    assert gone.told == shut.told
    made = table("x", field("f"), computed("c", "z.f"))
    scope = resolve(member("viewer", table("t", link("l", "x")), made, table("z")), at("t"))
    assert there_tags | {keys.schema("z"), keys.views("z")} <= scope.told
    one_way = table("y", field("f"), link("to.t", "t"))
    scope = resolve(member("viewer", table(), one_way), at("t"))
    assert {keys.value("y", "to.t"), keys.schema("y"), keys.rows("y")} <= scope.told
    hidden = one_way.model_copy(update={"field_permissions": (permission("to.t", "none"),)})
    scope = resolve(member("viewer", table(), hidden), at("t"))
    assert keys.value("y", "to.t") not in scope.tags
    assert keys.schema("y") in scope.told
