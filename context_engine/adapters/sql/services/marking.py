"""After the commit and before the answer: the marks, and how long a writer waits for them.

A change of access waits for its mark, while the store is away or was just failed over, as long as
its caller wants; another that cannot be marked at once says so. What was built before the commit
is gone after the life of an entry in any case. That the outbox's relay and its consumer were
quicker could be read only in the same store, where whoever can read can mark.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from context_engine.changes import AnyChange, kind_of
from context_engine.errors import NotYetEnforced, Unavailable
from context_engine.invalidation import tags_touched
from context_engine.keys import Tag
from context_engine.ports import Marked
from context_engine.tokens import Unproven, of_mark, text_of

ACCESS_KINDS = frozenset({"permission-change", "membership"})
"""Kinds whose writer is told when caches may still serve what was before."""

ENFORCE_SECONDS = 5.0
"""As `Settings.enforce_seconds`."""

MARK_SECONDS = 2.0
"""How long the one try of a change that does not wait may take."""

RETRY_SECONDS = 0.1
"""Pause between two tries to mark."""

LONGEST_LIFE = timedelta(hours=1)
"""The longest life of an entry that settings allow."""

CLOCKS = timedelta(seconds=1)
"""How far two clocks that are slewed may run apart within it."""

FAILED_OVER = (
    "the store was failed over, and its deposed primary may answer for a while"
    " (min-replicas-max-lag)"
)


class Marker(Protocol):
    """The part of `ContextCache` that a writer needs."""

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        """See `ContextCache.mark`."""


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The token of a change that is committed while its mark does not stand yet."""

    workspace_id: str
    outbox_id: str
    """The last change of the write; a request that names it is built from the primary."""
    reason: str


Token = Marked | Unmarked
"""What a later request may name, to be answered from a state that has the write in it."""


def texts_of(tokens: Iterable[Token]) -> tuple[str, ...]:
    """Tokens as they travel."""
    return tuple(
        text_of(of_mark(one) if isinstance(one, Marked) else Unproven(one.outbox_id))
        for one in tokens
    )


class Marking:
    """Sees each write through to its marks."""

    def __init__(self, cache: Marker, enforce_seconds: float, entry_life: timedelta) -> None:
        """As `DomainServices`."""
        self._cache, self._enforce_seconds = cache, enforce_seconds
        self._gone_seconds = (entry_life + CLOCKS).total_seconds()

    async def done(
        self, changes: list[AnyChange], timeline: str | None = None
    ) -> tuple[Token, ...]:
        """Call it after the commit, at once."""
        committed = _now()
        by_workspace: dict[str, list[AnyChange]] = defaultdict(list)
        for change in changes:
            by_workspace[change.workspace_id].append(change)
        tokens = await asyncio.gather(
            *(self._token(workspace, its, timeline) for workspace, its in by_workspace.items())
        )
        late = [token for token in tokens if isinstance(token, Unmarked)]
        gone = _now() - committed >= self._gone_seconds  # all that was built before the commit
        if late and not gone and any(kind_of(change) in ACCESS_KINDS for change in changes):
            raise NotYetEnforced(
                "cache",
                "the change is committed, but contexts built before it may be served until it is"
                f" relayed or they expire (outbox {late[0].outbox_id}): {late[0].reason}",
                after=texts_of(tokens),
            )
        return tuple(tokens)

    async def _token(
        self, workspace_id: str, changes: list[AnyChange], timeline: str | None
    ) -> Token:
        """Marks once; what changes access tries until it is enforced, or its time is up.

        A mark that is not settled yet is set again once it would be: who took it may be deposed.
        """
        tags = frozenset[Tag]().union(*map(tags_touched, changes))
        insist = any(kind_of(change) in ACCESS_KINDS for change in changes)
        seconds = min(self._enforce_seconds, self._gone_seconds) if insist else MARK_SECONDS
        end = _now() + seconds
        while True:
            pause = RETRY_SECONDS
            try:
                async with asyncio.timeout_at(end):
                    marked = await self._cache.mark(
                        workspace_id, tags, create=True, timeline=timeline
                    )
                if not marked.wait_ms:
                    return marked
                reason, pause = FAILED_OVER, max(pause, marked.wait_ms / 1000)
            except Unavailable as away:
                reason = away.message
            except TimeoutError:
                reason = "no answer in time"
            left = end - _now()
            if insist and pause < left:
                await asyncio.sleep(pause)
                continue
            if insist and seconds == self._gone_seconds:
                await asyncio.sleep(left)
            return Unmarked(workspace_id, changes[-1].change_id, reason)


def _now() -> float:
    return asyncio.get_running_loop().time()
