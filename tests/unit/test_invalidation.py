"""Which change takes back what, and that nothing in a context is without a change that does."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from context_engine import keys
from context_engine.changes import (
    AgentChanged,
    AnyChange,
    ConversationChanged,
    FieldChanged,
    FieldPermissionChanged,
    GrantChanged,
    GrantScope,
    LinksChanged,
    MemberChanged,
    MessageChanged,
    OrganizationChanged,
    ParticipantsChanged,
    PolicyChanged,
    ProjectChanged,
    RecordsChanged,
    RelationChanged,
    Subject,
    TableChanged,
    TaskChanged,
    TeamChanged,
    TeamMemberChanged,
    UserChanged,
    ViewChanged,
    WorkflowChanged,
    WorkspaceChanged,
)
from context_engine.invalidation import tags_touched
from context_engine.keys import Tag
from context_engine.models import AgentContext
from context_engine.sections.surface import Surface

HERE = {"workspace_id": "w"}
USER = Subject(type="user", id="u")
TEAM = Subject(type="team", id="g")
ON_TABLE = GrantScope(type="table", id="t")
ON_VIEW = GrantScope(type="view", id="v")

TOUCHES: list[tuple[AnyChange, set[Tag]]] = [
    (TableChanged(**HERE, table_id="t", op="renamed"), {keys.schema("t"), keys.links_to("t")}),
    *(
        (
            TableChanged(**HERE, table_id="t", op=op),
            {
                keys.schema("t"),
                keys.links_to("t"),
                keys.views("t"),
                keys.rows("t"),
                keys.ANY_VIEW,
            },
        )
        for op in ("created", "trashed", "restored")
    ),
    *(
        (
            FieldChanged(**HERE, table_id="t", field_id="f", op=op, dependent_table_ids=("d",)),
            {keys.schema("t"), keys.views("t"), keys.schema("d")},
        )
        for op in ("created", "updated")
    ),
    *(
        (
            FieldChanged(
                **HERE,
                table_id="t",
                field_id="f",
                op=op,
                retyped=retyped,
                dependent_table_ids=("d",),
            ),
            {
                keys.schema("t"),
                keys.views("t"),
                keys.rows("t"),
                keys.value("t", "f"),
                keys.schema("d"),
                keys.rows("d"),
            },
        )
        for op, retyped in (("deleted", False), ("updated", True))
    ),
    (ViewChanged(**HERE, table_id="t", view_id="v", op="updated"), {keys.views("t")}),
    *(
        (ViewChanged(**HERE, table_id="t", view_id="v", op=op), {keys.views("t"), keys.ANY_VIEW})
        for op in ("created", "deleted")
    ),
    (
        RelationChanged(**HERE, table_id="t", field_id="f", linked_table_id="l", op="deleted"),
        {keys.schema("t"), keys.schema("l"), keys.links_to("t"), keys.links_to("l")},
    ),
    (GrantChanged(**HERE, subject=USER, scope=ON_TABLE, op="deleted"), {keys.access("u")}),
    (GrantChanged(**HERE, subject=TEAM, scope=ON_TABLE, op="created"), {keys.team("g")}),
    (GrantChanged(**HERE, subject=USER, scope=ON_VIEW, op="created"), {keys.access("u")}),
    (GrantChanged(**HERE, subject=TEAM, scope=ON_VIEW, op="deleted"), {keys.team("g")}),
    (
        GrantChanged(**HERE, subject=Subject(type="role", id="x"), scope=ON_TABLE, op="created"),
        {keys.EVERYTHING},
    ),
    (
        FieldPermissionChanged(**HERE, table_id="t", field_id="f", subject=TEAM, op="created"),
        {keys.team("g")},
    ),
    (
        FieldPermissionChanged(**HERE, table_id="t", field_id="f", subject=USER, op="updated"),
        {keys.access("u")},
    ),
    (
        FieldPermissionChanged(
            **HERE,
            table_id="t",
            field_id="f",
            subject=Subject(type="role", id="viewer"),
            op="deleted",
        ),
        {keys.schema("t"), keys.rows("t")},
    ),
    (PolicyChanged(**HERE, table_id="t", op="updated"), {keys.rows("t")}),
    (AgentChanged(**HERE, agent_id="a", op="updated"), {keys.agent("a")}),
    *(
        (RecordsChanged(**HERE, table_id="t", op=op), {keys.rows("t")})
        for op in ("deleted", "restored")
    ),
    (RecordsChanged(**HERE, table_id="t", op="created"), {keys.new_rows("t")}),
    (
        RecordsChanged(**HERE, table_id="t", op="updated", field_ids=("f", "g")),
        {
            keys.value("t", "f"),
            keys.value("t", "g"),
            keys.value("t", "updated_by"),
            keys.value("t", "updated_at"),
        },
    ),
    (
        RecordsChanged(**HERE, table_id="t", op="updated"),
        {
            keys.any_value("t"),
            keys.value("t", "updated_by"),
            keys.value("t", "updated_at"),
        },
    ),
    (
        LinksChanged(
            **HERE, table_id="t", field_id="f", linked_table_id="l", linked_field_id="back"
        ),
        {
            keys.value("t", "f"),
            keys.value("l", "back"),
            *(keys.value(table, f"updated_{what}") for table in "tl" for what in ("by", "at")),
            keys.links_to("t"),
            keys.links_to("l"),
        },
    ),
    (
        ProjectChanged(**HERE, project_id="p", op="members"),
        {keys.project("p"), keys.tasks_of("p")},
    ),
    (
        TaskChanged(**HERE, task_id="k", project_ids=("p", "q"), op="updated"),
        {keys.task("k"), keys.tasks_of("p"), keys.tasks_of("q")},
    ),
    (TaskChanged(**HERE, task_id="k", project_ids=(), op="updated"), {keys.task("k")}),
    (TaskChanged(**HERE, task_id="k", op="updated"), {keys.EVERYTHING}),
    (WorkflowChanged(**HERE, workflow_id="f", op="deleted"), {keys.workflow("f")}),
    *(
        (MemberChanged(**HERE, user_id="u", op=op), {keys.access("u"), keys.user("u")})
        for op in ("added", "updated", "removed")
    ),
    (
        TeamMemberChanged(**HERE, team_id="g", user_id="u", op="removed"),
        {keys.team("g"), keys.teams_of("u"), keys.access("u")},
    ),
    (
        TeamChanged(**HERE, team_id="g", op="deleted", member_ids=("u", "x")),
        {keys.team("g"), keys.teams_of("u"), keys.teams_of("x")},
    ),
    (UserChanged(**HERE, user_id="u", op="updated"), {keys.access("u"), keys.user("u")}),
    (
        OrganizationChanged(**HERE, organization_id="o", op="updated", user_ids=("u",)),
        {keys.organization("o")},
    ),
    (WorkspaceChanged(**HERE, op="updated"), {keys.WORKSPACE}),
    (
        MessageChanged(**HERE, conversation_id="c", message_id="m", op="added"),
        {keys.conversation("c")},
    ),
    (
        ParticipantsChanged(**HERE, conversation_id="c", user_ids=("u",), op="removed"),
        {keys.conversation("c")},
    ),
    (ConversationChanged(**HERE, conversation_id="c", op="deleted"), {keys.conversation("c")}),
]


@pytest.mark.parametrize(
    ("change", "tags"), TOUCHES, ids=lambda one: getattr(one, "type", "") or None
)
def test_a_change_touches_what_it_may_have_made_untrue(change: AnyChange, tags: set[Tag]) -> None:
    """As wide as correctness needs, and no wider."""
    assert tags_touched(change) == tags


def test_every_kind_of_change_is_in_the_table() -> None:
    assert {type(change) for change, _ in TOUCHES} == set(get_args(AnyChange))


def test_every_tag_is_touched_by_some_change() -> None:
    """A tag that nothing touches would hold an entry for its whole life, whatever happened."""
    made = {
        name: function(*(f"x{n}" for n in range(len(inspect.signature(function).parameters))))
        for name, function in inspect.getmembers(keys, inspect.isfunction)
        if inspect.signature(function, eval_str=True).return_annotation is Tag and name[0] != "_"
    }
    constants = {keys.EVERYTHING, keys.WORKSPACE, keys.ANY_VIEW}
    kinds = {tag.partition(":")[0] for tag in (*made.values(), *constants)}
    touched = {tag.partition(":")[0] for change, _ in TOUCHES for tag in tags_touched(change)}
    assert len(made) >= 16
    assert kinds == touched


# -- every field of the contract ---------------------------------------------------------------

PERSON = (UserChanged, MemberChanged, TeamMemberChanged, TeamChanged, GrantChanged, AgentChanged)
RIGHTS = (*PERSON, FieldPermissionChanged, PolicyChanged)
ROWS = (RecordsChanged, LinksChanged)
TABLES = (TableChanged, FieldChanged, RelationChanged, ViewChanged, *RIGHTS)

TAKEN_BACK: dict[str, tuple[type[AnyChange], ...]] = {
    "user": PERSON,
    "workspace": (WorkspaceChanged,),
    "organization": (OrganizationChanged, WorkspaceChanged),
    "team": (TeamChanged, TeamMemberChanged, MemberChanged),
    "project": (ProjectChanged, TaskChanged, *TABLES, *ROWS),
    "task": (TaskChanged, ProjectChanged, *TABLES, *ROWS),
    "table": (*TABLES, *ROWS),
    "tables": (*TABLES, *ROWS),
    "relations": TABLES,
    "view": (*TABLES, *ROWS),
    "workflow": (WorkflowChanged, *PERSON),
    "agent_stack": (AgentChanged,),
    "session": (MessageChanged, MemberChanged, UserChanged, WorkspaceChanged),
    "conversation": (
        ConversationChanged,
        MessageChanged,
        ParticipantsChanged,
        TableChanged,
        *RIGHTS,
    ),
    "unresolved": (ProjectChanged, TaskChanged, WorkflowChanged, OrganizationChanged, *TABLES),
}
"""The changes that take back each field of an `AgentContext`."""

OF_ALL_OTHERS = {"context_summary", "context_window", "trace", "context_hash", "tags"}
"""Made of the other fields, so taken back with them."""

OF_THE_REQUEST = {"scope_key", "metadata"}
"""Part of the key: another value is another entry."""

OF_THE_ANSWER = {"schema_version", "context_id", "source", "age_ms", "generated_at"}
"""Said of the answer itself: no change of the domain makes them untrue."""


def test_every_field_of_a_context_has_a_change_that_takes_it_back() -> None:
    """A field without one could be served stale for ever."""
    groups = (set(TAKEN_BACK), OF_ALL_OTHERS, OF_THE_REQUEST, OF_THE_ANSWER)
    named = [name for group in groups for name in group]
    assert sorted(named) == sorted(AgentContext.model_fields)
    assert set(Surface.model_fields) - {"trace", "absent"} <= set(TAKEN_BACK)
    assert {kind for kinds in TAKEN_BACK.values() for kind in kinds} == set(get_args(AnyChange))
