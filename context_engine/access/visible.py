"""What a user may see, as types that sections and row counts accept.

They can be made in this package only: the constructor wants a token that stays here, and
import-linter keeps this module from everyone else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from context_engine import policy
from context_engine.access.roles import TableRole
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
from context_engine.view_filters import Prepared, RowSet

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
class Way(_Visible):
    """One way into a table: a cell is in sight where one way holds both its row and its field."""

    view_id: str | None
    """The granted view that it leads through; None for the table's own."""
    held: Role
    """The role by which it is held, before the agents narrow it."""
    role: TableRole
    rows: RowSet
    field_ids: frozenset[str]
    """The fields that it shows."""
    writable: frozenset[str]
    """Those of them whose cells its holder may write."""
    uncountable: str | None = None
    """Why its rows are not known, and so none are in sight by it."""


def untold(ways: Iterable[Way]) -> str | None:
    """Why it is not known which rows these ways hold; None where it is.

    Where the table's own way holds every row, no other is needed to know.
    """
    known = tuple(ways)
    why = next((way.uncountable for way in known if way.uncountable), None)
    if why is None or any(way.view_id is None and way.rows == RowSet(True) for way in known):
        return None
    return why


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleView(_Visible):
    """A view in sight. `filter` is None without one, `uncountable` says why it has no count."""

    facts: ViewFacts
    table_id: str
    field_ids: tuple[str, ...]
    """Visible fields that the view shows, in the view's order."""
    rows: tuple[RowSet, ...] = ()
    """What it filters: the rows of the table's own way, and of the way through it."""
    filter: policy.Pred = True
    where: Prepared | None = None
    """A filter in the language of views, beside `filter`; made for the view looked at only."""
    uncountable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTable(_Visible):
    """A table in sight: the ways in, and the fields and views that this user sees by any."""

    id: str
    name: str
    permission: Permission
    fields: tuple[FieldFacts, ...]
    views: tuple[VisibleView, ...]
    ways: tuple[Way, ...]
    rights: str
    """Digest of all that decided the above: equal digests, equal rights."""

    @property
    def own_way(self) -> Way | None:
        """The way by a role on the table; None where only views are in sight."""
        return next((way for way in self.ways if way.view_id is None), None)

    @property
    def rows(self) -> tuple[RowSet, ...]:
        """The rows in sight are those in any of these."""
        return tuple(way.rows for way in self.ways)

    @property
    def uncountable(self) -> str | None:
        """Why the rows in sight cannot be counted, although some way leads to rows."""
        return untold(self.ways)

    def ways_showing(self, field_ids: Collection[str]) -> tuple[Way, ...]:
        """The ways by which cells in all of these fields are in sight."""
        return tuple(way for way in self.ways if way.field_ids.issuperset(field_ids))

    def showing(self, field_ids: Collection[str]) -> tuple[RowSet, ...]:
        """Rows whose cells in all of these fields are in sight, by one way."""
        return tuple(way.rows for way in self.ways_showing(field_ids))

    def shows(self, field_id: str) -> bool:
        return any(field_id in way.field_ids for way in self.ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleLink(_Visible):
    """A link field in sight, on a table of the context or of one that links to it."""

    table: VisibleTable
    field: FieldFacts
    target: VisibleTable | None
    """Where it leads; None for a table out of sight."""
    ends: tuple[Way, ...]
    """Ways into `target` by whose rows a link may be seen to lead there."""
    back: FieldFacts | None
    """The field in sight on the other side."""

    @property
    def key(self) -> str:
        return self.field.id

    @property
    def starts(self) -> tuple[Way, ...]:
        """Ways into `table` by whose rows a link may be seen to come from there."""
        return self.table.ways_showing((self.field.id,))

    @property
    def uncountable(self) -> str | None:
        """Why its links cannot be counted."""
        return untold(self.starts) or untold(self.ends)


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
    links: tuple[VisibleLink, ...]
    """Among the tables, and one step out."""
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
    faults: tuple[Denial, ...] = ()
    """Stored rules that cannot be read: an operator's to mend."""
    until: datetime | None = None
    """When a date that a count depends on turns; nothing made of this may outlive it."""
    passing: bool = False
    """Something that rules ask of the user was not had in time: what follows may change soon, with
    no event."""
    timeline: str | None = None
    """As `Facts.timeline`."""

    made: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was made of this very object, kept as long as it is. A copy with changes has none, but
    one with another dialogue has the same: nothing is made of that."""

    @property
    def tasks_uncountable(self) -> str | None:
        """Why the project's tasks in sight cannot be counted."""
        return next((why for table in self.project_tables if (why := table.uncountable)), None)


def rights_of(scope: VisibleScope, table_ids: Iterable[str]) -> dict[str, str]:
    """The digests that a tool message stores: under which rights it ran, table by table."""
    return {table.id: table.rights for table in scope.tables if table.id in set(table_ids)}
