"""Commands and their replies: the Python side of each script's header."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from secrets import token_hex
from typing import Final

from context_engine import keys
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.adapters.redis.link import ScriptName, scripts
from context_engine.flights import LEAD_MS
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

SURFACE = 2
"""The kind of an entry that is a surface, in the reply of `look.lua`."""


def call(script: ScriptName, names: Sequence[str], args: Sequence[str | bytes | int]) -> Command:
    return ("EVALSHA", scripts()[script][0], len(names), *names, *args)


class Single:
    """Commands that travel as they are; the reply is the answer."""

    most = 1
    shared = False

    def command(self, items: Sequence[Command]) -> Command:
        return items[0]

    def answers(self, _: Sequence[Command], reply: Reply) -> Sequence[Reply]:
        return (reply,)


class Looks:
    """Looks of one workspace."""

    most = PACKED
    shared = True

    def __init__(self, life_ms: int) -> None:
        self._life_ms = life_ms
        self._who = token_hex(8)

    def command(self, items: Sequence[Look]) -> Command:
        marks = keys.marks_name(items[0].scope.workspace_id)
        names, args = [marks], list[str | bytes | int]((self._life_ms,))
        for look in items:
            kept = look.session if look.scope.has_session else None
            names += (look.whole, look.surface, *_session_names(look.scope))
            names.append(keys.lead_name(look.whole))
            args += ("0" if look.skip_entries else "1", kept or b"", look.session_seconds)
            args += ("1" if look.assumed else "0", LEAD_MS if look.lead else 0)
        return call("look", names, [*args, self._who])

    def answers(self, _: Sequence[Look], reply: Reply) -> Sequence[Seen]:
        server, now, epoch, clock, *each = reply
        moment = None
        if epoch is not None:
            moment = Moment(Epoch(epoch.decode()), Reign(server.decode()), clock, now)
        return [_seen(moment, now, found) for found in each]


def _seen(moment: Moment | None, now: int, found: Reply) -> Seen:
    coordinates, last, lead, kind, *stored = found
    session = None
    if coordinates is not None:
        session = SessionRecord(coordinates, last.decode() or None)
    leads, led = lead > 0, lead < 0
    if moment is None or not kind:
        return Seen(moment, now, session, leads=leads, led=led)
    payload, built, expires, context_hash = stored[:4]
    tags = tags_of(stored[4]) if kind == SURFACE else frozenset[Tag]()
    entry = Entry(payload, moment.clock, built, expires, tags, context_hash.decode())
    if kind == SURFACE:
        return Seen(moment, now, session, surface=entry, leads=leads, led=led)
    return Seen(moment, now, session, whole=entry)


@lru_cache(maxsize=1024)
def tags_of(joined: bytes) -> frozenset[Tag]:
    """The tags of an entry, as they are stored: joined by newlines, which none can hold."""
    return frozenset(Tag(tag) for tag in joined.decode().split("\n") if tag)


def _session_names(scope: Scope) -> tuple[str, str]:
    """Names of the session and of its user's sessions; unread ones stand in where none is."""
    if not scope.has_session:
        marks = keys.marks_name(scope.workspace_id)
        return marks, marks
    return keys.session_name(scope), _sessions_name(scope.workspace_id, scope.user_id)


_sessions_name: Final = lru_cache(maxsize=4096)(keys.sessions_name)


def fill(
    workspace_id: str,
    moment: Moment,
    entries: Sequence[NewEntry],
    session: SessionWrite | None,
    life_ms: int,
) -> Command:
    """The command of one fill; its reply is 1 where the answer was stored."""
    everything = [("q" if entry.quiet else "e", entry) for entry in entries]
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
    args += (*carriers, *carriers.values(), moment.timeline or "")
    names = [keys.marks_name(workspace_id), *_written_names(workspace_id, session)]
    names.append(keys.lead_name(entries[-1].name if entries else names[0]))
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
    return _session_names(session.scope)


def found(workspace_id: str, epoch: str, session: SessionWrite | None, life_ms: int) -> Command:
    names = [keys.marks_name(workspace_id), *_written_names(workspace_id, session)]
    return call("found", names, (epoch, life_ms, *_session_args(session, 0)[2:]))


def mark(
    workspace_id: str,
    tags: frozenset[Tag],
    *,
    epoch: str,
    life_ms: int,
    most: int,
    timeline: str | None,
) -> Command:
    """`epoch`: a random one to make the hash with, "" to make none."""
    args: list[str | bytes | int] = [epoch, life_ms, most, timeline or "", *sorted(tags)]
    return call("mark", (keys.marks_name(workspace_id),), args)


def marked(workspace_id: str, reply: Reply) -> Marked:
    reign = Reign(reply[0].decode())
    if len(reply) == 1:
        return Marked(workspace_id, None, reign, None)
    return Marked(workspace_id, Epoch(reply[1].decode()), reign, reply[2])
