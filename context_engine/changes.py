"""The domain changes: what the product says when something stopped being true.

A discriminated union over `type`, grouped into five kinds, one topic each. Every change belongs
to one workspace; what spans workspaces is expanded by its writer to one change for each.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args
from uuid import uuid4

from pydantic import AwareDatetime, Field, TypeAdapter

from context_engine.models.base import Contract, Id

Kind = Literal["schema-change", "permission-change", "record-edit", "membership", "conversation"]
"""The kinds of change; the topic is `domain.<kind>`."""

MAX_IDS = 1_000
"""Most ids of one kind in one change; a writer with more sends several changes."""

Ids = Annotated[tuple[Id, ...], Field(max_length=MAX_IDS)]
Op = Literal["created", "updated", "deleted"]


class Subject(Contract):
    """Whom a grant or permission names."""

    type: Literal["user", "team", "role"]
    id: Id


class GrantScope(Contract):
    """Where a grant holds; `id` is the workspace's, the table's or the view's."""

    type: Literal["workspace", "table", "view"]
    id: Id


class Change(Contract):
    """What all changes carry. `change_id` makes redelivery visible; order is not promised."""

    change_id: Id = Field(default_factory=lambda: str(uuid4()))
    workspace_id: Id
    actor_id: Id | None = None
    at: AwareDatetime | None = None


# -- schema ------------------------------------------------------------------------------------


class TableChanged(Change):
    """A table was made, renamed, trashed or restored."""

    type: Literal["table.changed"] = "table.changed"
    table_id: Id
    op: Literal["created", "renamed", "trashed", "restored"]


class FieldChanged(Change):
    """A field was made, changed or deleted: its name, type, options or place."""

    type: Literal["field.changed"] = "field.changed"
    table_id: Id
    field_id: Id
    op: Op
    retyped: bool = False
    dependent_table_ids: Ids = ()
    """Tables whose fields are computed from this one."""


class ViewChanged(Change):
    """A view was made, changed or deleted: its name, filter, fields, order or ownership."""

    type: Literal["view.changed"] = "view.changed"
    table_id: Id
    view_id: Id
    op: Op
    filters_changed: bool = True


class RelationChanged(Change):
    """A link field between two tables was made, changed or deleted."""

    type: Literal["relation.changed"] = "relation.changed"
    table_id: Id
    field_id: Id
    linked_table_id: Id
    linked_field_id: Id | None = None
    op: Op


# -- permission --------------------------------------------------------------------------------


class GrantChanged(Change):
    """A role was given, changed or taken on a workspace, a table or a view."""

    type: Literal["grant.changed"] = "grant.changed"
    subject: Subject
    scope: GrantScope
    op: Op


class FieldPermissionChanged(Change):
    """Who may read or write a field changed."""

    type: Literal["field-permission.changed"] = "field-permission.changed"
    table_id: Id
    field_id: Id
    subject: Subject
    op: Op


class PolicyChanged(Change):
    """A row policy of a table, or its default, changed."""

    type: Literal["policy.changed"] = "policy.changed"
    table_id: Id
    op: Op


class AgentChanged(Change):
    """An agent's name, highest role or tables changed."""

    type: Literal["agent.changed"] = "agent.changed"
    agent_id: Id
    op: Op


# -- record edit -------------------------------------------------------------------------------


class RecordsChanged(Change):
    """Records came, went, came back or were edited."""

    type: Literal["records.changed"] = "records.changed"
    table_id: Id
    record_ids: Ids = ()
    op: Literal["created", "updated", "deleted", "restored"]
    field_ids: Ids | None = None
    """Fields an update wrote; None where the writer does not know, which means all."""


class LinksChanged(Change):
    """Links between records were made or removed."""

    type: Literal["links.changed"] = "links.changed"
    table_id: Id
    field_id: Id
    linked_table_id: Id
    linked_field_id: Id | None = None
    record_ids: Ids = ()


class ProjectChanged(Change):
    """A project changed, or who is a member of a private one (`members`)."""

    type: Literal["project.changed"] = "project.changed"
    project_id: Id
    op: Literal["created", "updated", "deleted", "members"]


class TaskChanged(Change):
    """A task was made, changed, moved or deleted."""

    type: Literal["task.changed"] = "task.changed"
    task_id: Id
    project_ids: Ids | None = None
    """The projects the task was in before and is in after; None where the writer does not know,
    which means any."""
    op: Op


class WorkflowChanged(Change):
    """A workflow was made, changed or deleted."""

    type: Literal["workflow.changed"] = "workflow.changed"
    workflow_id: Id
    op: Op


# -- membership --------------------------------------------------------------------------------


class MemberChanged(Change):
    """A member was added, changed or removed.

    Who is removed leaves teams and private projects too: each has a change of its own.
    """

    type: Literal["member.changed"] = "member.changed"
    user_id: Id
    op: Literal["added", "updated", "removed"]


class TeamMemberChanged(Change):
    """Somebody joined or left a team."""

    type: Literal["team-member.changed"] = "team-member.changed"
    team_id: Id
    user_id: Id
    op: Literal["added", "removed"]


class TeamChanged(Change):
    """A team was made, renamed or deleted."""

    type: Literal["team.changed"] = "team.changed"
    team_id: Id
    op: Op
    member_ids: Ids = ()
    """Members before and after, united."""


class UserChanged(Change):
    """A user's name, e-mail, language, time zone or state changed; one for each workspace."""

    type: Literal["user.changed"] = "user.changed"
    user_id: Id
    op: Literal["updated", "deleted"]


class OrganizationChanged(Change):
    """An organization, or roles in it, changed; one for each workspace of it."""

    type: Literal["organization.changed"] = "organization.changed"
    organization_id: Id
    op: Literal["updated", "deleted"]
    user_ids: Ids | None = None
    """Members whose role changed; None for what concerns all of them."""


class WorkspaceChanged(Change):
    """A workspace was renamed, moved or deleted."""

    type: Literal["workspace.changed"] = "workspace.changed"
    op: Literal["updated", "deleted"]


# -- conversation ------------------------------------------------------------------------------


class MessageChanged(Change):
    """A message was added, edited, deleted, pinned or unpinned."""

    type: Literal["message.changed"] = "message.changed"
    conversation_id: Id
    message_id: Id
    op: Literal["added", "edited", "deleted", "pinned", "unpinned"]


class ParticipantsChanged(Change):
    """Users joined or left a conversation."""

    type: Literal["participants.changed"] = "participants.changed"
    conversation_id: Id
    user_ids: Ids
    op: Literal["added", "removed"]


class ConversationChanged(Change):
    """A conversation was opened, renamed or deleted."""

    type: Literal["conversation.changed"] = "conversation.changed"
    conversation_id: Id
    op: Op


SchemaChange = TableChanged | FieldChanged | ViewChanged | RelationChanged
PermissionChange = GrantChanged | FieldPermissionChanged | PolicyChanged | AgentChanged
RecordEdit = RecordsChanged | LinksChanged | ProjectChanged | TaskChanged | WorkflowChanged
MembershipChange = (
    MemberChanged
    | TeamMemberChanged
    | TeamChanged
    | UserChanged
    | OrganizationChanged
    | WorkspaceChanged
)
ConversationChange = MessageChanged | ParticipantsChanged | ConversationChanged

AnyChange = SchemaChange | PermissionChange | RecordEdit | MembershipChange | ConversationChange
DomainChange = Annotated[AnyChange, Field(discriminator="type")]
"""Every change, told apart by `type`."""

domain_change: TypeAdapter[AnyChange] = TypeAdapter(DomainChange)
"""Parses a `DomainChange` from JSON or from a dict."""


def kind_of(change: AnyChange) -> Kind:
    """The kind, and so the topic, that `change` travels on."""
    if isinstance(change, SchemaChange):
        return "schema-change"
    if isinstance(change, PermissionChange):
        return "permission-change"
    if isinstance(change, RecordEdit):
        return "record-edit"
    if isinstance(change, MembershipChange):
        return "membership"
    return "conversation"


def change_types() -> tuple[str, ...]:
    """The types of all changes, such as `member.changed`."""
    return tuple(one.model_fields["type"].default for one in get_args(AnyChange))
