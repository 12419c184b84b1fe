"""`ContextCache` in memory: the same marks, clock, epoch and reign as in Redis, in one process.

Each method does its work without awaiting anything, so that it is one step, as a script is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from context_engine import keys
from context_engine.adapters.memory.liveness import MemoryLiveness
from context_engine.flights import LEAD_MS
from context_engine.keys import Scope, Tag
from context_engine.ports import (
    Entry,
    Epoch,
    Evicted,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
)

MOST_FIELDS = 20_000
"""Marks a workspace holds before they are dropped."""

MOST_SCOPE_KEYS = 1_000
"""Scope keys that one announcement names."""


def system_milliseconds() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Marks:
    """A workspace's logical clock, and for each tag its value at the tag's last change."""

    epoch: Epoch
    ends_ms: int
    clock: int = 0
    marks: dict[Tag, int] = field(default_factory=dict)
    timeline: str | None = None

    def of_another(self, timeline: str | None) -> bool:
        """Of another timeline of the database than it is of."""
        return None not in (timeline, self.timeline) and timeline != self.timeline

    def after(self, tags: Iterable[Tag], clock: int) -> bool:
        return any(self.marks.get(tag, 0) > clock for tag in tags)


@dataclass(slots=True)
class Stored:
    """An entry with what proves it."""

    entry: NewEntry
    epoch: Epoch
    reign: Reign
    clock: int
    """Rises when the entry is proven again."""
    ended_after: int | None = None
    """Of a denial: the clock of the answer whose place it takes, itself or after other denials."""

    @property
    def silent(self) -> bool:
        """A denial in nobody's place: what does not end it may not tell of it."""
        return self.entry.quiet and self.ended_after is None


@dataclass(slots=True)
class StoredSession:
    name: str
    record: SessionRecord
    ends_ms: int


class MemoryCache:
    """The cache in one process's memory, under a clock of the caller's.

    `now`: milliseconds since 1970. `reign` stands for the server's identity; give it another
    value for another server, which is settled after `max_lag_ms`.
    """

    def __init__(
        self,
        *,
        ttl_seconds: int = 300,
        max_lag_ms: int = 0,
        now: Callable[[], int] = system_milliseconds,
    ) -> None:
        self.reign = Reign(secrets.token_hex(20))
        self.marks: dict[str, Marks] = {}
        self.entries: dict[str, Stored] = {}
        self.sessions: dict[str, StoredSession] = {}
        self._indexes: dict[str, dict[str, int]] = {}
        self._leads: dict[str, int] = {}
        self._now, self._life_ms = now, 2 * ttl_seconds * 1000
        self._shed_at = 1_024
        self.liveness = MemoryLiveness(lambda: self.reign, now, self.forget_everything, max_lag_ms)

    def flush(self) -> None:
        """Loses everything, as a store that was emptied."""
        for held in (self.marks, self.entries, self.sessions, self._indexes, self._leads):
            held.clear()
        self.liveness.flush()

    # -- reading -------------------------------------------------------------------------------

    async def session(self, scope: Scope) -> SessionRecord | None:
        name = keys.session_name(scope)
        kept = self.sessions.get(name) if scope.has_session else None
        if kept is None or kept.ends_ms <= self._now() or kept.name != name:
            return None
        return kept.record

    async def memory(self, scope: Scope) -> str | None:
        marks = self._marks_of(scope.workspace_id)
        if marks is None or not scope.has_session:
            return None
        entry = self._proven(marks, keys.memory_name(scope))
        return entry.payload.decode() if entry is not None else None

    async def look(self, look: Look) -> Seen:
        now, marks = self._now(), self._marks_of(look.scope.workspace_id)
        session = await self.session(look.scope)
        if marks is None:
            return Seen(None, now, session)
        marks.ends_ms = now + self._life_ms
        moment = Moment(marks.epoch, self.reign, marks.clock, now)
        mistaken = look.assumed and session is not None and session.coordinates != look.session
        if look.skip_entries or mistaken:
            return Seen(moment, now, session)
        if (whole := self._proven(marks, look.whole)) is not None:
            if look.session is not None and look.scope.has_session and whole.context_hash:
                record = SessionRecord(look.session, whole.context_hash)
                self._keep_session(look.scope, record, look.session_seconds)
            return Seen(moment, now, session, whole=whole)
        surface = self._proven(marks, look.surface, tags=True)
        if not look.lead:
            return Seen(moment, now, session, surface=surface)
        led = self._leads.get(look.whole, 0) > now
        if not led:
            self._leads[look.whole] = now + LEAD_MS
        return Seen(moment, now, session, surface=surface, leads=not led, led=led)

    def _proven(self, marks: Marks, name: str, *, tags: bool = False) -> Entry | None:
        stored = self.entries.get(name)
        if stored is None or stored.entry.name != name:
            return None
        entry = stored.entry
        if (stored.epoch, stored.reign) != (marks.epoch, self.reign):
            return None
        if entry.expires_ms <= self._now() or stored.clock > marks.clock:
            return None
        if stored.clock != marks.clock:
            if marks.after(entry.tags, stored.clock):
                return None
            stored.clock = marks.clock
        return Entry(
            payload=entry.payload,
            clock=stored.clock,
            built_ms=entry.built_ms,
            expires_ms=entry.expires_ms,
            tags=entry.tags if tags else frozenset(),
            context_hash=entry.context_hash,
        )

    # -- storing -------------------------------------------------------------------------------

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        if entries:
            workspace_id = keys.workspace_in(entries[0].name)
        elif session is not None:
            workspace_id = session.scope.workspace_id
        else:
            return True
        for entry in entries:
            self._leads.pop(entry.name, None)
        memory = session.memory if session is not None else None
        written = [*entries, *((memory,) if memory is not None else ())]
        if any(keys.workspace_in(entry.name) != workspace_id for entry in written):
            raise ValueError("entries of several workspaces in one fill")
        marks = self._marks_of(workspace_id)
        if marks is None or (marks.epoch, self.reign) != (moment.epoch, moment.reign):
            return False
        if marks.of_another(moment.timeline):
            del self.marks[workspace_id]
            return False
        marks.timeline = moment.timeline or marks.timeline
        marks.ends_ms = self._now() + self._life_ms
        if session is not None:
            self._keep_after(marks, session, moment)
            if memory is not None and not marks.after(memory.tags, memory.clock):
                self._store(memory, moment, marks)
                self._index(_sessions_of(session.scope), memory)
        if any(marks.after(entry.tags, entry.clock) for entry in entries):
            return False
        for entry in entries:
            self._store(entry, moment, marks)
        return True

    async def release(self, whole: str) -> None:
        self._leads.pop(whole, None)

    def _keep_after(self, marks: Marks, session: SessionWrite, moment: Moment) -> None:
        access = keys.access(session.scope.user_id)
        if session.scope.has_session and not marks.after((access,), moment.clock):
            record = SessionRecord(session.coordinates, session.context_hash or None)
            self._keep_session(session.scope, record, session.seconds)

    def _store(self, entry: NewEntry, moment: Moment, marks: Marks) -> None:
        self._shed()
        before = self.entries.get(entry.name) if entry.quiet else None
        ended_after = None
        known = before is not None and (before.epoch, before.reign) == (moment.epoch, moment.reign)
        if before is not None and known and not before.silent:
            ended_after = before.clock if before.ended_after is None else before.ended_after
        stored = Stored(entry, moment.epoch, moment.reign, entry.clock, ended_after)
        self.entries[entry.name] = stored
        workspace_id = keys.workspace_in(entry.name)
        for tag in entry.tags:
            index = keys.index_name(workspace_id, tag)
            self._index(index, entry)
            if entry.quiet and (ended_after is None or not marks.after((tag,), ended_after)):
                self._indexes[index].pop(entry.name, None)  # of an answer that `tag` did not end

    def _index(self, index: str, entry: NewEntry) -> None:
        members = self._indexes.setdefault(index, {})
        members[keys.quietly(entry.name) if entry.quiet else entry.name] = entry.expires_ms

    def _keep_session(self, scope: Scope, record: SessionRecord, seconds: int) -> None:
        name, ends = keys.session_name(scope), self._now() + seconds * 1000
        self.sessions[name] = StoredSession(name, record, ends)
        self._indexes.setdefault(_sessions_of(scope), {})[name] = ends

    def _shed(self) -> None:
        """Lets go of what has expired, each time the entries have doubled since."""
        if len(self.entries) < self._shed_at:
            return
        now = self._now()
        for name in [n for n, s in self.entries.items() if s.entry.expires_ms <= now]:
            del self.entries[name]
        for session in [n for n, s in self.sessions.items() if s.ends_ms <= now]:
            del self.sessions[session]
        for index, members in list(self._indexes.items()):
            kept = {name: ends for name, ends in members.items() if ends > now}
            if kept:
                self._indexes[index] = kept
            else:
                del self._indexes[index]
        self._shed_at = max(1_024, 2 * len(self.entries))

    # -- marks ---------------------------------------------------------------------------------

    def _marks_of(self, workspace_id: str) -> Marks | None:
        marks = self.marks.get(workspace_id)
        if marks is not None and marks.ends_ms <= self._now():
            del self.marks[workspace_id]
            return None
        return marks

    def _made(self, workspace_id: str) -> Marks:
        made = Marks(Epoch(secrets.token_hex(16)), self._now() + self._life_ms)
        self.marks[workspace_id] = made
        return made

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        marks = self._marks_of(workspace_id) or self._made(workspace_id)
        marks.ends_ms = self._now() + self._life_ms
        if session is not None and session.scope.has_session and marks.clock == 0:
            record = SessionRecord(session.coordinates, session.context_hash or None)
            self._keep_session(session.scope, record, session.seconds)

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        marks = self._marks_of(workspace_id)
        if marks is not None and (len(marks.marks) > MOST_FIELDS or marks.of_another(timeline)):
            del self.marks[workspace_id]
            marks = None
        if marks is None:
            if not create:
                return Marked(workspace_id, None, self.reign, None)
            marks = self._made(workspace_id)
        marks.timeline = timeline or marks.timeline
        marks.clock += 1
        marks.marks.update(dict.fromkeys(tags, marks.clock))
        marks.ends_ms = self._now() + self._life_ms
        wait_ms = self.liveness.settles_in() if create else 0
        return Marked(workspace_id, marks.epoch, self.reign, marks.clock, wait_ms)

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        return [await self.mark(workspace, tags, create=False) for workspace, tags in changes]

    async def forget(self, workspace_id: str) -> None:
        self.marks.pop(workspace_id, None)

    async def forget_everything(self) -> frozenset[Reign]:
        self.marks.clear()
        return frozenset({self.reign})

    # -- unlinking -----------------------------------------------------------------------------

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        return self._unlink(keys.index_name(workspace_id, tag) for tag in sorted(tags))

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        if user_id is not None:
            return self._unlink((keys.sessions_name(workspace_id, user_id),))
        prefix = keys.sessions_name(workspace_id, "")
        return self._unlink([name for name in self._indexes if name.startswith(prefix)])

    def _unlink(self, indexes: Iterable[str]) -> Evicted:
        members = [m for index in indexes for m in self._indexes.pop(index, {})]
        found = dict(sorted(map(keys.unquiet, members)))
        for name, aloud in list(found.items()):
            stored = self.entries.get(name)
            if aloud and stored is not None and stored.silent:
                if keys.quietly(name) in members:
                    found[name] = False
                else:
                    del found[name]  # of an answer that was told to have ended before
        dropped = [name for name in found if self._drop(name)]
        gone = [name for name in dropped if found[name]]
        said = (name for name, aloud in found.items() if aloud)
        scopes = list(dict.fromkeys(s for s in map(keys.scope_key_in, said) if s is not None))
        return Evicted(len(gone), tuple(scopes[:MOST_SCOPE_KEYS]), len(scopes) > MOST_SCOPE_KEYS)

    def _drop(self, name: str) -> bool:
        entry, session = self.entries.pop(name, None), self.sessions.pop(name, None)
        return entry is not None or session is not None

    async def ping(self) -> None:
        return None


def _sessions_of(scope: Scope) -> str:
    return keys.sessions_name(scope.workspace_id, scope.user_id)
