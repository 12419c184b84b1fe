"""The oracle on the acceptance cases that tell what is seen, each in a workspace of a few lines.

Those about what falls out of a cache when something changes (1, 7, 8, 10, 16) are here only as
the answer before and after the change; the engine's tests hold the cache to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.oracle import NOT_FOUND, Request, Workspace, expected
from tests.support.oracle import model as m
from tests.support.oracle.draws import NOW
from tests.support.oracle.predicates import Index, Judge, Unresolvable

EVEN = {"cmp": {"ref": "field:kind", "op": "eq", "operand": {"literal": "even"}}}
OWN = {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}}


def table(id: str = "t", **more: Any) -> m.Table:
    """Ten records, the even ones `even` and made by `u`."""
    kinds = {
        "fields": (m.Field("name", "Name", "text", primary=True), m.Field("kind", "Kind", "text"))
    }
    records = tuple(
        m.Record(
            f"{id}{n}",
            {"name": str(n), "kind": "odd" if n % 2 else "even"},
            NOW,
            created_by="v" if n % 2 else "u",
        )
        for n in range(10)
    )
    return m.Table(id, id, **{**kinds, "records": records, **more})


def view(ownership: str = "restricted", **more: Any) -> m.View:
    return m.View("even", "Even", ownership=ownership, **{"filter": EVEN, **more})


def place(
    role: str | None = "viewer", *tables: m.Table, teams: tuple[str, ...] = (), **more: Any
) -> Workspace:
    """User `u`, a member with `role`, in teams `teams`."""
    return Workspace(
        "w",
        "Work",
        users=(
            m.User("u", "U", timezone="Europe/Berlin", email_norm="u@example.org"),
            m.User("v", "V"),
        ),
        members=() if role is None else (m.Member("u", role),),
        teams=tuple(m.Team(id, id, ("u",)) for id in teams),
        tables=tables or (table(),),
        **more,
    )


def grant(role: str, scope: str = "table:t", subject: str = "user:u") -> m.Grant:
    return m.Grant(*scope.split(":"), *subject.split(":"), role)


def ask(workspace: Workspace, **more: Any) -> dict[str, Any]:
    return expected(workspace, Request("u", **{"table_ids": ("t",), **more}), NOW)


def seen(workspace: Workspace, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(workspace, **more)["tables"][0]
    return found


def names(section: dict[str, Any]) -> list[str]:
    return [one["id"] for one in section["fields"]]


def test_1_a_revoked_table_is_denied() -> None:
    assert seen(place())["records"] == 10
    assert ask(place(grants=(grant("none"),))) == NOT_FOUND


def test_2_own_grants_replace_the_teams_and_teams_unite() -> None:
    own = place("none", teams=("g",), grants=(grant("editor"), grant("admin", subject="team:g")))
    assert seen(own)["permission"] == "editor"
    both = (grant("viewer", subject="team:g"), grant("editor", subject="team:h"))
    assert seen(place("none", teams=("g", "h"), grants=both))["permission"] == "editor"
    team = grant("builder", "workspace:w", "team:g")
    assert seen(place("defer", teams=("g",), grants=(team,)))["permission"] == "builder"
    assert seen(place("editor", teams=("g",), grants=(team,)))["permission"] == "editor"


def test_2_scope_comes_before_subject() -> None:
    team = grant("viewer", subject="team:g")
    assert seen(place("admin", teams=("g",), grants=(team,)))["permission"] == "viewer"


@pytest.mark.parametrize(
    ("role", "rows", "permission"), [("editor", 10, "editor"), ("none", 5, "views")]
)
def test_3_a_view_grant_adds_to_the_table(role: str, rows: int, permission: str) -> None:
    given = (grant(role), grant("viewer", "view:even"))
    found = seen(place("none", table(views=(view(),)), grants=given))
    assert (found["records"], found["permission"]) == (rows, permission)


def test_4_a_view_alone_gives_its_ancestors_names() -> None:
    w = place("defer", table(views=(view(hidden=("kind",)), m.View("all", "All"))),
              grants=(grant("editor", "view:even"),))  # fmt: skip
    found = ask(w, view_id="even")
    assert found["tables"][0]["views"] == [{"id": "even", "name": "Even", "type": "grid"}]
    assert names(found["tables"][0]) == ["name"]
    assert (found["view"]["records"], found["user"]["role"]) == (5, "none")
    assert ask(w, view_id="all")["view"] is None


def test_5_a_hidden_field_still_filters() -> None:
    hidden = view("collaborative", hidden=("kind",))
    none = m.FieldPermission("user", "u", "none")
    kinds = table().fields
    w = place(
        "viewer", table(views=(hidden,), fields=(kinds[0], replace(kinds[1], permissions=(none,))))
    )
    found = ask(w, view_id="even")
    assert (found["view"]["records"], names(found["tables"][0])) == (5, ["name"])


def test_6_all_fields_hidden_is_nothing() -> None:
    none = m.FieldPermission("role", "viewer", "none")
    fields = tuple(replace(one, permissions=(none,)) for one in table().fields)
    assert ask(place("viewer", table(fields=fields))) == NOT_FOUND
    assert seen(place("editor", table(fields=fields)))["records"] == 10


def test_7_an_edit_moves_a_row_out_of_the_filter() -> None:
    before = table(views=(view("collaborative"),))
    first, *rest = before.records
    after = replace(before, records=(replace(first, cells={**first.cells, "kind": "odd"}), *rest))
    assert ask(place("editor", before), view_id="even")["view"]["records"] == 5
    assert ask(place("editor", after), view_id="even")["view"]["records"] == 4


def linked(**more: Any) -> tuple[m.Table, m.Table]:
    """`t` links to `other`, and looks its names up."""
    link = m.Field("link", "Link", "link", linked_table_id="other")
    lookup = m.Field("lookup", "Lookup", "lookup", reads=(("t", "link"), ("other", "name2")))
    other = table("other", fields=(m.Field("name2", "N", "text", primary=True),), **more)
    return table(fields=(*table().fields, link, lookup)), other


def test_9_a_link_to_an_unreadable_table_is_opaque() -> None:
    """And what is looked up there is hidden; trashed is the same."""
    link = (m.Link("link", "t0", "other0"), m.Link("link", "t1", "other1"))
    opened = ask(place("viewer", *linked(), links=link))
    assert (opened["relations"][0]["links"], names(opened["tables"][0])[-1]) == (2, "lookup")
    closed = ask(place("viewer", *linked(), links=link, grants=(grant("none", "table:other"),)))
    assert closed["relations"] == [
        {"table_id": "t", "table_name": "t", "field_id": "link", "field_name": "Link",
         "cardinality": "many",
         "linked_table_id": None, "linked_table_name": None, "linked_field_id": None, "links": None}
    ]  # fmt: skip
    assert names(closed["tables"][0]) == ["name", "kind", "link"]
    assert ask(place("viewer", *linked(trashed=True), links=link)) == closed


def test_10_and_16_a_member_removed_and_added_again() -> None:
    assert ask(place(None)) == NOT_FOUND
    assert seen(place("viewer"))["records"] == 10


def test_11_a_grant_on_one_table_is_not_one_on_another() -> None:
    """A trashed table keeps its grant to itself."""
    gone = table("gone", trashed=True)
    w = place("builder", table(), gone, grants=(grant("viewer", "table:gone"),))
    assert seen(w)["permission"] == "builder"
    assert ask(w, table_ids=("gone",)) == NOT_FOUND


def test_12_a_formula_over_a_hidden_column() -> None:
    """Hidden with it; an explicit `read` lifts it, but not over another table or a view."""
    none, read = m.FieldPermission("user", "u", "none"), m.FieldPermission("user", "u", "read")
    name, kind = table().fields
    formula = m.Field("sum", "Sum", "formula", reads=(("t", "kind"),))
    hidden = replace(kind, permissions=(none,))
    assert names(seen(place("viewer", table(fields=(name, hidden, formula))))) == ["name"]
    lifted = replace(formula, permissions=(read,))
    assert names(seen(place("viewer", table(fields=(name, hidden, lifted))))) == ["name", "sum"]
    by_view = table(fields=(name, kind, lifted), views=(view(hidden=("kind",)),))
    only = place("none", by_view, grants=(grant("viewer", "view:even"),))
    assert names(seen(only)) == ["name"]
    t, other = linked()
    fields = (*t.fields[:3], replace(t.fields[3], permissions=(read,)))
    far = replace(other, fields=(replace(other.fields[0], permissions=(none,)), table().fields[1]))
    assert names(seen(place("viewer", replace(t, fields=fields), far)))[-1] == "link"


def test_13_an_address_is_compared_in_its_normal_form() -> None:
    """Whatever case it was given in: a cell beside it, and an attribute's key."""
    mine = {"cmp": {"ref": "field:mail", "op": "eq", "operand": {"user": "email_norm"}}}
    rows = tuple(m.Record(a, {"mail": a}, NOW) for a in ("u@example.org", "U@example.org"))
    mails = m.Table("t", "t", fields=(m.Field("mail", "M", "email"),), records=rows)
    closed = (m.Policy("p", [{"type": "user", "id": "u"}], mine, "restrictive"),)
    assert seen(place("viewer", replace(mails, policies=closed)))["records"] == 2
    attr = {"attr": {"table": "t", "keyField": "mail", "valueField": "mail"}}
    either = {"cmp": {"ref": "field:mail", "op": "in", "operand": attr}}
    closed = (replace(closed[0], pred=either),)
    assert seen(place("viewer", replace(mails, policies=closed)))["records"] == 2


def test_14_a_view_shows_what_is_in_sight_of_what_it_names() -> None:
    none = m.FieldPermission("user", "u", "none")
    name, kind = table().fields
    shown = m.View("v", "V", field_order=("kind", "name", "nowhere"))
    w = place("viewer", table(fields=(name, replace(kind, permissions=(none,))), views=(shown,)))
    found = ask(w, view_id="v")
    assert (found["view"]["field_count"], names(found["tables"][0])) == (1, ["name"])


def test_15_a_creator_has_no_right() -> None:
    """Denied on every coordinate that asks for a role."""
    w = place("none", workflows=(m.Workflow("f", "F"),), projects=(m.Project("p", "P"),))
    assert ask(w) == NOT_FOUND
    found = ask(w, table_ids=(), workflow_id="f", project_id="p")
    assert (found["workflow"], found["project"]) == (None, None)


# -- predicates --------------------------------------------------------------------------------


def judged(op: str, operand: Any, cell: Any = "missing") -> bool:
    cells = {} if cell == "missing" else {"f": cell}
    there = m.Table("t", "t", fields=(m.Field("f", "F", "text"),))
    w = place("viewer", there, teams=("g",))
    judge = Judge(Index(w), w.users[0], frozenset({"g"}), NOW)
    test = {"cmp": {"ref": "field:f", "op": op, "operand": operand}}
    return judge.test(test, there)(m.Record("r", cells, NOW))


TODAY = {"now": {"unit": "today"}}


@pytest.mark.parametrize(
    ("op", "operand", "cell", "holds"),
    [
        ("ne", {"literal": "a"}, None, True),
        ("ne", {"literal": "a"}, "missing", True),
        ("eq", {"literal": 1}, "1", False),
        ("eq", {"literal": 1}, 1.0, True),
        ("eq", {"literal": 1}, True, False),
        ("in", {"literal": []}, "a", False),
        ("not_in", {"literal": []}, "a", True),
        ("not_in", {"literal": [None, "b"]}, "a", True),
        ("has_any", {"literal": ["u1"]}, ["u12"], False),
        ("has_any", {"literal": ["u1"]}, "u1", False),
        ("has_any", {"user": "team_ids"}, ["x", "g"], True),
        ("has_none", {"literal": ["a"]}, None, True),
        ("gt", {"literal": 9}, 10, True),
        ("gt", {"literal": "9"}, 10, False),
        ("lt", {"literal": "a"}, "Z", True),
        ("gt", {"literal": 2**53}, 2**53 + 1, True),
        ("text_contains", {"literal": "%"}, "100", False),
        # 10 March, 05:30 in Berlin.
        ("eq", TODAY, "2024-03-10", True),
        ("eq", TODAY, "2024-03-09T23:00:00.000000Z", True),
        ("eq", TODAY, "2024-03-09T22:59:59.999999Z", False),
        ("gte", {"now": {"unit": "week"}}, "2024-03-04", True),
        ("lt", {"now": {"unit": "week"}}, "2024-03-04", False),
        ("eq", {"now": {"unit": "today", "tz": "America/New_York"}}, "2024-03-09", True),
        ("eq", {"now": {"unit": "today", "tz": "Pacific/Kiritimati"}}, "2024-03-10", True),
        ("ne", TODAY, 1, True),
        ("lt", TODAY, 1, False),
    ],
)  # fmt: skip
def test_operators(op: str, operand: Any, cell: Any, holds: bool) -> None:
    """NULL, missing and mistyped cells, and days in their zones."""
    assert judged(op, operand, cell) is holds


@pytest.mark.parametrize(
    "operand",
    [{"now": {"unit": "today", "tz": "Mars/Base"}}, {"user": "name"},
     {"attr": {"table": "nowhere", "keyField": "f", "valueField": "f"}}],
)  # fmt: skip
def test_what_cannot_be_resolved_denies(operand: Any) -> None:
    """Even under a `not`."""
    with pytest.raises(Unresolvable):
        judged("ne", operand)


def test_restrictive_policies_bind_every_way() -> None:
    """And a permissive one opens only the table's, for whom it names."""
    here = [{"type": "role", "id": "viewer"}]
    closed = table(views=(view(),), policies=(m.Policy("p", here, OWN, "restrictive"),))
    given = (grant("none"), grant("viewer", "view:even"))
    assert seen(place("viewer", closed, grants=given))["records"] == 5
    assert seen(place("viewer", closed))["records"] == 5
    assert seen(place("editor", closed))["records"] == 10
    opened = replace(
        closed, policy_default="deny_all", policies=(m.Policy("p", here, EVEN, "permissive"),)
    )
    assert seen(place("viewer", opened))["records"] == 5
    assert seen(place("editor", opened))["records"] == 0


@pytest.mark.parametrize(
    "garbage", [None, "true", 1, {}, {"cmp": {"ref": "field:nowhere", "op": "ne"}}]
)
def test_garbage_denies(garbage: Any) -> None:
    closed = (m.Policy("p", [{"type": "user", "id": "u"}], garbage, "restrictive"),)
    assert seen(place("viewer", table(policies=closed)))["records"] == 0


def test_an_agent_narrows_and_names_nobody_else() -> None:
    """Policies go by the role that is held, the permission by what the agent leaves."""
    agent = (m.Agent("a", "A", "viewer", ("t",)),)
    closed = (m.Policy("p", [{"type": "role", "id": "editor"}], OWN, "restrictive"),)
    found = ask(place("editor", table(policies=closed), agents=agent), agent_stack=("a",))
    assert (found["tables"][0]["permission"], found["tables"][0]["records"]) == ("viewer", 5)
    assert (
        ask(place("editor", table("x"), agents=agent), table_ids=("x",), agent_stack=("a",))
        == NOT_FOUND
    )


def test_a_filter_that_cannot_be_computed_gives_no_rows() -> None:
    """And leaves no count that needs it, unless the table's own way holds everything."""
    dark = view(filter={"where": {"unavailable": "a formula"}})
    given = (grant("viewer", "view:even"),)
    found = ask(place("none", table(views=(dark,)), grants=given), view_id="even")
    assert (found["tables"][0]["records"], found["view"]["records"]) == (
        "unavailable",
        "unavailable",
    )
    found = ask(place("viewer", table(views=(dark,)), grants=given), view_id="even")
    assert (found["tables"][0]["records"], found["view"]["records"]) == (10, "unavailable")


def test_garbage_behind_a_link_that_leads_nowhere_says_nothing() -> None:
    """A view's filter has no such row, and is unreadable for all that."""
    led = m.Field("l", "L", "link", linked_table_id="x")
    here = replace(table(), fields=(*table().fields, led))
    w = place("viewer", here, table("x", trashed=True))
    judge = Judge(Index(w), w.users[0], frozenset(), NOW)

    def asked(pred: object) -> list[bool]:
        passes = judge.test({"linkedAny": {"field": "l", "pred": pred}}, here, sees=lambda *_: True)
        return [passes(record) for record in here.records]

    assert not any(asked(EVEN))
    with pytest.raises(Unresolvable):
        asked(None)
