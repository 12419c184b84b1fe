"""The domain changes: what the product says when something stopped being true.

A discriminated union over `type`, grouped into five kinds, one topic each. Every change belongs
to one workspace; what spans workspaces is expanded by its writer to one change for each.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from context_engine.changes.base import MAX_IDS, Change, GrantScope, Ids, Op, Subject
from context_engine.changes.conversation import (
    ConversationChanged,
    MessageChanged,
    ParticipantsChanged,
)
from context_engine.changes.membership import (
    MemberChanged,
    OrganizationChanged,
    TeamChanged,
    TeamMemberChanged,
    UserChanged,
    WorkspaceChanged,
)
from context_engine.changes.permission import (
    AgentChanged,
    FieldPermissionChanged,
    GrantChanged,
    PolicyChanged,
)
from context_engine.changes.records import (
    LinksChanged,
    ProjectChanged,
    RecordsChanged,
    TaskChanged,
    WorkflowChanged,
)
from context_engine.changes.schema import FieldChanged, RelationChanged, TableChanged, ViewChanged

__all__ = [
    "MAX_IDS",
    "AgentChanged",
    "AnyChange",
    "Change",
    "ConversationChange",
    "ConversationChanged",
    "DomainChange",
    "FieldChanged",
    "FieldPermissionChanged",
    "GrantChanged",
    "GrantScope",
    "Ids",
    "Kind",
    "LinksChanged",
    "MemberChanged",
    "MembershipChange",
    "MessageChanged",
    "Op",
    "OrganizationChanged",
    "ParticipantsChanged",
    "PermissionChange",
    "PolicyChanged",
    "ProjectChanged",
    "RecordEdit",
    "RecordsChanged",
    "RelationChanged",
    "SchemaChange",
    "Subject",
    "TableChanged",
    "TaskChanged",
    "TeamChanged",
    "TeamMemberChanged",
    "UserChanged",
    "ViewChanged",
    "WorkflowChanged",
    "WorkspaceChanged",
    "change_types",
    "domain_change",
    "kind_of",
]

Kind = Literal["schema-change", "permission-change", "record-edit", "membership", "conversation"]
"""The kinds of change; the topic is `domain.<kind>`."""

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
