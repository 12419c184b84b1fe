"""The cache and its freshness: marks on a logical clock, entries, sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

from context_engine.keys import Scope, Tag

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
    timeline: str | None = None
    """The database's, once it was read: another one after a failover. None: not known."""


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
    """Empty for a denial."""


@dataclass(frozen=True, slots=True)
class Look:
    """One read: the whole context, else its surface, under one reading of the clock."""

    scope: Scope
    whole: str
    """Name of the whole context in the cache."""
    surface: str
    session: bytes | None = None
    """Coordinates to keep in the session when a whole context hits, and no denial; None writes
    none."""
    session_seconds: int = 86_400
    skip_entries: bool = False
    """`fresh`: read the clock and the session only."""
    assumed: bool = False
    """The names assume that the session keeps nothing but `session`. Where it does, no entry is
    read: its coordinates come back, and names are made over them."""
    lead: bool = False
    """Where the whole context is read and not there: take the lead on it, unless another has it."""


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
    leads: bool = False
    """The lead on the whole context was taken: it is to be filled, or released."""
    led: bool = False
    """Another has the lead, for `flights.LEAD_MS` at most."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    name: str
    payload: bytes
    tags: frozenset[Tag]
    clock: int
    built_ms: int
    expires_ms: int
    context_hash: str = ""
    quiet: bool = False
    """Nobody is told when it is unlinked: a denial, which depends on what is out of sight."""


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
    wait_ms: int = 0
    """How much longer another primary, which this one deposed, may answer as if nothing had been
    marked. Known of what a writer marked (`create`): it acknowledges nothing before."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """What was unlinked, but for what is `quiet`: best effort, for memory and announcements; truth
    rests on marks."""

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
        """One call. False when anything the entries depend on was marked after their build.

        Where the database's timeline is another than the workspace's, its hash is dropped. Either
        way it ends the lead on the last of `entries`, the whole context.
        """

    async def release(self, whole: str) -> None:
        """Ends the lead on a whole context that is not filled."""

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        """Makes the hash of marks where there is none; the caller has proven a membership.

        `session` is kept if nothing was marked since the hash was made: the build that found
        none is not stored, but its turn must not be forgotten.
        """

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        """Clock + 1 and the marks, in one call. `create`: make the hash where there is none, as
        writers do, who are told how long to wait with their answer. `timeline`: the database's;
        where the workspace's is another, its epoch is a new one."""

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        """Marks a batch in order, in one round trip, making no hash."""

    async def forget(self, workspace_id: str) -> None:
        """Drops the hash: everything of the workspace misses from now on."""

    async def forget_everything(self) -> frozenset[Reign]:
        """Drops every workspace's hash: what cannot be attributed. Under whom that was done:
        more than one where it was not all done on one server."""

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        """Unlinks what the index names under `tags`, in slices."""

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        """Removes a user's sessions, both halves: a membership ended. Without a user, everyone's:
        the workspace did."""

    async def ping(self) -> None:
        """Raises `Unavailable` when the store does not answer."""
