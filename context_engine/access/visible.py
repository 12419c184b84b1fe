"""What a user may see, as types that sections and row counts accept.

They can be made in this package only: the constructor wants a token that stays here, and
import-linter keeps this module from everyone else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from context_engine import policy, view_filters
from context_engine.facts import (
    AgentFacts,
    ConversationFacts,
    FieldFacts,
    OrganizationFacts,
    ProjectFacts,
    TaskFacts,
    TeamFacts,
    UserFacts,
    ViewFacts,
    WorkflowFacts,
    WorkspaceFacts,
)
from context_engine.keys import Tag
from context_engine.models.context import Unresolved
from context_engine.models.sections import Permission, Role

MAKER = object()
"""The token. Never re-exported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visible:
    """Made by this package alone: the constructor wants a token that nothing else holds."""

    maker: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.maker is not MAKER:
            raise TypeError(f"{type(self).__name__} is made by context_engine.access only")


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleView(_Visible):
    """A view in sight. `filter` is None without one, `uncountable` says why it has no count."""

    facts: ViewFacts
    table_id: str
    field_ids: tuple[str, ...]
    """Visible fields that the view shows, in the view's order."""
    filter: policy.Pred = True
    where: view_filters.Prepared | None = None
    """A filter in the language of views, beside `filter`; made for the view looked at only."""
    uncountable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTable(_Visible):
    """A table in sight: its way in, the fields, views and rows that this user sees."""

    id: str
    name: str
    permission: Permission
    fields: tuple[FieldFacts, ...]
    views: tuple[VisibleView, ...]
    rows: policy.Pred
    """Which rows: a predicate whose operands are literals."""
    rights: str
    """Digest of all that decided the above: equal digests, equal rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTask(_Visible):
    """A task whose project is in sight. `row_in` is the table that decides on its row, if any."""

    facts: TaskFacts
    row_in: VisibleTable | None
    told: frozenset[Tag]
    """What it depends on beside its id, told once its row is counted in sight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleConversation(_Visible):
    """A conversation that the user takes part in.

    `rights` holds, for each table in sight that tools of the tail ran over, today's digest.
    """

    facts: ConversationFacts
    user_id: str
    rights: dict[str, str]

    def shows(
        self, on_behalf_of: str | None, table_ids: Iterable[str], ran: dict[str, str]
    ) -> bool:
        """Whether a tool's content may be shown: it ran for this user, under today's rights."""
        return on_behalf_of == self.user_id and all(
            table in self.rights and ran.get(table) == self.rights[table] for table in table_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """For operators only: which rule kept something out. Never part of an answer."""

    what: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleScope(_Visible):
    """Everything of one request that its user may see, and the tags that this depends on."""

    user: UserFacts
    workspace: WorkspaceFacts
    role: Role
    tables: tuple[VisibleTable, ...]
    """The effective tables, in the order asked for."""
    view: VisibleView | None
    view_table: VisibleTable | None
    project: ProjectFacts | None
    project_tables: tuple[VisibleTable, ...]
    """Tables in sight that rows of the project's tasks are in: those rows decide on the tasks."""
    task: VisibleTask | None
    team: TeamFacts | None
    organization: OrganizationFacts | None
    workflow: WorkflowFacts | None
    agents: tuple[AgentFacts, ...]
    conversation: VisibleConversation | None
    absent: tuple[Unresolved, ...]
    """Every coordinate out of sight, inherited ones too; `settle` says what follows from it."""
    tags: frozenset[Tag]
    """What everything but the dialogue depends on."""
    told: frozenset[Tag]
    """Those of `tags` that may leave the engine: none for what is out of sight, but its id's."""
    dialogue_tags: frozenset[Tag]
    dialogue_told: frozenset[Tag]
    denials: tuple[Denial, ...]
    until: datetime | None = None
    """When a date that a count depends on turns; nothing made of this may outlive it."""


def rights_of(scope: VisibleScope, table_ids: Iterable[str]) -> dict[str, str]:
    """The digests that a tool message stores: under which rights it ran, table by table."""
    return {table.id: table.rights for table in scope.tables if table.id in set(table_ids)}
