"""The scope as a whole: what fails, what is absent, and what it all depends on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from context_engine import access, keys, policy
from context_engine.access import Denied, VisibleScope
from context_engine.errors import NotFound
from context_engine.facts import (
    ConversationFacts,
    DialogueFacts,
    Facts,
    MemberFacts,
    MessageFacts,
    OrganizationFacts,
    ProjectFacts,
    TaskFacts,
    TeamFacts,
    WorkflowFacts,
)
from context_engine.keys import Tag
from tests.support.facts import (
    USER,
    WORKSPACE,
    agent,
    at,
    cmp,
    field,
    grant,
    member,
    permission,
    policy_of,
    resolve,
    table,
)

WHO = {keys.EVERYTHING, keys.WORKSPACE, keys.access("u"), keys.user("u"), keys.teams_of("u")}
SHUT = (grant("none"),)


def project(*tables: str, private: bool = False, mine: bool = False) -> ProjectFacts:
    return ProjectFacts(
        id="p", name="P", status="open", due_on=None, private=private, is_member=mine,
        task_table_ids=tables,
    )  # fmt: skip


def task(**more: Any) -> TaskFacts:
    bare = {"project": None, "table_id": None, "record_id": None}
    return TaskFacts(id="k", title="K", status="open", assignee_id=None, due_on=None,
                     **{**bare, **more})  # fmt: skip


TEAM = TeamFacts(id="g", name="G", member_count=3, is_member=True)
ORGANIZATION = OrganizationFacts(id="o", name="O", role="owner")
WORKFLOW = WorkflowFacts(id="f", name="F", status="on")


# -- who asks ----------------------------------------------------------------------------------


def test_everything_of_a_scope_comes_from_the_facts() -> None:
    """Who asks, where, in which role; agents as they stand in the stack."""
    stored: dict[str, Any] = {
        "project": project("t", "gone"), "task": task(project=project()), "team": TEAM,
        "organization": ORGANIZATION, "workflow": WORKFLOW, "agents": (agent(),),
    }  # fmt: skip
    asked = at("t", project_id="p", task_id="k", team_id="g", organization_id="o",
               workflow_id="f", agent_stack=("a",))  # fmt: skip
    scope = resolve(member("editor", table(), **stored), asked)
    assert (scope.user, scope.workspace, scope.role) == (USER, WORKSPACE, "editor")
    assert scope.project == stored["project"]
    assert scope.project_tables == scope.tables
    assert scope.task is not None
    assert (scope.task.facts, scope.task.row_in) == (stored["task"], None)
    assert (scope.team, scope.organization, scope.workflow) == (TEAM, ORGANIZATION, WORKFLOW)
    assert scope.agents == (agent(),)
    assert (scope.conversation, scope.absent, scope.denials) == (
        None, (), (access.Denial(what="table gone", rule="missing or trashed"),),
    )  # fmt: skip
    assert (scope.dialogue_tags, scope.dialogue_told) == (frozenset(), frozenset())


@pytest.mark.parametrize(
    "change",
    [
        {"user": None}, {"workspace": None}, {"member": None},
        {"user": USER.model_copy(update={"active": False})},
        {"member": MemberFacts(role="admin", active=False)},
    ],
)  # fmt: skip
def test_who_is_no_active_member_is_told_of_no_workspace(change: dict[str, Any]) -> None:
    """Not as a denial, which could be kept: nothing is kept for who is no member."""
    with pytest.raises(NotFound, match=r"^workspace 'w' was not found") as refused:
        resolve(member("admin", table()).model_copy(update=change), at("t"))
    assert not isinstance(refused.value, Denied)


def test_a_scope_depends_on_who_asks_and_on_the_users_teams() -> None:
    """Whatever is asked for."""
    scope = resolve(member("viewer", team_ids=("g", "h")), at())
    assert scope.tags == scope.told == WHO | {keys.team("g"), keys.team("h")}


# -- what fails --------------------------------------------------------------------------------


def denied(facts: Facts, asked: Any, **more: Any) -> Denied:
    with pytest.raises(Denied) as refused:
        resolve(facts, asked, **more)
    return refused.value


def test_a_table_that_is_denied_takes_its_dependencies_along() -> None:
    """As one that is missing does: the grant, the table, its rows and what links to it."""
    asks = WHO | {keys.views("t"), keys.links_to("t"), keys.schema("t"), keys.rows("t")}
    for facts in (member("viewer"), member("viewer", table(), grants=SHUT)):
        error = denied(facts, at("t"))
        assert (str(error), error.tags) == (str(NotFound("table", "t")), asks)


def test_every_agent_of_the_stack_must_be_there() -> None:
    """For a VIEWER or more; the stack is a dependency, in sight or not."""
    there = member("viewer", agents=(agent(),))
    scope = resolve(there, at(agent_stack=("a",)))
    assert scope.agents == (agent(),)
    assert keys.agent("a") in scope.told
    for facts, stack in ((there, ("a", "b")), (member("none", agents=(agent(),)), ("a",))):
        error = denied(facts, at(agent_stack=stack))
        assert str(error) == str(NotFound("agent", stack[-1]))
        assert error.tags == WHO | {keys.agent(one) for one in stack}


ABSENT = {
    "table_ids": ("tableIds", "table"), "view_id": ("viewId", "view"),
    "project_id": ("projectId", "project"), "task_id": ("taskId", "task"),
    "team_id": ("teamId", "team"), "organization_id": ("organizationId", "organization"),
    "workflow_id": ("workflowId", "workflow"),
}  # fmt: skip


@pytest.mark.parametrize("name", ABSENT)
def test_strict_makes_every_coordinate_fatal_that_was_asked_for(name: str) -> None:
    """An inherited one is left out; without `strict` it is listed, but for a table."""
    listed, kind = ABSENT[name]
    asked = at("z") if name == "table_ids" else at(**{name: "z"})
    error = denied(member("viewer"), asked, strict=True)
    assert str(error) == str(NotFound(kind, "z"))
    kept = resolve(member("viewer"), asked, strict=True, inherited=frozenset({name}))
    assert [(one.coordinate, one.id) for one in kept.absent] == [(listed, "z")]
    assert error.tags == kept.tags
    assert access.settle(kept.absent, frozenset({name}), tags=kept.tags) == ()
    if name == "table_ids":
        assert str(denied(member("viewer"), asked)) == str(error)
    else:
        scope = resolve(member("viewer"), asked)
        assert access.settle(scope.absent, frozenset(), tags=scope.tags) == scope.absent
        assert (f"{kind} z", "missing or out of sight") in [(d.what, d.rule) for d in scope.denials]


def test_what_is_absent_is_listed_in_one_order() -> None:
    """Whatever was found first; inherited ones before and after are left out by themselves."""
    asked = at("z", **{name: "z" for name in reversed(ABSENT) if name != "table_ids"})
    scope = resolve(member("viewer"), asked, inherited=frozenset({"table_ids", "task_id"}))
    assert [one.coordinate for one in scope.absent] == [name for name, _ in ABSENT.values()]
    left = access.settle(scope.absent, frozenset({"table_ids", "task_id"}), tags=scope.tags)
    assert [one.coordinate for one in left] == [
        "viewId", "projectId", "teamId", "organizationId", "workflowId",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (member("viewer"), "missing or trashed"),
        (member("viewer", table(), agents=(agent(tables=()),)), "agent stack"),
        (member("viewer", table(), grants=SHUT), "role none"),
        (member("viewer", table(), grants=SHUT, agents=(agent(tables=("t",)),)), "role none"),
        (member("defer", table(field_permissions=(permission("f", "none"),)),
                grants=(grant("viewer", "workspace:w"),)),
         "no field in sight, or the agents have no role"),
        (member("viewer", table(), agents=(agent("none"),)),
         "no field in sight, or the agents have no role"),
    ],
)  # fmt: skip
def test_operators_are_told_why_a_table_is_out_of_sight(facts: Facts, rule: str) -> None:
    """Once; the answer is the same."""
    scope = resolve(facts, at("t"), inherited=frozenset({"table_ids"}))
    assert [(one.what, one.rule) for one in scope.denials] == [("table t", rule)]
    named = facts.model_copy(update={"named": ("t",), "tables": ()})
    if rule == "role none":
        scope = access.resolve(named, at("t"), inherited=frozenset({"table_ids"}))
        assert [one.rule for one in scope.denials] == ["role none"]


# -- projects and tasks ------------------------------------------------------------------------

ONLY = (
    ("viewer", False, False, True), ("none", False, True, False), ("none", False, False, False),
    ("admin", True, False, False), ("none", True, True, True),
)  # fmt: skip


@pytest.mark.parametrize(("role", "private", "mine", "seen"), ONLY)
def test_a_project_is_for_viewers_or_for_its_members(
    role: Any, private: bool, mine: bool, seen: bool
) -> None:
    """So are the tables of its tasks, and a task of it."""
    given = project("t", private=private, mine=mine)
    facts = member(role, table(), grants=(grant("viewer"),), project=given,
                   task=task(project=given))  # fmt: skip
    scope = resolve(facts, at(project_id="p", task_id="k"))
    assert (scope.project == given) is seen
    assert ([one.id for one in scope.project_tables] == ["t"]) is seen
    assert (scope.task is not None) is seen
    missing = [] if seen else [("projectId", "p"), ("taskId", "k")]
    assert [(one.coordinate, one.id) for one in scope.absent] == missing
    asked = {keys.project("p"), keys.tasks_of("p"), keys.task("k")}
    rows = {keys.schema("t"), keys.rows("t")} if seen else set()
    assert scope.told == WHO | asked | rows
    assert scope.tags == scope.told


def test_the_tables_of_a_project_are_those_in_sight() -> None:
    """Only of the project asked for."""
    facts = member("viewer", table(), table("x"), grants=SHUT, project=project("t", "x"))
    scope = resolve(facts, at(project_id="p"))
    assert [one.id for one in scope.project_tables] == ["x"]
    assert keys.rows("x") in scope.told
    assert keys.rows("t") in scope.tags - scope.told
    for asked in (at(), at(project_id="q")):
        assert resolve(facts, asked).project_tables == ()
    assert resolve(facts, at()).project is None


@pytest.mark.parametrize(
    ("role", "stored", "seen"),
    [
        ("viewer", {}, True),
        ("none", {}, False),
        ("viewer", {"table_id": "t"}, True),
        ("none", {"table_id": "t"}, True),
        ("viewer", {"table_id": "x"}, False),
        ("viewer", {"table_id": "gone"}, False),
        ("none", {"table_id": "t", "project": project(private=True, mine=True)}, True),
        ("viewer", {"table_id": "x", "project": project()}, False),
        ("viewer", {"table_id": "t", "project": project(private=True)}, False),
    ],
)
def test_a_task_is_in_sight_with_its_project_and_the_table_of_its_row(
    role: Any, stored: dict[str, Any], seen: bool
) -> None:
    """Without either the role decides."""
    given = (grant("viewer"), grant("none", "table:x"))
    facts = member(role, table(), table("x"), grants=given, task=task(**stored))
    scope = resolve(facts, at(task_id="k"))
    assert (scope.task is not None) is seen
    if scope.task is not None:
        there = scope.task.row_in
        assert (there.id if there else None) == stored.get("table_id")
        rows: set[Tag] = {keys.schema("t"), keys.rows("t")} if there else set()
        of = {keys.project("p")} if "project" in stored else set()
        assert scope.task.told == rows | of
    assert scope.told == WHO | {keys.task("k")}
    if "project" in stored:
        assert keys.project("p") in scope.tags
    if "table_id" in stored:
        assert keys.rows(stored["table_id"]) in scope.tags


# -- teams, organizations, workflows ------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "mine", "seen"),
    [
        ("viewer", True, True),
        ("builder", False, False),
        ("admin", False, True),
        ("none", True, True),
    ],
)
def test_a_team_is_for_its_members_and_admins(role: Any, mine: bool, seen: bool) -> None:
    """Its tag is told either way."""
    there = TEAM.model_copy(update={"is_member": mine})
    for team, found in ((there, there if seen else None), (None, None)):
        scope = resolve(member(role, team=team), at(team_id="g"))
        assert scope.team == found
        assert [one.coordinate for one in scope.absent] == ([] if found else ["teamId"])
        assert scope.tags == scope.told == WHO | {keys.team("g")}
    assert resolve(member(role, team=there), at()).team is None


@pytest.mark.parametrize(
    ("organization", "seen"),
    [
        (ORGANIZATION, True),
        (ORGANIZATION.model_copy(update={"role": None}), False),
        (ORGANIZATION.model_copy(update={"id": "other"}), False),
        (None, False),
    ],
)
def test_an_organization_is_for_its_members_in_its_workspaces(
    organization: OrganizationFacts | None, seen: bool
) -> None:
    """Whatever the role here: it gives no right, and takes none."""
    scope = resolve(member("none", organization=organization), at(organization_id="o"))
    assert (scope.organization is not None) is seen
    assert [one.coordinate for one in scope.absent] == ([] if seen else ["organizationId"])
    assert scope.tags == scope.told == WHO | {keys.organization("o")}
    assert resolve(member("none", organization=organization), at()).organization is None


def test_a_workflow_is_for_viewers() -> None:
    """By the role in the workspace; absent alike where there is none."""
    for role, stored, seen in (("viewer", WORKFLOW, True), ("none", WORKFLOW, False),
                               ("admin", None, False)):  # fmt: skip
        scope = resolve(member(role, workflow=stored), at(workflow_id="f"))
        assert (scope.workflow is not None) is seen
        assert [one.coordinate for one in scope.absent] == ([] if seen else ["workflowId"])
        assert scope.tags == scope.told == WHO | {keys.workflow("f")}
    assert resolve(member("viewer", workflow=WORKFLOW), at()).workflow is None


def test_agents_narrow_what_is_a_members_by_membership() -> None:
    """One that may do nothing sees nothing; one that may look changes nothing."""
    stored: dict[str, Any] = {
        "project": project(private=True, mine=True), "team": TEAM, "organization": ORGANIZATION,
    }  # fmt: skip
    asked = at(project_id="p", team_id="g", organization_id="o", agent_stack=("a",))
    for max_role, seen in (("viewer", True), ("none", False)):
        scope = resolve(member("admin", agents=(agent(max_role),), **stored), asked)
        found = (scope.project, scope.team, scope.organization)
        assert [one is not None for one in found] == [seen] * 3
        assert scope.role == max_role


# -- the conversation ---------------------------------------------------------------------------


def talk(*tables: str, mine: bool = True) -> ConversationFacts:
    """A tool ran over each of the tables in turn."""
    messages = tuple(
        MessageFacts(id=f"m{n}", role="tool", author_id=None, content="", chars=0,
                     table_ids=(one,), at=datetime(2026, 1, 1, tzinfo=UTC))
        for n, one in enumerate(tables)
    )  # fmt: skip
    return ConversationFacts(
        id="c", title="C", is_participant=mine, dialogue=DialogueFacts(messages=messages)
    )


OWN = keys.conversation("c")


def test_a_conversation_is_for_its_participants() -> None:
    """Missing and forbidden are fatal alike; inherited, it is left out with its own tag."""
    for found in (talk(mine=False), None):
        facts = member("viewer", conversation=found)
        error = denied(facts, at(conversation_id="c"))
        assert (str(error), error.tags) == (str(NotFound("conversation", "c")), WHO | {OWN})
        scope = resolve(facts, at(conversation_id="c"), inherited=frozenset({"conversation_id"}))
        assert scope.conversation is None
        assert scope.dialogue_tags == scope.dialogue_told == {OWN}
        assert [(one.what, one.rule) for one in scope.denials] == [
            ("conversation c", "missing or no participant")
        ]
        assert scope.tags == WHO


def seen_talk(scope: VisibleScope) -> Any:
    assert scope.conversation is not None
    return scope.conversation


def test_a_conversation_holds_the_rights_on_what_its_tools_ran_over() -> None:
    """Of tables in sight; what it depends on is the dialogue's alone."""
    given = (grant("none", "table:x"),)
    facts = member("viewer", table(), table("x"), grants=given,
                   conversation=talk("x", "t", "gone", "t"))  # fmt: skip
    scope = resolve(facts, at(conversation_id="c"))
    rights = {"t": resolve(facts, at("t")).tables[0].rights}
    assert (seen_talk(scope).rights, seen_talk(scope).user_id) == (rights, "u")
    assert seen_talk(scope).facts == facts.conversation
    assert scope.tags == scope.told == WHO
    told = {OWN, keys.rows("t")} | {keys.schema(id) for id in ("t", "x", "gone")}
    assert scope.dialogue_told == told
    assert scope.dialogue_tags == told | {keys.rows("x"), keys.rows("gone")}
    assert [one.what for one in scope.denials] == ["table gone", "table x"]


def test_a_rule_over_days_leaves_the_rights_what_they_are() -> None:
    """Other rows are in sight tomorrow, under the same rights."""
    dated = policy_of(cmp("f", "lte", now={"unit": "today", "tz": "UTC"}))
    facts = member("viewer", table(policies=(dated,)), conversation=talk("t"))
    for now in (datetime(2026, 1, 7, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC)):
        scope = resolve(facts, at("t", conversation_id="c"), now=now)
        assert seen_talk(scope).rights == {"t": scope.tables[0].rights}
    assert resolve(facts, at("t")).tables[0].rights == scope.tables[0].rights


def test_what_a_rule_of_such_a_table_reads_is_the_dialogues_dependency() -> None:
    """Not the surface's, unless the table is asked for too."""
    stored = table(policies=(policy_of(cmp("f")),))
    facts = member("viewer", stored, conversation=talk("t"))
    scope = resolve(facts, at(conversation_id="c"))
    assert keys.value("t", "f") in scope.dialogue_tags - scope.tags
    both = resolve(facts, at("t", conversation_id="c"))
    assert keys.value("t", "f") in both.tags
    attr = {"table": "staff", "keyField": "mail", "valueField": "region"}
    asks = table(policies=(policy_of(cmp("f", "in", attr=attr)),))
    staff = table("staff", field("mail"), field("region"))
    shut = (grant("none", "table:staff"),)
    facts = member("viewer", asks, staff, conversation=talk("t"), grants=shut)
    hidden = resolve(facts, at(conversation_id="c"))
    assert keys.value("staff", "mail") in hidden.dialogue_tags - hidden.dialogue_told


@pytest.mark.parametrize(("named", "reads"), [("viewer", True), ("editor", False)])
def test_rights_are_other_ones_by_what_rules_for_the_user_find_and_no_others(
    named: str, reads: bool
) -> None:
    """What rights depend on takes back the dialogue; what does not may change without a word."""
    attr = {"table": "staff", "keyField": "mail", "valueField": "region"}
    asks = table(policies=(policy_of(cmp("f", "in", attr=attr), "restrictive", f"role:{named}"),))
    staff = table("staff", field("mail"), field("region"))
    facts = member("viewer", asks, staff, conversation=talk("t"))
    lookup = policy.AttrLookup(table="staff", key_field="mail", value_field="region")
    found = [
        resolve(facts, at(conversation_id="c"), attributes={lookup: (one,)}) for one in ("a", "b")
    ]
    before, after = (seen_talk(scope).rights["t"] for scope in found)
    assert (before != after) is reads
    assert (keys.value("staff", "region") in found[0].dialogue_tags) is reads


@pytest.mark.parametrize(
    ("on_behalf_of", "tables", "ran", "shown"),
    [
        ("u", ("t",), "same", True),
        ("u", (), "same", True),
        ("x", ("t",), "same", False),
        (None, (), "same", False),
        ("u", ("t",), "other", False),
        ("u", ("t",), "none", False),
        ("u", ("t", "x"), "same", False),
    ],
)
def test_a_tools_content_is_for_whom_it_ran_under_todays_rights(
    on_behalf_of: str | None, tables: tuple[str, ...], ran: str, shown: bool
) -> None:
    """On every table that it ran over."""
    scope = resolve(member("viewer", table(), conversation=talk("t")), at(conversation_id="c"))
    found = seen_talk(scope)
    then = {"same": dict(found.rights), "other": {"t": "x"}, "none": {}}[ran]
    assert found.shows(on_behalf_of, tables, then) is shown


# -- one maker ---------------------------------------------------------------------------------


def test_nothing_in_sight_is_made_elsewhere() -> None:
    """Not by the constructor, and not by changing what was made with another token."""
    scope = resolve(member("viewer", table()), at("t"))
    for one in (scope, scope.tables[0], scope.tables[0].ways[0]):
        assert replace(one) == one
        with pytest.raises(TypeError, match=rf"^{type(one).__name__} is made by context_engine"):
            replace(one, maker=object())
