"""Which fields each way shows, and which of their cells its holder may write."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.errors import NotFound
from context_engine.facts import Facts
from tests.support.facts import (
    agent,
    computed,
    field,
    grant,
    link,
    member,
    only_table,
    permission,
    table,
    view,
)


def shown(facts: Facts, id: str = "t") -> list[set[str]]:
    """The fields of every way into a table, in order."""
    return [set(way.field_ids) for way in only_table(facts, id).ways]


def written(facts: Facts) -> list[set[str]]:
    return [set(way.writable) for way in only_table(facts).ways]


F, G = field("f"), field("g")


# -- field permissions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "shows", "writes"),
    [
        ((), True, True),
        ((permission("g", "none"),), False, False),
        ((permission("g", "read"),), True, False),
        ((permission("g", "write"),), True, True),
        ((permission("g", "none", "role:editor"),), False, False),
        ((permission("g", "none", "role:viewer"),), True, True),
        ((permission("g", "none", "role:editor"), permission("g", "read", "team:a")), True, False),
        ((permission("g", "none", "team:a"), permission("g", "read", "team:b")), True, False),
        ((permission("g", "read", "team:b"), permission("g", "write", "team:a")), True, True),
        ((permission("g", "write", "team:a"), permission("g", "none")), False, False),
        ((permission("g", "none", "team:a"), permission("g", "write")), True, True),
        ((permission("f", "read"),), True, True),
    ],
)
def test_a_field_permission_narrows(
    permissions: tuple[Any, ...], shows: bool, writes: bool
) -> None:
    """Own over teams' over the role's; several teams unite; another field's say nothing."""
    facts = member("editor", table("t", F, G, field_permissions=permissions))
    assert ("g" in shown(facts)[0]) is shows
    assert ("g" in written(facts)[0]) is writes


def test_it_raises_nobody() -> None:
    """`write` for a role that only reads writes nothing; nor does an agent that only reads."""
    stored = table("t", F, field_permissions=(permission("f", "write"),))
    for role in ("viewer", "commenter"):
        assert written(member(role, stored)) == [set()]
    for role in ("editor", "builder", "admin"):
        assert written(member(role, stored)) == [{"f"}]
        assert written(member(role, stored, agents=(agent("commenter"),))) == [set()]


def test_the_role_that_it_names_is_the_one_held() -> None:
    """Agents below it change nothing: neither what is hidden nor what is shown."""
    stored = table("t", F, G, field_permissions=(permission("g", "none", "role:viewer"),))
    assert shown(member("editor", stored, agents=(agent("viewer"),))) == [{"f", "g"}]
    assert shown(member("viewer", stored, agents=(agent("admin"),))) == [{"f"}]


def test_a_view_grant_holds_by_its_own_role() -> None:
    """One permission may bind the table's way and not the view's; what the view hides is hidden."""
    stored = table(
        "t", F, G, views=(view("v", "restricted", hidden=("f",)),),
        field_permissions=(permission("g", "none", "role:viewer"),),
    )  # fmt: skip
    facts = member("viewer", stored, grants=(grant("editor", "view:v"),))
    assert shown(facts) == [{"f"}, {"g"}]
    assert written(facts) == [set(), {"g"}]
    found = only_table(facts)
    assert [one.id for one in found.fields] == ["f", "g"]
    assert found.showing(("f", "g")) == ()
    assert (found.showing(("f",)), found.showing(())) == (found.rows[:1], found.rows)
    assert [found.shows(id) for id in ("f", "g", "gone")] == [True, True, False]


def test_a_view_hides_nothing_of_the_tables_own_way() -> None:
    """There its hidden fields are presentation; a collaborative view is no way either."""
    stored = table("t", F, G, views=(view("v", hidden=("g",)),))
    facts = member("viewer", stored, grants=(grant("editor", "view:v"),))
    assert shown(facts) == [{"f", "g"}]


def test_without_a_field_there_is_no_way() -> None:
    """Nothing, not "unrestricted" (baserow#5778); a table that has no fields is another matter."""
    hidden = (permission("f", "none"),)
    with pytest.raises(NotFound):
        only_table(member("admin", table("t", F, field_permissions=hidden)))
    stored = table("t", F, G, views=(view("v", "restricted", hidden=("f", "g")),))
    assert shown(member("viewer", stored, grants=(grant("editor", "view:v"),))) == [{"f", "g"}]
    bare = table("t").model_copy(update={"fields": ()})
    assert shown(member("viewer", bare)) == [set()]


# -- computed fields ---------------------------------------------------------------------------


def of_t(*fields: Any, **more: Any) -> Any:
    return table("t", *fields, **more)


def test_a_computed_field_shows_where_its_sources_do() -> None:
    """However long the chain, in whatever order the fields stand."""
    chain = (computed("c", "t.b"), computed("b", "t.f"), F, G)
    assert shown(member("viewer", of_t(*chain))) == [{"f", "g", "b", "c"}]
    hidden = of_t(*chain, field_permissions=(permission("f", "none"),))
    assert shown(member("viewer", hidden)) == [{"g"}]
    both = of_t(computed("c", "t.f", "t.g"), F, G, field_permissions=(permission("f", "none"),))
    assert shown(member("viewer", both)) == [{"g"}]


@pytest.mark.parametrize(
    "made",
    [
        computed("c", "t.gone"),
        computed("c", "gone.f"),
        computed("c", "t.c"),
        computed("c", known=False),
        computed("c", "t.f", "x.f"),
    ],
)
def test_what_cannot_be_followed_is_hidden(made: Any) -> None:
    """A field or table that is gone or out of sight, a circle, and what nobody knows."""
    facts = member("viewer", of_t(F, made), table("x"), grants=(grant("none", "table:x"),))
    assert shown(facts) == [{"f"}]


def test_sources_on_another_table_show_by_any_way() -> None:
    """By a granted view there as well; a way that does not show them is not enough."""
    views = (view("v", "restricted", hidden=("f",)), view("z", "restricted", hidden=("g",)))
    other = table("x", F, G, views=views)
    made = (F, computed("by.f", "x.f"), computed("by.g", "x.g"))
    shut = grant("none", "table:x")
    for given, seen in (
        ((), {"f"}),
        ((grant("viewer", "view:v"),), {"f", "by.g"}),
        ((grant("viewer", "view:v"), grant("viewer", "view:z")), {"f", "by.f", "by.g"}),
    ):
        assert shown(member("viewer", of_t(*made), other, grants=(shut, *given))) == [seen]


def test_a_link_is_a_source_only_with_the_table_that_it_leads_to() -> None:
    """The link itself shows, as an opaque one."""
    made = (F, link("l", "x"), computed("count", "t.l"))
    assert shown(member("viewer", of_t(*made), table("x"))) == [{"f", "l", "count"}]
    shut = (grant("none", "table:x"),)
    assert shown(member("viewer", of_t(*made), table("x"), grants=shut)) == [{"f", "l"}]
    assert shown(member("viewer", of_t(*made))) == [{"f", "l"}]
    bare = table("x").model_copy(update={"fields": ()})
    assert shown(member("viewer", of_t(*made), bare)) == [{"f", "l", "count"}]
    hidden = table("x", F, field_permissions=(permission("f", "none"),))
    assert shown(member("viewer", of_t(*made), hidden)) == [{"f", "l"}]


def test_in_a_way_of_its_own_table_the_sources_are_that_ways() -> None:
    """What another way shows does not help."""
    stored = of_t(F, G, computed("c", "t.f"), views=(view("v", "restricted", hidden=("f",)),))
    facts = member("viewer", stored, grants=(grant("viewer", "view:v"),))
    assert shown(facts) == [{"f", "g", "c"}, {"g"}]


def test_an_explicit_permission_lifts_what_permissions_hide_of_its_own_table() -> None:
    """By whomever it is held; `none` on it hides it; `write` on a source says nothing of it
    (grist-core#305)."""
    hidden = permission("f", "none")
    made = (F, G, computed("c", "t.f"))

    def seen(*more: Any) -> list[set[str]]:
        return shown(member("viewer", of_t(*made, field_permissions=(hidden, *more))))

    assert seen() == [{"g"}]
    for by in ("user:u", "team:a", "role:viewer"):
        assert seen(permission("c", "read", by)) == [{"g", "c"}]
    assert seen(permission("c", "read", "role:editor")) == [{"g"}]
    assert seen(permission("c", "none")) == [{"g"}]
    assert seen(permission("g", "read")) == [{"g"}]


def test_a_lifted_field_lifts_no_other() -> None:
    """What is made of it shows with it; what is made of the hidden field stays hidden."""
    made = (F, G, computed("b", "t.f"), computed("c", "t.b"), computed("d", "t.f"))
    lifted = (permission("f", "none"), permission("b", "read"))
    assert shown(member("viewer", of_t(*made, field_permissions=lifted))) == [{"g", "b", "c"}]
    # Through a hidden step between, too.
    deep = (permission("f", "none"), permission("c", "read"))
    assert shown(member("viewer", of_t(*made, field_permissions=deep))) == [{"g", "c"}]
    shut = (permission("b", "none"), permission("c", "read"))
    assert shown(member("viewer", of_t(*made, field_permissions=shut))) == [{"f", "g", "c", "d"}]


def test_it_lifts_neither_another_table_nor_what_a_view_holds_back() -> None:
    """Nor a source that is gone, nor a link to a table out of sight."""
    lifted = permission("c", "read")
    other = table("x", F, G, field_permissions=(permission("f", "none"),))
    made = of_t(F, computed("c", "x.f"), field_permissions=(lifted,))
    assert shown(member("viewer", made, other)) == [{"f"}]
    held = of_t(
        F, G, computed("c", "t.f"), views=(view("v", "restricted", hidden=("f",)),),
        field_permissions=(lifted,),
    )  # fmt: skip
    facts = member("viewer", held, grants=(grant("none"), grant("viewer", "view:v")))
    assert shown(facts) == [{"g"}]
    away = of_t(F, link("l", "x"), computed("c", "t.l"), field_permissions=(lifted,))
    shut = (grant("none", "table:x"),)
    assert shown(member("viewer", away, table("x"), grants=shut)) == [{"f", "l"}]
    gone = of_t(F, computed("c", "t.gone"), field_permissions=(lifted,))
    assert shown(member("viewer", gone)) == [{"f"}]


def test_a_view_that_hides_a_computed_field_hides_what_is_made_of_it() -> None:
    """For what only that view gives."""
    stored = of_t(
        F, computed("b", "t.f"), computed("c", "t.b"),
        views=(view("v", "restricted", hidden=("b",)),),
    )  # fmt: skip
    facts = member("viewer", stored, grants=(grant("none"), grant("viewer", "view:v")))
    assert shown(facts) == [{"f"}]
