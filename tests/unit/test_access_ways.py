"""Ways into tables: by which role each is held, whom it lets in, and which tables it leads to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from context_engine import access, policy
from context_engine.access import higher, lower
from context_engine.access.roles import held_on
from context_engine.errors import NotFound
from context_engine.facts import (
    ConversationFacts,
    DialogueFacts,
    Facts,
    MemberFacts,
    MessageFacts,
    ProjectFacts,
    TaskFacts,
    ViewHead,
)
from tests.support.facts import (
    USER,
    agent,
    at,
    field,
    grant,
    member,
    only_table,
    permission,
    policy_of,
    read,
    resolve,
    table,
    view,
)

ROLES = ("none", "viewer", "commenter", "editor", "builder", "admin")
OPENED = view("v", "restricted")


def ways(facts: Facts, id: str = "t") -> list[tuple[str | None, str, str]]:
    """(view, role held, role left by the agents) of every way into a table."""
    return [(way.view_id, way.held, way.role) for way in only_table(facts, id).ways]


# -- roles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ROLES)
@pytest.mark.parametrize("other", ROLES)
def test_roles_have_one_order(one: Any, other: Any) -> None:
    """The lower and the higher of two are those two, in this order."""
    first, second = sorted((one, other), key=ROLES.index)
    assert (lower(one, other), higher(one, other)) == (first, second)
    assert (lower(other, one), higher(other, one)) == (first, second)


@pytest.mark.parametrize("role", ROLES[1:])
def test_every_role_but_none_lets_in(role: str) -> None:
    """By itself, as the table's own way."""
    assert ways(member(role, table())) == [(None, role, role)]
    with pytest.raises(NotFound):
        only_table(member("none", table()))


@pytest.mark.parametrize(
    ("grants", "role"),
    [
        ((grant("editor", subject="team:g"), grant("viewer", subject="team:h")), "editor"),
        ((grant("viewer", subject="team:h"), grant("editor", subject="team:g")), "editor"),
        ((grant("editor", subject="team:g"), grant("viewer")), "viewer"),
        ((grant("viewer"), grant("editor", subject="team:g")), "viewer"),
        ((grant("commenter", "workspace:w"), grant("viewer", subject="team:g")), "viewer"),
        ((grant("admin", "table:x"), grant("admin", "view:t")), "builder"),
        ((grant("admin", "workspace:t"), grant("admin", "workspace:x")), "builder"),
        ((grant("none", subject="team:g"), grant("viewer", subject="team:h")), "viewer"),
    ],
)  # fmt: skip
def test_the_role_on_a_table(grants: tuple[Any, ...], role: str) -> None:
    """Scope before subject, own over teams', teams united; grants elsewhere say nothing."""
    facts = member("builder", table(), grants=grants, team_ids=("g", "h"))
    assert ways(facts) == [(None, role, role)]


@pytest.mark.parametrize(
    ("grants", "role"),
    [((), "builder"), ((grant("editor"),), "editor"), ((grant("none"),), "none"),
     ((grant("admin", "view:v"),), "builder")],
)  # fmt: skip
def test_the_own_role_is_that_of_the_own_way(grants: tuple[Any, ...], role: str) -> None:
    """By the first reading alone: of a table that is live, for an active member, as agents leave
    it."""
    facts = member("builder", table(), grants=grants).model_copy(
        update={"tables": (), "named": ("t",)}
    )
    assert access.own_role(facts, "w", "t") == role
    assert access.own_role(facts, "w", "gone") == "none"
    assert access.own_role(facts.model_copy(update={"member": None}), "w", "t") == "none"
    left_to_teams = {"member": MemberFacts(role="defer", active=True), "team_ids": ("g",),
                     "grants": (*grants, grant("commenter", "workspace:w", "team:g"))}  # fmt: skip
    by_team = "commenter" if role == "builder" else role
    assert access.own_role(facts.model_copy(update=left_to_teams), "w", "t") == by_team
    narrow = facts.model_copy(update={"agents": (agent("viewer"),)})
    assert access.own_role(narrow, "w", "t") == lower(role, "viewer")  # type: ignore[arg-type]


def test_a_role_of_ones_own_on_the_workspace_needs_no_grant() -> None:
    """Grants on it count for who defers to teams; with none of them there is no role."""
    opened = (grant("editor", "workspace:w", "team:g"), grant("admin", "workspace:x", "team:g"))
    assert resolve(member("viewer", table(), grants=opened), at()).role == "viewer"
    assert resolve(member("defer", table(), grants=opened), at()).role == "editor"
    assert resolve(member("defer", table()), at()).role == "none"


# -- agents ------------------------------------------------------------------------------------


def test_agents_lower_the_role_and_not_what_it_is_held_by() -> None:
    """Policies and field permissions name the role that is held."""
    facts = member("builder", table(), agents=(agent("editor"), agent("viewer"), agent("admin")))
    assert ways(facts) == [(None, "builder", "viewer")]


def test_an_agent_without_a_role_lets_nobody_in() -> None:
    """Neither by the table nor by a granted view."""
    stored = table(views=(OPENED,))
    facts = member("admin", stored, grants=(grant("editor", "view:v"),), agents=(agent("none"),))
    with pytest.raises(NotFound):
        only_table(facts)


def test_a_table_that_agents_are_kept_from_keeps_them_from_no_other() -> None:
    """Wherever it stands; a table goes by its own name."""
    named = table("x").model_copy(update={"name": "Named"})
    facts = member("viewer", table(), named, table("y"), agents=(agent(tables=("x",)),))
    assert [one.name for one in resolve(facts, at("x")).tables] == ["Named"]


def test_every_agent_must_be_let_to_the_table() -> None:
    """One that names no tables may look at all, one that names none at nothing."""
    wide, narrow = agent(), agent(tables=("x", "t"))
    assert ways(member("viewer", table(), agents=(wide, narrow)))
    for barred in (agent(tables=("x",)), agent(tables=())):
        with pytest.raises(NotFound):
            only_table(member("viewer", table(), agents=(wide, barred)))


# -- granted views -----------------------------------------------------------------------------


def test_a_granted_view_is_a_way_of_its_own() -> None:
    """Beside the table's, or alone; held by the grant, narrowed by the agents."""
    stored = table(views=(view("c"), OPENED, view("r", "restricted")))
    given = (grant("editor", "view:v"), grant("admin", "view:c"))
    facts = member("viewer", stored, grants=given)
    assert ways(facts) == [(None, "viewer", "viewer"), ("v", "editor", "editor")]
    shut = (*given, grant("none"))
    alone = member("viewer", stored, grants=shut, agents=(agent("commenter"),))
    assert ways(alone) == [("v", "editor", "commenter")]
    assert only_table(alone).permission == "views"
    assert only_table(facts).permission == "viewer"


def test_a_view_grant_is_the_users_own_before_the_teams() -> None:
    """As at any scope; NONE is no way."""
    stored = table(views=(OPENED,))
    team = grant("admin", "view:v", "team:g")
    own = member("none", stored, grants=(team, grant("viewer", "view:v")), team_ids=("g",))
    assert ways(own) == [("v", "viewer", "viewer")]
    with pytest.raises(NotFound):
        only_table(member("none", stored, grants=(team, grant("none", "view:v"))))


def test_the_own_way_is_the_one_without_a_view() -> None:
    """None where only views are in sight."""
    stored = table(views=(OPENED,))
    both = only_table(member("viewer", stored, grants=(grant("editor", "view:v"),)))
    assert both.own_way == both.ways[0]
    alone = only_table(member("none", stored, grants=(grant("editor", "view:v"),)))
    assert alone.own_way is None


# -- which views are in sight ------------------------------------------------------------------

SEEN = [
    ("viewer", view("v"), True),
    ("none", view("v"), False),
    ("viewer", view("v", "personal", owner_id="u"), True),
    ("viewer", view("v", "personal", owner_id="x"), False),
    ("admin", view("v", "personal", owner_id=None), False),
    ("builder", OPENED, False),
    ("admin", OPENED, True),
    ("admin", view("v", "locked"), False),
]


@pytest.mark.parametrize(("role", "one", "seen"), SEEN)
def test_a_view_is_in_sight_by_its_ownership(role: str, one: Any, seen: bool) -> None:
    """`none` here has a way through another view, and so the table but none of its own."""
    other = view("other", "restricted")
    given = (grant("viewer", "view:other"),) if role == "none" else ()
    found = only_table(member(role, table(views=(one, other)), grants=given))
    assert ("v" in [view.facts.id for view in found.views]) is seen


def test_none_on_a_view_hides_it_and_takes_nothing_else() -> None:
    """From ADMINs too; a team's NONE gives way to a grant of one's own."""
    for one in (view("v"), OPENED, view("v", "personal", owner_id="u")):
        found = only_table(member("admin", table(views=(one,)), grants=(grant("none", "view:v"),)))
        assert found.views == ()
        assert found.permission == "admin"
    team = grant("none", "view:v", "team:g")
    facts = member("viewer", table(views=(OPENED,)), grants=(team, grant("viewer", "view:v")))
    assert [one.facts.id for one in only_table(facts).views] == ["v"]


def test_a_granted_view_that_shows_no_field_is_out_of_sight() -> None:
    """Where the table is in sight by another view; by its own way it is presentation."""
    views = (view("v", "restricted", hidden=("f",)), view("z", "restricted"))
    given = (grant("viewer", "view:v"), grant("viewer", "view:z"))
    for more, seen in (((grant("none"),), ["z"]), ((), ["v", "z"])):
        found = only_table(member("viewer", table(views=views), grants=(*given, *more)))
        assert [one.facts.id for one in found.views] == seen


# -- which tables are read ---------------------------------------------------------------------


def reached(facts: Facts, **more: Any) -> tuple[str, ...]:
    return access.reach(facts.model_copy(update=more), at())


def test_a_right_leads_into_the_tables_that_are_read() -> None:
    """By the role on each, or by a grant above NONE on a view of it; in the order named."""
    given = (
        grant("none", "table:x"),
        grant("viewer", "view:v").model_copy(update={"table_id": "y"}),
        grant("none", "view:z").model_copy(update={"table_id": "x"}),
        grant("editor", "table:z").model_copy(update={"table_id": "x"}),
    )
    facts = member("viewer", grants=given, named=("t", "x", "y"))
    assert reached(facts) == ("t", "y")
    nobody = facts.model_copy(update={"member": MemberFacts(role="none", active=True)})
    assert reached(nobody) == ("y",)
    assert reached(facts, agents=(agent(tables=("y",)),)) == ("y",)
    assert reached(facts, agents=(agent("none"),)) == ()


def test_a_missing_table_takes_the_steps_of_one_out_of_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever measures time learns nothing: the role on it is looked up as on any other."""
    asked: list[str] = []

    def held(facts: Facts, workspace_id: str, table_id: str) -> str:
        asked.append(table_id)
        return held_on(facts, workspace_id, table_id)

    monkeypatch.setattr("context_engine.access.ways.held_on", held)
    facts = member("viewer", grants=(grant("none"),), named=("t", "x"))
    assert access.reach(facts, at("t", "gone", "t")) == ("x",)
    assert asked == ["t", "gone", "x"]


@pytest.mark.parametrize(
    "change",
    [
        {"user": None},
        {"user": USER.model_copy(update={"active": False})},
        {"workspace": None},
        {"member": None},
        {"member": MemberFacts(role="admin", active=False)},
    ],
)
def test_nothing_is_read_for_who_is_no_active_member(change: dict[str, Any]) -> None:
    """Whatever is granted."""
    facts = member("admin", named=("t",), grants=(grant("admin"),))
    assert reached(facts) == ("t",)
    assert reached(facts, **change) == ()


@pytest.mark.parametrize(("role", "one", "seen"), SEEN)
def test_the_table_of_the_requested_view_is_read_where_the_view_is_in_sight(
    role: str, one: Any, seen: bool
) -> None:
    """Else it takes the steps of a view that is missing. Once, if it is named as well."""
    head = ViewHead(id="v", table_id="t", ownership=one.ownership, owner_id=one.owner_id)
    facts = member(role, view=head)
    assert reached(facts) == (("t",) if seen else ())
    assert reached(facts, named=("t",)) == (("t",) if role != "none" else ())
    hidden = (grant("none", "view:v"),)
    assert reached(facts, grants=hidden) == ()


def test_the_role_on_each_table_decides_what_is_read() -> None:
    """That left to teams on the workspace as well; of a view's table it is the role on that."""
    opened = (grant("viewer", "workspace:w", "team:g"),)
    assert reached(member("defer", named=("t",), grants=opened)) == ("t",)
    head = ViewHead(id="v", table_id="t", ownership="collaborative", owner_id=None)
    assert reached(member("none", view=head, grants=(grant("viewer"),))) == ("t",)
    assert reached(member("viewer", view=head, grants=(grant("none"),))) == ()


def test_a_way_through_the_requested_view_leads_to_its_table() -> None:
    """For who has no role on it."""
    head = ViewHead(id="v", table_id="t", ownership="restricted", owner_id=None)
    through = grant("viewer", "view:v").model_copy(update={"table_id": "t"})
    assert reached(member("none", view=head, grants=(through,))) == ("t",)
    assert reached(member("none", view=head)) == ()
    assert reached(member("none", view=head, grants=(through,), agents=(agent(tables=()),))) == ()


# -- rights ------------------------------------------------------------------------------------

BASE = member(
    "editor",
    table("t", field("f"), field("g"), views=(OPENED,), policies=()),
    grants=(grant("viewer", "view:v"),),
    team_ids=("g", "h"),
)


def with_table(**more: Any) -> Facts:
    return BASE.model_copy(update={"tables": (BASE.tables[0].model_copy(update=more),)})


@pytest.mark.parametrize(
    "other",
    [
        with_table(policy_default="deny_all"),
        with_table(policies=(policy_of(True),)),
        with_table(policies=(policy_of(False),)),
        with_table(views=(view("v", "restricted", hidden=("gone",)),)),
        BASE.model_copy(
            update={
                "tables": with_table(views=(view("z", "restricted"),)).tables,
                "grants": (grant("viewer", "view:z"),),
            }
        ),
        with_table(field_permissions=(permission("g", "none"),)),
        with_table(views=(view("v", "restricted", hidden=("g",)),)),
        with_table(views=(view("v", "restricted", filter=False),)),
        BASE.model_copy(update={"team_ids": ("g",)}),
        BASE.model_copy(update={"grants": (grant("editor", "view:v"),)}),
        BASE.model_copy(update={"grants": ()}),
        BASE.model_copy(update={"agents": (agent("viewer"),)}),
    ],
)
def test_other_rights_have_another_digest(other: Facts) -> None:
    """A tool's result is shown only under the rights it ran under."""
    assert only_table(other).rights != only_table(BASE).rights


ONE, TWO = (policy.AttrLookup(table="x", key_field="k", value_field=v) for v in ("a", "b"))


def asks(lookup: policy.AttrLookup) -> dict[str, Any]:
    """A predicate that asks for an attribute of the user."""
    operand = {"attr": lookup.model_dump(mode="json", by_alias=True)}
    return {"cmp": {"ref": "field:f", "op": "in", "operand": operand}}


def test_what_attributes_say_of_the_user_is_a_right() -> None:
    """Which was asked for, and what was found, by policies and by boundaries."""
    found = [{ONE: ("north",)}, {ONE: ("south",)}, {TWO: ("north",)}, {ONE: ()}, {}]
    for facts in (
        with_table(policies=(policy_of(asks(ONE)), policy_of(asks(TWO)))),
        with_table(views=(view("v", "restricted", filter={"any": [asks(ONE), asks(TWO)]}),)),
    ):
        digests = {resolve(facts, at("t"), attributes=each).tables[0].rights for each in found}
        assert len(digests) == len(found)


def test_what_rules_elsewhere_ask_is_no_right() -> None:
    """A request that is about more than the tool was finds the same rights."""
    one = with_table(policies=(policy_of(asks(ONE)),))
    found = [{ONE: ("north",)}, {ONE: ("north",), TWO: ("south",)}]
    digests = {resolve(one, at("t"), attributes=each).tables[0].rights for each in found}
    assert len(digests) == 1


def test_equal_rights_have_one_digest() -> None:
    """Names, order of teams and a view's order of fields change nothing."""
    for other in (
        BASE.model_copy(update={"team_ids": ("h", "g")}),
        with_table(name="Other"),
        with_table(views=(view("v", "restricted", field_order=("g",)),)),
    ):
        assert only_table(other).rights == only_table(BASE).rights
    assert only_table(BASE).rights == only_table(read(BASE, at("t"))).rights


def test_rights_are_kept_by_tool_messages() -> None:
    """Another spelling of the same rights withholds what a tool has found."""
    kept = "d99ee377167b8b409102e0192c41413a51ef07b7312b143adc1d25071ce91d42"
    assert only_table(BASE).rights == kept


def test_rights_are_told_of_the_tables_asked_for() -> None:
    """As a tool message stores them."""
    scope = resolve(member("viewer", table(), table("x")), at("t", "x"))
    assert access.rights_of(scope, ["x", "gone"]) == {"x": scope.tables[1].rights}


@pytest.mark.parametrize(
    ("more", "come_to"),
    [
        ({}, ("t",)),
        ({"project": (False, False)}, ("t", "of-project")),
        ({"project": (True, True)}, ("t", "of-project")),
        ({"project": (True, False)}, ("t",)),
        ({"project": (False, False), "role": "none"}, ("t",)),
        ({"project": (True, True), "role": "none"}, ("t", "of-project")),
        ({"project": (True, True), "agent": "none"}, ("t",)),
        ({"task": None}, ("t", "of-task")),
        ({"task": (True, True)}, ("t", "of-task")),
        ({"task": (True, False)}, ("t",)),
        ({"task": (False, False)}, ("t", "of-task")),
        ({"task": (False, False), "role": "none"}, ("t",)),
        ({"task": (False, False), "role": "defer"}, ("t",)),
        ({"task": (False, False), "role": "defer", "by_team": "viewer"}, ("t", "of-task")),
        ({"project": (False, False), "role": "defer", "by_team": "viewer"}, ("t", "of-project")),
        ({"talk": True}, ("t", "of-talk")),
        ({"talk": False}, ("t",)),
    ],
    ids=str,
)
def test_a_request_comes_to_no_table_by_what_is_out_of_sight(
    more: dict[str, Any], come_to: tuple[str, ...]
) -> None:
    """Else it would take other steps than for what is missing."""

    def project(private: bool, mine: bool) -> ProjectFacts:
        return ProjectFacts(
            id="p", name="P", status="open", due_on=None, private=private, is_member=mine,
            task_table_ids=("of-project",),
        )  # fmt: skip

    ran = MessageFacts(
        id="m", role="tool", author_id=None, content="", chars=0, table_ids=("of-talk",),
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    facts = member(more.get("role", "viewer")).model_copy(
        update={
            "named": ("t", "of-project", "of-task", "of-talk"),
            "agents": (agent(more["agent"]),) if "agent" in more else (),
            "grants": (grant(more.get("by_team", "none"), "workspace:w", "team:g"),),
            "project": project(*more["project"]) if "project" in more else None,
            "task": TaskFacts(
                id="k", title="K", status="open", table_id="of-task", record_id="r",
                project=project(*more["task"]) if more["task"] is not None else None,
                assignee_id=None, due_on=None,
            )
            if "task" in more
            else None,
            "conversation": ConversationFacts(
                id="c", title="C", is_participant=more["talk"],
                dialogue=DialogueFacts(messages=(ran,)),
            )
            if "talk" in more
            else None,
        }
    )  # fmt: skip
    assert access.led_to(facts, at("t")).named == come_to
