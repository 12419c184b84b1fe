"""The sections of an `AgentContext`. Samples and counts travel; records never do."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import AwareDatetime, Field

from context_engine.models.base import Contract, Id, JsonObject

SAMPLED_FIELDS = 12
SAMPLED_VIEWS = 6

Role = Literal["none", "viewer", "commenter", "editor", "builder", "admin"]
"""Rights on a workspace or table, from none to all; see `access.RANK`."""

Permission = Literal["views", "viewer", "commenter", "editor", "builder", "admin"]
"""Effective permission on a table; `views` where only granted views are in sight."""


TOO_SLOW: Final = "the database took too long"
"""Why a count is `unavailable` that may be had soon."""


class Count(Contract):
    """A number that says how far it can be trusted.

    `value` is None exactly when `unavailable` says why; `exact` is False where there are more.
    """

    value: int | None = None
    exact: bool = True
    unavailable: str | None = None

    @classmethod
    def of(cls, value: int) -> Self:
        return cls(value=value)

    @classmethod
    def at_least(cls, value: int) -> Self:
        """There are more than `value`, and nobody counted how many."""
        return cls(value=value, exact=False)

    @classmethod
    def missing(cls, reason: str) -> Self:
        return cls(value=None, exact=False, unavailable=reason)


class UserSection(Contract):
    """For whom the agent acts."""

    id: Id
    name: str
    role: Role
    """Effective role on the workspace, after the agent stack."""
    locale: str | None = None
    timezone: str | None = None


class WorkspaceSection(Contract):
    id: Id
    name: str


class FieldSample(Contract):
    id: Id
    name: str
    type: str
    primary: bool = False


class ViewSample(Contract):
    id: Id
    name: str
    type: str


class TableSection(Contract):
    """One requested table, as far as this user sees it."""

    id: Id
    name: str
    permission: Permission
    field_count: int
    """Fields in the user's sight, of which at most 12 are sampled."""
    fields: tuple[FieldSample, ...] = Field(max_length=SAMPLED_FIELDS)
    view_count: int
    views: tuple[ViewSample, ...] = Field(max_length=SAMPLED_VIEWS)
    record_count: Count


class Relation(Contract):
    """A link field: of a table of the context, or of one that links to it.

    It leads from `table` to `linked_table`; one to a table out of sight is opaque, without name
    and count.
    """

    table_id: Id
    table_name: str
    field_id: Id
    field_name: str
    linked_table_id: Id | None = None
    linked_table_name: str | None = None
    linked_field_id: Id | None = None
    """The field on the other side, where that side has one in sight."""
    cardinality: Literal["one", "many"] = "many"
    """How many records one record may link to."""
    link_count: Count | None = None
    """Links whose two rows are both in sight; None for an opaque relation."""


class ViewSection(Contract):
    """The view that the user looks at. Its count is apart from the table's."""

    id: Id
    name: str
    type: str
    table_id: Id
    filtered: bool
    field_count: int
    """Fields of the table in the user's sight that the view shows."""
    record_count: Count


class ProjectSection(Contract):
    id: Id
    name: str
    status: str
    due_on: str | None = None
    """ISO date."""
    open_tasks: Count
    tasks: Count


class TaskSection(Contract):
    id: Id
    title: str | None
    """None where the record's primary field is out of sight."""
    status: str
    project_id: Id | None = None
    table_id: Id | None = None
    record_id: Id | None = None
    assignee_id: Id | None = None
    due_on: str | None = None


class TeamSection(Contract):
    id: Id
    name: str
    member_count: Count


class OrganizationSection(Contract):
    id: Id
    name: str
    role: str


class WorkflowSection(Contract):
    id: Id
    name: str
    status: str


class Agent(Contract):
    """An agent of the stack, outermost first. It narrows what its user may do, never widens it."""

    id: Id
    name: str
    max_role: Role
    table_ids: tuple[Id, ...] | None = None
    """Of the tables in this context, those that it is limited to; None for no limit of its own."""


class Turn(Contract):
    """One message of the tail. `message_id` is None for the current, unsent message."""

    message_id: Id | None
    role: Literal["user", "assistant", "system", "tool"]
    author_id: Id | None = None
    content: str
    tool_calls: tuple[JsonObject, ...] = ()
    tool_call_id: str | None = None
    truncated: bool = False
    """Cut at the turn's limit; the original stays under `message_id`."""
    withheld: bool = False
    """A tool's content that ran for somebody else, or over tables out of sight."""
    at: AwareDatetime | None = None


class ConversationSection(Contract):
    """The dialogue: a tail of whole turns, and a summary laid over what is older.

    Compression is an overlay: `source_message_ids` name the originals it was taken from.
    """

    id: Id
    title: str
    strategy: Literal["tail-window+heuristic-summary"] = "tail-window+heuristic-summary"
    summary: str
    recent_turns: tuple[Turn, ...]
    source_message_ids: tuple[Id, ...]
    original_chars: int
    """Characters of what people and the assistant wrote, all of it; of no tool's result."""
    compressed_chars: int
    kept_messages: int
    compressed_messages: int


class SessionSection(Contract):
    id: Id
    memory_summary: str | None = None
    last_context_hash: str | None = None
    """Hash of the context that this session was answered with before; not part of the hash."""


class Metadata(Contract):
    """What the caller sent along. Never checked, so never to be trusted."""

    trusted: Literal[False] = False
    values: JsonObject = Field(default_factory=dict)
