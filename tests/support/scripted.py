"""A cache that finds what it is told to, and remembers what it was asked for and given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.memory.snapshots import MemorySnapshots
from context_engine.errors import Unavailable
from context_engine.ports import (
    Entry,
    Epoch,
    Look,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
)
from context_engine.repository import ContextRepository, Lifetimes

NOW_MS = 1_700_000_000_000
REIGN = Reign("r" * 80)
MOMENT = Moment(Epoch("e"), REIGN, 7, NOW_MS)


def seen(session: SessionRecord | None = None, **more: Any) -> Seen:
    """What a look found at `MOMENT`."""
    return Seen(**{"moment": MOMENT, "now_ms": NOW_MS, "session": session, **more})


def stored(payload: bytes = b"", *, age_ms: int = 0, **more: Any) -> Entry:
    """An entry that is `age_ms` old at `MOMENT`."""
    built = NOW_MS - age_ms
    return Entry(
        **{"payload": payload, "clock": 7, "built_ms": built, "expires_ms": built + 300_000, **more}
    )


@dataclass
class ScriptedCache(MemoryCache):
    """`finds`: what its looks find, in order; the last one again and again."""

    finds: Sequence[Seen] = field(default_factory=lambda: [seen()])
    away: bool = False
    looks: list[Look] = field(default_factory=list)
    looked_at: list[float] = field(default_factory=list)
    """When, by this process's monotonic clock."""
    filled: list[tuple[Moment, Sequence[NewEntry], SessionWrite | None]] = field(
        default_factory=list
    )
    founded: list[tuple[str, SessionWrite | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def look(self, look: Look) -> Seen:
        self._here()
        self.looks.append(look)
        self.looked_at.append(time.monotonic())
        return self.finds[min(len(self.looks), len(self.finds)) - 1]

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        self._here()
        self.filled.append((moment, entries, session))
        return True

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        self._here()
        self.founded.append((workspace_id, session))

    def _here(self) -> None:
        if self.away:
            raise Unavailable("redis", "is away")


def over(cache: ScriptedCache, /, **lifetimes: Any) -> tuple[ContextRepository, MemorySnapshots]:
    """A repository over the cache, and where it keeps evidence."""
    snapshots = MemorySnapshots()
    return ContextRepository(cache, snapshots, Lifetimes(**lifetimes)), snapshots
