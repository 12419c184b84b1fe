"""Change → tags → marks and eviction. What a change may have made untrue, in one place.

Too wide a rule costs a rebuild; too narrow a one is a leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from context_engine import keys
from context_engine.changes import (
    AgentChanged,
    AnyChange,
    ConversationChanged,
    FieldChanged,
    FieldPermissionChanged,
    GrantChanged,
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
from context_engine.keys import Tag
from context_engine.ports import ContextCache, Evicted, Marked, Reign

MAX_SCOPE_KEYS = 1_000
"""Scope keys that one announcement names at most."""

EVERY_EDIT = ("updated_by", "updated_at")
"""System fields that every edit of a record writes."""


def tags_touched(change: AnyChange) -> frozenset[Tag]:
    """Every tag that `change` may have made stale. Pure; reads no database."""
    return frozenset(_touched(change))


def _touched(change: AnyChange) -> Iterable[Tag]:
    match change:
        case TableChanged():
            return _table(change)
        case FieldChanged():
            return _field(change)
        case ViewChanged(table_id=table, op="updated"):
            return (keys.views(table),)
        case ViewChanged(table_id=table):
            return (keys.views(table), keys.ANY_VIEW)
        case RelationChanged():
            return _relation(change)
        case GrantChanged(subject=subject):
            return _subject(subject)
        case FieldPermissionChanged(subject=Subject(type="role"), table_id=table):
            # Whoever sees the table, or is shown something of it, carries both.
            return (keys.schema(table), keys.rows(table))
        case FieldPermissionChanged(subject=subject):
            return _subject(subject)
        case PolicyChanged(table_id=table):
            return (keys.rows(table),)
        case AgentChanged(agent_id=agent):
            return (keys.agent(agent),)
        case RecordsChanged():
            return _records(change)
        case LinksChanged():
            return _links(change)
        case ProjectChanged(project_id=project):
            return (keys.project(project), keys.tasks_of(project))
        case TaskChanged(task_id=task, project_ids=projects):
            if projects is None:  # any project's tasks, which no tag but this one names
                return (keys.EVERYTHING,)
            return (keys.task(task), *map(keys.tasks_of, projects))
        case WorkflowChanged(workflow_id=workflow):
            return (keys.workflow(workflow),)
        case MemberChanged(user_id=user) | UserChanged(user_id=user):
            return (keys.access(user), keys.user(user))
        case TeamMemberChanged(team_id=team, user_id=user):
            return (keys.team(team), keys.teams_of(user), keys.access(user))
        case TeamChanged(team_id=team, member_ids=members):
            return (keys.team(team), *map(keys.teams_of, members))
        case OrganizationChanged(organization_id=organization):
            return (keys.organization(organization),)
        case WorkspaceChanged():
            return (keys.WORKSPACE,)
        case (
            MessageChanged(conversation_id=conversation)
            | ParticipantsChanged(conversation_id=conversation)
            | ConversationChanged(conversation_id=conversation)
        ):
            return (keys.conversation(conversation),)
        case _:
            assert_never(change)


def _table(change: TableChanged) -> Iterable[Tag]:
    """A name is schema; a table that comes or goes takes its views and rows with it."""
    yield keys.schema(change.table_id)
    yield keys.links_to(change.table_id)
    if change.op != "renamed":
        yield keys.views(change.table_id)
        yield keys.rows(change.table_id)
        yield keys.ANY_VIEW


def _field(change: FieldChanged) -> Iterable[Tag]:
    """A field's name is schema; its end or another type may break policies and filters too."""
    yield keys.schema(change.table_id)
    yield keys.views(change.table_id)
    yield from map(keys.schema, change.dependent_table_ids)
    if change.op == "deleted" or change.retyped:
        yield keys.rows(change.table_id)
        yield keys.value(change.table_id, change.field_id)
        yield from map(keys.rows, change.dependent_table_ids)


def _relation(change: RelationChanged) -> Iterable[Tag]:
    for table in (change.table_id, change.linked_table_id):
        yield keys.schema(table)
        yield keys.links_to(table)


def _subject(subject: Subject) -> tuple[Tag, ...]:
    """Whom a right names: contexts of a team's members carry the team's tag."""
    match subject.type:
        case "user":
            return (keys.access(subject.id),)
        case "team":
            return (keys.team(subject.id),)
        case "role":
            # Any member may hold the role: which ones, only the domain knows.
            return (keys.EVERYTHING,)
        case _:
            assert_never(subject.type)


def _records(change: RecordsChanged) -> Iterable[Tag]:
    """Rows that come and go change counts; an edit only where somebody reads the cells."""
    if change.op != "updated":
        yield keys.rows(change.table_id)
        return
    yield from _edited(change.table_id)
    if change.field_ids is None:
        yield keys.any_value(change.table_id)
        return
    yield from (keys.value(change.table_id, field) for field in change.field_ids)


def _links(change: LinksChanged) -> Iterable[Tag]:
    """A link is an edit of the records on both of its sides."""
    yield keys.value(change.table_id, change.field_id)
    if change.linked_field_id is not None:
        yield keys.value(change.linked_table_id, change.linked_field_id)
    for table in (change.table_id, change.linked_table_id):
        yield keys.links_to(table)
        yield from _edited(table)


def _edited(table_id: str) -> Iterable[Tag]:
    return (keys.value(table_id, name) for name in EVERY_EDIT)


# -- applying ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """One change, standing: its mark, and what was unlinked for it."""

    change: AnyChange
    tags: frozenset[Tag]
    mark: Marked
    evicted: Evicted


class Invalidator:
    """Applies changes to the cache. Every mark of a batch first: unlinking never delays one."""

    def __init__(self, cache: ContextCache) -> None:
        self._cache = cache

    async def mark(self, changes: Sequence[AnyChange]) -> Sequence[Marked]:
        """Sets the marks of all of `changes`; from here on nothing older is served."""
        return await self._cache.mark_many(
            [(change.workspace_id, tags_touched(change)) for change in changes]
        )

    async def evict(self, change: AnyChange, mark: Marked) -> Applied:
        """Unlinks what `change` made stale, and the sessions that ended with it."""
        workspace_id, tags = change.workspace_id, tags_touched(change)
        evicted = await self._cache.evict(workspace_id, tags)
        match change:
            case WorkspaceChanged(op="deleted"):
                # Without its marks no build that began before can keep a session after this.
                await self._cache.forget(workspace_id)
                evicted = _joined(evicted, await self._cache.end_sessions(workspace_id))
            case (
                MemberChanged(op="removed", user_id=user) | UserChanged(op="deleted", user_id=user)
            ):
                evicted = _joined(evicted, await self._cache.end_sessions(workspace_id, user))
            case _:
                pass
        return Applied(change, tags, mark, evicted)

    async def mark_unknown(self, workspace_ids: Iterable[str]) -> frozenset[Reign]:
        """A change that nobody understands: all of its workspaces misses from here on.

        Without a workspace, which means that nobody knows whose it was, all of everyone does.
        Under whom it was marked.
        """
        unknown = frozenset({keys.EVERYTHING})
        marks = [(workspace_id, unknown) for workspace_id in workspace_ids]
        if marks:
            return frozenset(mark.reign for mark in await self._cache.mark_many(marks))
        return await self._cache.forget_everything()

    async def evict_unknown(self, workspace_id: str) -> Evicted:
        """Unlinks all contexts of a workspace, after `mark_unknown`."""
        return await self._cache.evict(workspace_id, frozenset({keys.EVERYTHING}))


def _joined(first: Evicted, second: Evicted) -> Evicted:
    scope_keys = tuple(dict.fromkeys((*first.scope_keys, *second.scope_keys)))
    return Evicted(
        count=first.count + second.count,
        scope_keys=scope_keys[:MAX_SCOPE_KEYS],
        truncated=first.truncated or second.truncated or len(scope_keys) > MAX_SCOPE_KEYS,
    )
