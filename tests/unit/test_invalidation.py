"""Which change takes back what, and how changes are applied."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import get_args

import pytest

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
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
from context_engine.invalidation import Invalidator, tags_touched
from context_engine.keys import Scope, Tag
from context_engine.models import AgentContext
from context_engine.ports import Look, NewEntry, SessionWrite
from context_engine.sections.surface import Surface

HERE = {"workspace_id": "w"}
USER = Subject(type="user", id="u")
TEAM = Subject(type="team", id="g")
ON_TABLE = GrantScope(type="table", id="t")

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
    (
        GrantChanged(**HERE, subject=Subject(type="role", id="x"), scope=ON_TABLE, op="created"),
        {keys.EVERYTHING},
    ),
    (
        FieldPermissionChanged(**HERE, table_id="t", field_id="f", subject=TEAM, op="created"),
        {keys.team("g")},
    ),
    (PolicyChanged(**HERE, table_id="t", op="updated"), {keys.rows("t")}),
    (AgentChanged(**HERE, agent_id="a", op="updated"), {keys.agent("a")}),
    *(
        (RecordsChanged(**HERE, table_id="t", op=op), {keys.rows("t")})
        for op in ("created", "deleted", "restored")
    ),
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


# -- applying ----------------------------------------------------------------------------------


class World:
    """A cache with one context, one session and its memory for each user of each workspace."""

    def __init__(self) -> None:
        self.cache = MemoryCache()
        self.invalidator = Invalidator(self.cache)

    async def furnish(self, *scopes: Scope) -> None:
        for scope in scopes:
            await self.cache.found(scope.workspace_id)
            await self.keep(scope)

    async def keep(self, scope: Scope) -> None:
        moment = (await self.cache.look(_look(scope))).moment
        assert moment is not None
        tags = frozenset({keys.EVERYTHING, keys.WORKSPACE, keys.access(scope.user_id)})

        def entry(name: str) -> NewEntry:
            ends = moment.now_ms + 300_000
            return NewEntry(name, b"text", tags, moment.clock, moment.now_ms, ends)

        memory = entry(keys.memory_name(scope))
        session = SessionWrite(scope, b"{}", "", 3_600, memory)
        assert await self.cache.fill(moment, [entry(_look(scope).whole)], session)

    async def has(self, scope: Scope) -> bool:
        return (await self.cache.look(_look(scope))).whole is not None

    async def apply(self, *changes: AnyChange) -> list[tuple[int, set[str]]]:
        marks = await self.invalidator.mark(changes)
        done = [
            await self.invalidator.evict(change, mark)
            for change, mark in zip(changes, marks, strict=True)
        ]
        return [(one.evicted.count, set(one.evicted.scope_keys)) for one in done]


def _look(scope: Scope) -> Look:
    whole = keys.whole_name(scope, keys.digest("one"))
    return Look(scope, whole, keys.surface_name(scope.workspace_id, "none"))


def scope(user: str = "u", workspace: str = "w") -> Scope:
    return keys.scope_of(workspace, user, "s", None)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.furnish(scope("u"), scope("x"), scope("u", "other"))
    return made


async def test_a_batch_is_marked_before_anything_is_unlinked(world: World) -> None:
    """Once `mark` has returned nothing of the batch is served, though all of it still lies there.

    Both changes are of one workspace: the second must not wait for the first one's eviction.
    """
    changes = [MemberChanged(**HERE, user_id=user, op="updated") for user in "ux"]
    await world.invalidator.mark(changes)
    assert not await world.has(scope("u"))
    assert not await world.has(scope("x"))
    assert len(world.cache.entries) == 6


async def test_what_was_unlinked_is_told_by_scope(world: World) -> None:
    told = await world.apply(MemberChanged(**HERE, user_id="u", op="updated"))
    assert told == [(2, {scope("u").key})]
    assert await world.has(scope("x"))
    assert await world.has(scope("u", "other"))
    assert await world.cache.session(scope("u")) is not None, "no membership ended"


@pytest.mark.parametrize(
    "change",
    [
        MemberChanged(**HERE, user_id="u", op="removed"),
        UserChanged(**HERE, user_id="u", op="deleted"),
    ],
    ids=lambda change: change.type,
)
async def test_sessions_end_with_the_membership(world: World, change: AnyChange) -> None:
    """Those of that user, in that workspace."""
    [(_, scopes)] = await world.apply(change)
    assert scopes == {scope("u").key}
    assert await world.cache.session(scope("u")) is None
    assert await world.cache.memory(scope("u")) is None
    assert await world.cache.session(scope("x")) is not None
    assert await world.cache.session(scope("u", "other")) is not None


async def test_a_workspace_that_ends_takes_everyones_sessions(world: World) -> None:
    """A build that began before cannot bring one back."""
    late = (await world.cache.look(_look(scope("x")))).moment
    assert late is not None
    [(_, scopes)] = await world.apply(WorkspaceChanged(**HERE, op="deleted"))
    assert scopes == {scope("u").key, scope("x").key}
    await world.cache.fill(late, (), SessionWrite(scope("x"), b"{}", "", 3_600))
    assert await world.cache.session(scope("u")) is None
    assert await world.cache.session(scope("x")) is None
    assert await world.cache.session(scope("u", "other")) is not None


async def test_applying_again_changes_nothing_newer(world: World) -> None:
    """Redelivered, a change ends at most what was built before: no entry comes back older."""
    change = MemberChanged(**HERE, user_id="u", op="updated")
    await world.apply(change)
    await world.keep(scope("u"))
    assert await world.has(scope("u"))
    await world.apply(change)
    assert not await world.has(scope("u")), "wide, and harmless: it is built again"
    await world.keep(scope("u"))
    assert await world.has(scope("u"))


async def test_a_mark_where_nothing_is_cached_makes_nothing(world: World) -> None:
    """The consumer makes no hash of marks: there is nothing to end."""
    change = WorkspaceChanged(workspace_id="cold", op="updated")
    [mark] = await world.invalidator.mark([change])
    assert mark.clock is None
    assert "cold" not in world.cache.marks


@pytest.mark.parametrize(
    ("unknown", "gone"), [(["w"], {"w"}), (["w", "other"], {"w", "other"}), ([], {"w", "other"})]
)
async def test_what_nobody_understands_ends_its_workspace_or_everything(
    world: World, unknown: Iterable[str], gone: set[str]
) -> None:
    """Contexts end; where the user was working is not forgotten."""
    await world.invalidator.mark_unknown(unknown)
    for workspace in ("w", "other"):
        assert await world.has(scope("u", workspace)) is (workspace not in gone)
        assert await world.cache.session(scope("u", workspace)) is not None


async def test_all_of_an_unknown_workspace_is_unlinked(world: World) -> None:
    evicted = await world.invalidator.evict_unknown("w")
    assert set(evicted.scope_keys) == {scope("u").key, scope("x").key}
    assert await world.has(scope("u", "other"))
