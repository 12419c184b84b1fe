"""Who may see what: resolution over facts, without I/O."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from context_engine import access, keys, policy
from context_engine.errors import NotFound
from context_engine.facts import (
    AgentFacts,
    ConversationFacts,
    DialogueFacts,
    Facts,
    FieldFacts,
    GrantFacts,
    MemberFacts,
    MessageFacts,
    OrganizationFacts,
    PolicyFacts,
    ProjectFacts,
    TableFacts,
    TaskFacts,
    TeamFacts,
    UserFacts,
    ViewFacts,
    WorkspaceFacts,
)
from context_engine.keys import Coordinates
from tests.support.facts import resolve

USER = UserFacts(
    id="u", name="Ulla", email_norm="u@example.org", locale=None, timezone=None, active=True
)
WORKSPACE = WorkspaceFacts(id="w", name="Work", organization_id="o")
OWN = {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}}


RAN = MessageFacts(
    id="m", role="tool", author_id=None, content="found", chars=5, tool_call_id="x",
    on_behalf_of="u", table_ids=("t",), at=datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip
TALK = ConversationFacts(
    id="c", title="C", is_participant=True, dialogue=DialogueFacts(messages=(RAN,))
)
"""A conversation in whose tail a tool ran over the table `t`."""


def view(id: str, ownership: str = "collaborative", owner: str | None = None) -> ViewFacts:
    return ViewFacts(
        id=id,
        name=id,
        type="grid",
        ownership=ownership,
        owner_id=owner,
        filter=None,
        hidden=(),
        field_order=(),
    )


def table(
    id: str = "t",
    policies: tuple[PolicyFacts, ...] = (),
    default: str = "show_all",
    views: tuple[ViewFacts, ...] = (),
) -> TableFacts:
    field = FieldFacts(id="f", name="Name", type="text", primary=True)
    return TableFacts(
        id=id, name=id, policy_default=default, policies=policies, fields=(field,), views=views
    )


def facts(role: str = "viewer", **more: object) -> Facts:
    base = {
        "user": USER,
        "workspace": WORKSPACE,
        "member": MemberFacts(role=role, active=True),  # type: ignore[arg-type]
        "tables": (table(),),
    }
    return Facts(**{**base, **more})  # type: ignore[arg-type]


def at(**more: object) -> Coordinates:
    return Coordinates("w", "u", **{"table_ids": ("t",), **more})  # type: ignore[arg-type]


def grant(
    role: str, scope: str = "table", scope_id: str = "t", subject: str = "user", id: str = "u"
) -> GrantFacts:
    return GrantFacts(
        subject_type=subject,  # type: ignore[arg-type]
        subject_id=id,
        scope_type=scope,  # type: ignore[arg-type]
        scope_id=scope_id,
        role=role,  # type: ignore[arg-type]
    )


def permission(*grants: GrantFacts, role: str = "viewer", teams: tuple[str, ...] = ()) -> str:
    scope = resolve(facts(role, grants=grants, team_ids=teams), at())
    return scope.tables[0].permission


def test_no_scope_can_be_made_elsewhere() -> None:
    """The types that sections accept have one maker."""
    with pytest.raises(TypeError, match="made by"):
        access.VisibleView(maker=object(), facts=view("v"), table_id="t", field_ids=())


@pytest.mark.parametrize(
    "change",
    [
        {"member": None},
        {"member": MemberFacts(role="admin", active=False)},
        {"user": None},
        {"user": USER.model_copy(update={"active": False})},
        {"workspace": None},
    ],
)
def test_without_active_membership_nothing(change: dict[str, object]) -> None:
    """A missing workspace, a non-member and an inactive one get the same answer."""
    with pytest.raises(NotFound, match="workspace 'w' was not found"):
        resolve(facts(**change), at())


def test_a_table_grant_replaces_the_workspace_role() -> None:
    """NONE on a table beats BUILDER on the workspace; a grant holds where the role is NONE."""
    with pytest.raises(NotFound, match="table 't'"):
        permission(grant("none"), role="builder")
    assert permission(grant("editor"), role="none") == "editor"
    assert permission(grant("viewer"), role="admin") == "viewer"


def test_scope_comes_before_subject() -> None:
    """A team's grant on the table beats the user's own on the workspace."""
    team = grant("commenter", subject="team", id="g")
    assert permission(team, role="admin", teams=("g",)) == "commenter"


def test_own_replaces_teams_and_teams_unite() -> None:
    """At one scope: own over teams'; of several teams the highest (baserow#1479)."""
    low, high = (grant(r, subject="team", id=i) for r, i in (("viewer", "a"), ("editor", "b")))
    assert permission(low, high, teams=("a", "b")) == "editor"
    assert permission(low, high, grant("commenter"), teams=("a", "b")) == "commenter"


def test_defer_takes_the_teams_workspace_role() -> None:
    """The sentinel is the same as no role of one's own."""
    team = grant("editor", "workspace", "w", "team", "g")
    assert permission(team, role="defer", teams=("g",)) == "editor"
    with pytest.raises(NotFound, match="table"):
        permission(role="defer")


def test_the_agent_stack_only_narrows() -> None:
    """An agent is never wider than its user, and its tables are a boundary."""
    agent = AgentFacts(id="a", name="A", max_role="viewer", table_ids=("t",))
    scope = resolve(facts("admin", agents=(agent,)), at(agent_stack=("a",)))
    assert scope.role == "viewer"
    assert scope.tables[0].permission == "viewer"
    wide = agent.model_copy(update={"max_role": "admin"})
    assert resolve(facts("viewer", agents=(wide,)), at(agent_stack=("a",))).role == "viewer"
    other = agent.model_copy(update={"table_ids": ("x",)})
    with pytest.raises(NotFound, match="table 't'"):
        resolve(facts("admin", agents=(other,)), at(agent_stack=("a",)))
    with pytest.raises(NotFound, match="agent 'gone'"):
        resolve(facts("admin"), at(agent_stack=("gone",)))


def rows(role: str, *policies: PolicyFacts, default: str = "deny_all") -> policy.Pred:
    made = facts(role, tables=(table(policies=policies, default=default),))
    (way,) = resolve(made, at()).tables[0].ways
    return way.rows.pred


def stored(pred: object, mode: str = "permissive", subject: str = "viewer") -> PolicyFacts:
    return PolicyFacts(
        id="p",
        subjects=[{"type": "role", "id": subject}],
        pred=pred,  # type: ignore[arg-type]
        mode=mode,
    )


def test_own_rows_resolves_to_the_user() -> None:
    """The operand becomes the user's id; a policy for another role opens nothing."""
    pred = rows("viewer", stored(OWN))
    assert [c.operand for c in policy.comparisons(pred)] == [policy.Literal_(literal="u")]
    assert rows("editor", stored(OWN)) is False


@pytest.mark.parametrize(
    "garbage",
    [
        {"nonsense": 1},
        {"cmp": {"ref": "field:gone", "op": "eq", "operand": {"user": "id"}}},
        {"linkedAny": {"field": "f", "pred": True}},
        {"cmp": {"ref": "field:f", "op": "eq", "operand": {"now": {"unit": "today", "tz": "x"}}}},
        {
            "cmp": {
                "ref": "field:f",
                "op": "in",
                "operand": {"attr": {"table": "gone", "keyField": "k", "valueField": "v"}},
            }
        },
        [True] * 3,
        None,
    ],
)
def test_a_policy_that_cannot_be_resolved_denies(garbage: object) -> None:
    """Stored garbage closes its table, even beside a policy that opens everything."""
    assert rows("viewer", stored(garbage), stored(True)) is False
    assert rows("viewer", stored(garbage, "restrictive"), default="show_all") is False


def test_garbage_denies_its_own_table_only() -> None:
    """Another table of the same request is untouched."""
    both = (table(policies=(stored("?"),)), table("x"))
    scope = resolve(facts(tables=both), at(table_ids=("t", "x")))
    assert [[way.rows.pred for way in t.ways] for t in scope.tables] == [[False], [True]]
    assert any("policy p" in denial.rule for denial in scope.denials)


def test_views_by_ownership() -> None:
    """Collaborative for all, personal for its owner, restricted for ADMINs, unknown for nobody."""
    views = (
        view("c"),
        view("mine", "personal", "u"),
        view("theirs", "personal", "x"),
        view("r", "restricted"),
        view("odd", "strange"),
    )
    for role, seen in (("viewer", ["c", "mine"]), ("admin", ["c", "mine", "r"])):
        scope = resolve(facts(role, tables=(table(views=views),)), at())
        assert [v.facts.id for v in scope.tables[0].views] == seen


def test_a_view_of_another_table_is_absent() -> None:
    """A view counts only on a table of the context; missing and hidden are listed alike."""
    tables = (table(), table("x", views=(view("v"),)))
    for wanted in ("v", "gone"):
        scope = resolve(facts(tables=tables), at(view_id=wanted))
        assert scope.view is None
        assert [(u.coordinate, u.id) for u in scope.absent] == [("viewId", wanted)]


def test_a_view_whose_filter_cannot_be_computed_has_no_count() -> None:
    """Never the unfiltered number."""
    broken = view("v").model_copy(update={"filter": {"cmp": "?"}})
    scope = resolve(facts(tables=(table(views=(broken,)),)), at(view_id="v"))
    assert scope.view is not None
    assert scope.view.uncountable
    assert scope.view.filter is False


def test_inherited_coordinates_out_of_sight_are_left_out() -> None:
    """A requested table is fatal, an inherited one is not; `strict` makes all requested fatal."""
    gone = at(table_ids=("gone",), project_id="p")
    scope = resolve(facts(), gone, inherited=frozenset({"table_ids"}))
    assert scope.tables == ()
    listed = access.settle(scope.absent, frozenset({"table_ids"}), tags=scope.tags)
    assert [u.coordinate for u in listed] == ["projectId"]
    with pytest.raises(NotFound, match="project 'p'"):
        resolve(facts(), gone, inherited=frozenset({"table_ids"}), strict=True)


def project(private: bool, member: bool) -> ProjectFacts:
    return ProjectFacts(
        id="p", name="P", status="open", due_on=None, private=private, is_member=member
    )


@pytest.mark.parametrize(
    ("role", "private", "member", "seen"),
    [
        ("viewer", False, False, True),
        ("none", False, True, False),
        ("admin", True, False, False),
        ("none", True, True, True),
    ],
)
def test_projects(role: str, private: bool, member: bool, seen: bool) -> None:
    """A private project is for its members, another for VIEWERs and more."""
    made = facts(role, project=project(private, member))
    scope = resolve(made, at(table_ids=(), project_id="p"))
    assert (scope.project is not None) is seen


def test_tasks_need_their_project_and_their_row() -> None:
    """A task on a table out of sight, or in a private project, is absent."""
    task = TaskFacts(
        id="k",
        title="T",
        status="open",
        project=project(False, False),
        table_id="t",
        record_id="r",
        assignee_id=None,
        due_on=None,
    )
    where = at(table_ids=(), task_id="k")
    assert resolve(facts(task=task), where).task is not None
    assert resolve(facts(task=task, grants=(grant("none"),)), where).task is None
    hidden = task.model_copy(update={"project": project(True, False)})
    assert resolve(facts(task=hidden), where).task is None


def test_teams_and_organizations() -> None:
    """A team for its members and ADMINs; an organization for its members in its workspaces."""
    team = TeamFacts(id="g", name="G", member_count=1, is_member=False)
    organization = OrganizationFacts(id="o", name="O", role="member")
    where = at(team_id="g", organization_id="o")
    assert resolve(facts("admin", team=team), where).team is not None
    assert resolve(facts("viewer", team=team), where).team is None
    scope = resolve(facts(organization=organization), where)
    assert scope.organization is not None
    outsider = organization.model_copy(update={"role": None})
    assert resolve(facts(organization=outsider), where).organization is None


def test_conversations_are_for_participants() -> None:
    """A conversation that is missing or not one's own is fatal; inherited, it is left out."""
    mine = ConversationFacts(id="c", title="C", is_participant=True)
    where = at(conversation_id="c")
    assert resolve(facts(conversation=mine), where).conversation is not None
    other = mine.model_copy(update={"is_participant": False})
    for found in (other, None):
        with pytest.raises(NotFound, match="conversation 'c'"):
            resolve(facts(conversation=found), where)
        kept = resolve(facts(conversation=found), where, inherited=frozenset({"conversation_id"}))
        assert kept.conversation is None


def test_tool_content_is_for_whom_it_ran_under_todays_rights() -> None:
    """Another user, a table out of sight, or rights that changed since: withheld."""
    mine = TALK
    scope = resolve(facts(conversation=mine), at(conversation_id="c"))
    seen = scope.conversation
    assert seen is not None
    ran = access.rights_of(scope, ["t"])
    assert seen.shows("u", ["t"], ran)
    assert not seen.shows("x", ["t"], ran)
    assert not seen.shows("u", ["t", "gone"], ran)
    raised = resolve(facts(conversation=mine, grants=(grant("editor"),)), at(conversation_id="c"))
    assert raised.conversation is not None
    assert not raised.conversation.shows("u", ["t"], ran)


def test_what_tools_ran_over_is_no_dependency_of_the_surface() -> None:
    """Tables of the dialogue's tools tag the whole context, not the surface."""
    mine = TALK
    where = at(table_ids=(), conversation_id="c")
    scope = resolve(facts(conversation=mine), where)
    assert keys.schema("t") in scope.dialogue_tags
    assert keys.schema("t") not in scope.tags
    assert keys.conversation("c") not in scope.tags


def test_every_question_is_tagged() -> None:
    """An absent thing leaves its tag: a cached "no" falls when the grant comes."""
    where = at(table_ids=(), project_id="p", task_id="k", team_id="g", workflow_id="f", view_id="v")
    tags = resolve(facts(tables=()), where).tags
    assert {
        keys.project("p"), keys.task("k"), keys.team("g"), keys.workflow("f"), keys.ANY_VIEW,
        keys.access("u"), keys.teams_of("u"), keys.user("u"), keys.WORKSPACE, keys.EVERYTHING,
    } <= tags  # fmt: skip
