"""Commands and their replies: the Python side of each script's header."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from context_engine import keys
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.adapters.redis.link import ScriptName, scripts
from context_engine.keys import Scope, Tag
from context_engine.ports import (
    Entry,
    Epoch,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
)

PACKED = 32
"""Looks of one workspace in one call: some 10 us of the store's time each."""


def call(script: ScriptName, names: Sequence[str], args: Sequence[str | bytes | int]) -> Command:
    return ("EVALSHA", scripts()[script][0], len(names), *names, *args)


class Single:
    """Commands that travel as they are; the reply is the answer."""

    most = 1

    def command(self, items: Sequence[Command]) -> Command:
        return items[0]

    def answers(self, _: Sequence[Command], reply: Reply) -> Sequence[Reply]:
        return (reply,)


class Looks:
    """Looks of one workspace."""

    most = PACKED

    def __init__(self, life_ms: int) -> None:
        self._life_ms = life_ms

    def command(self, items: Sequence[Look]) -> Command:
        marks = keys.marks_name(items[0].scope.workspace_id)
        names, args = [marks], list[str | bytes | int]((self._life_ms,))
        for look in items:
            kept = look.session if look.scope.has_session else None
            names += (look.whole, look.surface, *_session_names(look.scope, kept is not None))
            args += ("0" if look.skip_entries else "1", kept or b"", look.session_seconds)
        return call("look", names, args)

    def answers(self, items: Sequence[Look], reply: Reply) -> Sequence[Seen]:
        now = reply[1]
        if len(reply) == 2:
            return [Seen(None, now)] * len(items)
        clock: int = reply[3]
        moment = Moment(Epoch(reply[2].decode()), Reign(reply[0].decode()), clock, now)
        return [_seen(moment, found) for found in reply[4:]]


def _seen(moment: Moment, found: Reply) -> Seen:
    if not found:
        return Seen(moment, moment.now_ms)
    tags = tags_of(found[5]) if found[0] == 2 else frozenset[Tag]()
    entry = Entry(found[1], moment.clock, found[2], found[3], tags, found[4].decode())
    if found[0] == 1:
        return Seen(moment, moment.now_ms, whole=entry)
    return Seen(moment, moment.now_ms, surface=entry)


@lru_cache(maxsize=1024)
def tags_of(joined: bytes) -> frozenset[Tag]:
    """The tags of an entry, as they are stored: joined by newlines, which none can hold."""
    return frozenset(Tag(tag) for tag in joined.decode().split("\n") if tag)


def _session_names(scope: Scope, wanted: bool) -> tuple[str, str]:
    """Names of the session and of its user's sessions; unread ones stand in where none is."""
    if not wanted:
        marks = keys.marks_name(scope.workspace_id)
        return marks, marks
    return keys.session_name(scope), _sessions_name(scope.workspace_id, scope.user_id)


_sessions_name: Final = lru_cache(maxsize=4096)(keys.sessions_name)


class Sessions:
    """Sessions of one workspace."""

    most = 2 * PACKED

    def command(self, items: Sequence[Scope]) -> Command:
        return call("sessions", [keys.session_name(scope) for scope in items], ())

    def answers(self, _: Sequence[Scope], reply: Reply) -> Sequence[SessionRecord | None]:
        return [SessionRecord(r[0], r[1].decode() or None) if r else None for r in reply]


def fill(
    workspace_id: str,
    moment: Moment,
    entries: Sequence[NewEntry],
    session: SessionWrite | None,
    life_ms: int,
) -> Command:
    """The command of one fill; its reply is 1 where the answer was stored."""
    everything = [("e", entry) for entry in entries]
    if session is not None and session.memory is not None:
        everything.append(("m", session.memory))
    if any(keys.workspace_in(entry.name) != workspace_id for _, entry in everything):
        raise ValueError("entries of several workspaces in one fill; fill each workspace by itself")
    carriers: dict[Tag, str] = {}
    for number, (_, entry) in enumerate(everything, start=1):
        for tag in entry.tags:
            carriers[tag] = carriers.get(tag, "") + str(number)
    args: list[str | bytes | int] = [moment.epoch, moment.reign, life_ms]
    args += (len(everything), len(carriers))
    args += _session_args(session, moment.clock)
    for group, entry in everything:
        args += (group, entry.clock, entry.built_ms, entry.expires_ms, entry.context_hash)
        args += (entry.payload, "\n".join(entry.tags))
    args += (*carriers, *carriers.values())
    names = [keys.marks_name(workspace_id), *_written_names(workspace_id, session)]
    names += (entry.name for _, entry in everything)
    names += (keys.index_name(workspace_id, tag) for tag in carriers)
    return call("fill", names, args)


def _session_args(session: SessionWrite | None, clock: int) -> tuple[str | bytes | int, ...]:
    if session is None or not session.scope.has_session:
        return "", clock, b"", "", 0
    access = keys.access(session.scope.user_id)
    return access, clock, session.coordinates, session.context_hash, session.seconds


def _written_names(workspace_id: str, session: SessionWrite | None) -> tuple[str, str]:
    if session is None:
        marks = keys.marks_name(workspace_id)
        return marks, marks
    return _session_names(session.scope, True)


def found(workspace_id: str, epoch: str, session: SessionWrite | None, life_ms: int) -> Command:
    names = [keys.marks_name(workspace_id), *_written_names(workspace_id, session)]
    return call("found", names, (epoch, life_ms, *_session_args(session, 0)[2:]))


def mark(
    workspace_id: str, tags: frozenset[Tag], *, epoch: str, life_ms: int, most: int
) -> Command:
    """`epoch`: a random one to make the hash with, "" to make none."""
    return call("mark", (keys.marks_name(workspace_id),), (epoch, life_ms, most, *sorted(tags)))


def marked(workspace_id: str, reply: Reply) -> Marked:
    reign = Reign(reply[0].decode())
    if len(reply) == 1:
        return Marked(workspace_id, None, reign, None)
    return Marked(workspace_id, Epoch(reply[1].decode()), reign, reply[2])
