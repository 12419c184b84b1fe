"""What the engine needs from outside, each port as small as its use.

Adapters for PostgreSQL, Redis and memory are in `context_engine.adapters`; one suite of tests
(`tests/contracts`) holds for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NewType, Protocol

from context_engine.access import VisibleScope
from context_engine.changes import Kind
from context_engine.facts import Facts
from context_engine.keys import Coordinates, Scope, Tag
from context_engine.models.base import JsonObject
from context_engine.models.context import Source
from context_engine.models.sections import Count

# -- the domain --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted under one snapshot, with the predicates that `access` made."""

    tables: Mapping[str, Count] = field(default_factory=dict)
    """Visible rows by table id."""
    view: Count | None = None
    """Rows of the current view, within the visible ones."""
    project_tasks: Count | None = None
    project_open_tasks: Count | None = None
    task_row_visible: bool = True
    """Whether the row of the requested task is among the visible ones."""
    passing: bool = False
    """A count is missing for a reason that passes: cached for 5 s at most."""


class DomainReads(Protocol):
    """One consistent snapshot of the domain, read from the primary."""

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """All that decides permission for `at`, and its dialogue, in one statement.

        The dialogue of a participant: the last `tail` messages, reaching back to whole tool
        groups, plus the older ones that a summary needs; with the count and size of all.
        """

    async def counts(self, scope: VisibleScope) -> Counts:
        """Every count of the context, in one statement. Too slow: counts that say so."""


class Domain(Protocol):
    """Raises `Unavailable` when the database is away or over its time."""

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """`DomainReads.facts` in a snapshot of its own."""

    def snapshot(self) -> AbstractAsyncContextManager[DomainReads]:
        """A REPEATABLE READ, read-only transaction on the primary."""


# -- freshness ---------------------------------------------------------------------------------

Epoch = NewType("Epoch", str)
"""Random, made with a workspace's hash of marks; gone when that is lost."""

Reign = NewType("Reign", str)
"""Identity of the serving Redis: `run_id` and `master_replid`."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading of a workspace's logical clock: what a build may know at most."""

    epoch: Epoch
    reign: Reign
    clock: int
    now_ms: int
    """Redis's own time, milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored answer, proven fresh by the call that returned it."""

    payload: bytes
    clock: int
    """The clock it is valid for; an entry made out of it takes the lower one."""
    built_ms: int
    """Start of its build, by Redis's time."""
    expires_ms: int
    """When it ends, whatever happens. Never sliding."""
    tags: frozenset[Tag] = frozenset()
    """Filled for surfaces only: a whole context made of one takes them all."""
    context_hash: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """One read: the whole context, else its surface, under one reading of the clock."""

    scope: Scope
    whole: str
    """Name of the whole context in the cache."""
    surface: str
    session: bytes | None = None
    """Coordinates to keep in the session when the whole context hits; None writes none."""
    session_seconds: int = 86_400
    skip_entries: bool = False
    """`fresh`: read the clock and the session only."""
    assumed: bool = False
    """The names assume that the session keeps nothing but `session`. Where it does, no entry is
    read: its coordinates come back, and names are made over them."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The half of a session that is kept a day and never trusted."""

    coordinates: bytes
    last_context_hash: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look found. `moment` is None where the workspace has no hash yet."""

    moment: Moment | None
    now_ms: int
    session: SessionRecord | None = None
    """What the session held before."""
    whole: Entry | None = None
    surface: Entry | None = None


@dataclass(frozen=True, slots=True)
class NewEntry:
    name: str
    payload: bytes
    tags: frozenset[Tag]
    clock: int
    built_ms: int
    expires_ms: int
    context_hash: str = ""


@dataclass(frozen=True, slots=True)
class SessionWrite:
    """What to keep after an answer. Refused when the user's access was marked after `clock`."""

    scope: Scope
    coordinates: bytes
    context_hash: str
    seconds: int
    memory: NewEntry | None = None
    """Derived text, stored by the same check as a fill."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The token of a mark. `clock` is None where there was no hash: nothing to end."""

    workspace_id: str
    epoch: Epoch | None
    reign: Reign
    clock: int | None


@dataclass(frozen=True, slots=True)
class Evicted:
    """What was unlinked: best effort, for memory and announcements; truth rests on marks."""

    count: int
    scope_keys: tuple[str, ...]
    truncated: bool


class ContextCache(Protocol):
    """Cache and sessions under the marks of one logical clock for each workspace.

    Every method raises `Unavailable` when the store is away; nothing is ever served unproven.
    """

    async def session(self, scope: Scope) -> SessionRecord | None:
        """The coordinates last kept for `scope`."""

    async def memory(self, scope: Scope) -> str | None:
        """The session's derived text, if proven; else None."""

    async def look(self, look: Look) -> Seen:
        """One round trip. A hit was validated inside the call."""

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        """One call. False when anything the entries depend on was marked after their build."""

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        """Makes the hash of marks where there is none; the caller has proven a membership.

        `session` is kept if nothing was marked since the hash was made: the build that found
        none is not stored, but its turn must not be forgotten.
        """

    async def mark(self, workspace_id: str, tags: frozenset[Tag], *, create: bool) -> Marked:
        """Clock + 1 and the marks, in one call. `create`: make the hash where there is none."""

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        """Marks a batch in order, in one round trip, making no hash."""

    async def forget(self, workspace_id: str) -> None:
        """Drops the hash: everything of the workspace misses from now on."""

    async def forget_everything(self) -> None:
        """Drops every workspace's hash: what cannot be attributed."""

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        """Unlinks what the index names under `tags`, in slices."""

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        """Removes a user's sessions, both halves: a membership ended. Without a user, everyone's:
        the workspace did."""

    async def ping(self) -> None:
        """Raises `Unavailable` when the store does not answer."""


# -- the outbox --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A change that was committed and not yet published."""

    id: str
    workspace_id: str
    kind: Kind
    type: str
    """The change's, such as `grant.changed`."""
    payload: bytes
    """The `DomainChange` as camelCase JSON."""
    written_at: datetime
    """By the database's clock."""


class OutboxBatch(Protocol):
    """Rows that this transaction alone holds."""

    @property
    def rows(self) -> Sequence[OutboxRow]:
        """In the order written, which says nothing about the order of commits."""

    async def published(self, ids: Sequence[str]) -> None:
        """Notes these rows as published; stands once the batch's block ends without an error."""


class OutboxSource(Protocol):
    """What a relay needs. Every method raises `Unavailable` when the database is away."""

    def claim(self, limit: int) -> AbstractAsyncContextManager[OutboxBatch]:
        """At most `limit` unpublished rows that no other relay holds, in one transaction."""

    async def wait(self, timeout: float) -> bool:
        """Until rows may have been committed, or `timeout` seconds; True for the former.

        The first call opens a connection of its own and returns True at once.
        """

    async def clean(self, older_than: timedelta) -> int:
        """Removes rows published longer ago than that; returns how many."""

    async def lag(self) -> timedelta | None:
        """Age of the oldest unpublished row; None where all are published."""

    async def close(self) -> None:
        """Closes the connection that `wait` opened."""


# -- evidence ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """Evidence of one build: what the engine told an agent."""

    context_id: str
    context_hash: str
    workspace_id: str
    user_id: str
    scope_key: str
    source: Source
    summary: str
    context: bytes
    """The AgentContext as JSON."""
    compression: JsonObject
    operator_trace: JsonObject
    """With the rules that denied: for operators, never for agents."""
    generated_at: datetime
    request_id: str | None = None
    trace_id: str | None = None


class Snapshots(Protocol):
    async def save(self, record: SnapshotRecord) -> None:
        """Stores evidence. Raises `Unavailable`: evidence is not optional."""

    async def get(self, context_id: str) -> SnapshotRecord | None:
        """One snapshot, or None."""


class Clock(Protocol):
    def __call__(self) -> datetime:
        """Now, with a time zone: for `generated_at`, never for freshness."""
