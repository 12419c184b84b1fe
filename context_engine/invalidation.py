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
from context_engine.ports import ContextCache, Evicted, Marked

EVERY_EDIT = ("updated_by", "updated_at")
"""System fields that every edit of a record writes."""


def tags_touched(change: AnyChange) -> frozenset[Tag]:
    """Every tag that `change` may have made stale. Pure; reads no database."""
    return frozenset(_touched(change))


def _touched(change: AnyChange) -> Iterable[Tag]:
    match change:
        case TableChanged(table_id=table):
            return (*_whole_table(table), keys.links_to(table), keys.ANY_VIEW)
        case FieldChanged():
            return _field(change)
        case ViewChanged(table_id=table):
            return (keys.views(table), keys.ANY_VIEW)
        case RelationChanged():
            return _relation(change)
        case GrantChanged(subject=subject):
            return _subject(subject)
        case FieldPermissionChanged(table_id=table, field_id=field):
            return (*_subject(change.subject), keys.schema(table), keys.value(table, field))
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


def _whole_table(table_id: str) -> tuple[Tag, ...]:
    return (keys.schema(table_id), keys.views(table_id), keys.rows(table_id))


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
    yield from (keys.value(change.table_id, name) for name in EVERY_EDIT)
    if change.field_ids is None:
        yield keys.any_value(change.table_id)
        return
    yield from (keys.value(change.table_id, field) for field in change.field_ids)


def _links(change: LinksChanged) -> Iterable[Tag]:
    yield keys.value(change.table_id, change.field_id)
    yield keys.links_to(change.linked_table_id)
    yield keys.links_to(change.table_id)
    if change.linked_field_id is not None:
        yield keys.value(change.linked_table_id, change.linked_field_id)


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
        tags = tags_touched(change)
        evicted = await self._cache.evict(change.workspace_id, tags)
        ended = session_ended(change)
        if ended is not None:
            evicted = _joined(evicted, await self._cache.end_sessions(change.workspace_id, ended))
        return Applied(change, tags, mark, evicted)

    async def apply_unknown(self, workspace_id: str | None) -> None:
        """A change that nobody understands: its workspace misses, or, if unknown, everything."""
        if workspace_id is None:
            await self._cache.forget_everything()
        else:
            await self._cache.forget(workspace_id)


def session_ended(change: AnyChange) -> str | None:
    """The user whose sessions in this workspace end with `change`, or None."""
    match change:
        case MemberChanged(op="removed", user_id=user) | UserChanged(op="deleted", user_id=user):
            return user
        case _:
            return None


def _joined(first: Evicted, second: Evicted) -> Evicted:
    keys_ = tuple(dict.fromkeys((*first.scope_keys, *second.scope_keys)))
    return Evicted(
        count=first.count + second.count,
        scope_keys=keys_[:1_000],
        truncated=first.truncated or second.truncated or len(keys_) > 1_000,
    )
