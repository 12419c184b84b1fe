"""`AgentContext`: what an agent was told, inspectable section by section."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from context_engine.models.base import SCHEMA_VERSION, Contract, Id
from context_engine.models.sections import (
    Agent,
    ConversationSection,
    Metadata,
    OrganizationSection,
    ProjectSection,
    Relation,
    SessionSection,
    TableSection,
    TaskSection,
    TeamSection,
    UserSection,
    ViewSection,
    WorkflowSection,
    WorkspaceSection,
)

Source = Literal["build", "surface", "cache"]
"""Where an answer came from: built, built over a cached surface, or cached whole."""

Status = Literal["included", "trimmed", "unavailable", "absent"]
"""What became of a section; `absent` is the one word for missing and denied."""


class ContextWindow(Contract):
    """How much of the dialogue's character budget is used: summary plus recent turns."""

    unit: Literal["characters"] = "characters"
    used: int
    limit: int
    remaining: int


class TraceSection(Contract):
    status: Status
    reason: str
    chars: int = 0
    """Size as JSON, in characters."""
    age_ms: int = 0
    """Time between the reading of this section and the answer's build."""


class Trace(Contract):
    """Why the context is as it is: one entry for every section, and the engine's own remarks."""

    sections: dict[str, TraceSection]
    inherited: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """Passing conditions, such as a cache that was away."""


class Unresolved(Contract):
    """A coordinate that was asked for and is absent, missing and denied alike."""

    coordinate: str
    id: Id


class AgentContext(Contract):
    """The answer: sections, summary and window, and what makes them inspectable.

    `context_hash` is the SHA-256 of the canonical content without context_id, generated_at,
    source, age_ms, tags, trace and the session's last hash: equal hashes, equal content.
    `tags` are keyed digests (HMAC) that match those of `context.evicted`.
    """

    schema_version: str = SCHEMA_VERSION
    context_id: Id
    context_hash: str
    scope_key: str
    source: Source
    age_ms: int = 0
    """Time since the build, in milliseconds; 0 for an answer that was built for this request."""
    generated_at: AwareDatetime

    user: UserSection
    workspace: WorkspaceSection
    organization: OrganizationSection | None = None
    team: TeamSection | None = None
    project: ProjectSection | None = None
    task: TaskSection | None = None
    table: TableSection | None = None
    """The table that was asked for first."""
    tables: tuple[TableSection, ...] = ()
    relations: tuple[Relation, ...] = ()
    view: ViewSection | None = None
    workflow: WorkflowSection | None = None
    agent_stack: tuple[Agent, ...] = ()
    session: SessionSection | None = None
    conversation: ConversationSection | None = None
    metadata: Metadata = Field(default_factory=Metadata)

    context_summary: str
    context_window: ContextWindow
    unresolved: tuple[Unresolved, ...] = ()
    tags: tuple[str, ...] = ()
    trace: Trace


UNHASHED = frozenset(
    {"context_id", "context_hash", "generated_at", "source", "age_ms", "tags", "trace"}
)
"""Fields that the content hash leaves out, beside `session.last_context_hash`."""
