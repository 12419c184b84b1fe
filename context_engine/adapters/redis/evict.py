"""Unlinking, in slices that never hold up the store: for memory and for announcements only."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

from context_engine import keys
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.adapters.redis.link import Foreign, Moving
from context_engine.errors import Unavailable
from context_engine.ports import Evicted

SLICE = 100
"""Names taken from an index, and unlinked, at once."""

POPPED = 1_000
"""Names that are popped off an index, which forgets each when it is unlinked."""

MOST_SCOPE_KEYS = 1_000
"""Scope keys that one announcement names; the rest is said to be cut off."""


class Eviction:
    """Empties indexes and unlinks what they named. A name that is lost on the way expires."""

    def __init__(self, ask: Callable[[Command], Awaitable[Reply]]) -> None:
        self._ask = ask
        self._scopes: dict[str, None] = {}
        self._truncated = False

    async def of(self, indexes: Iterable[str]) -> Evicted:
        """Everything that `indexes` (sorted sets of names) hold."""
        left, count = list(indexes), 0
        for _ in range(POPPED // SLICE):
            popped = await asyncio.gather(*(self._popped(index) for index in left))
            found = [reply[::2] for reply in popped]  # each name is followed by its score
            count += await self._unlink(name.decode() for names in found for name in names)
            left = [i for i, names in zip(left, found, strict=True) if len(names) == SLICE]
            if not left:
                break
        for index in left:
            count += await self._of_many(index)
        return Evicted(count, tuple(self._scopes), self._truncated)

    async def _of_many(self, index: str) -> int:
        """Of an index with many names still, which is put aside, read through and dropped whole:
        one that is popped empty is made smaller by the server on the way, all of it at once."""
        aside, count, at = f"{index}:{secrets.token_hex(8)}", 0, 0
        try:
            await self._ask(("RENAME", index, aside))
        except Unavailable as error:
            if "no such key" not in error.message:
                raise
            return 0  # another has emptied it meanwhile
        while names := await self._ask(("ZRANGE", aside, at, at + SLICE - 1)):
            count += await self._unlink(name.decode() for name in names)
            at += SLICE
        await self._ask(("UNLINK", aside))
        return count

    async def _popped(self, index: str) -> Reply:
        try:
            return await self._ask(("ZPOPMIN", index, SLICE))
        except Foreign:
            await self._ask(("UNLINK", index))
            return []

    async def _unlink(self, members: Iterable[str]) -> int:
        """How many there were of those that are told of."""
        # Sorted: what is both, an answer in the place of a denial, is told of.
        found = dict(sorted(map(keys.unquiet, members)))
        told = [name for name, aloud in found.items() if aloud]
        quiet = [name for name, aloud in found.items() if not aloud]
        counts, _ = await asyncio.gather(self._unlinked(told), self._unlinked(quiet))
        for name in told:
            self._announce(name)
        return counts

    async def _unlinked(self, names: Sequence[str]) -> int:
        slices = [names[at : at + SLICE] for at in range(0, len(names), SLICE)]
        return sum(await asyncio.gather(*map(self._unlinked_at_once, slices)))

    async def _unlinked_at_once(self, names: Sequence[str]) -> int:
        try:
            return int(await self._ask(("UNLINK", *names)))
        except Moving:
            return sum(await asyncio.gather(*(self._ask(("UNLINK", name)) for name in names)))

    def _announce(self, name: str) -> None:
        scope = keys.scope_key_in(name)
        if scope is None or scope in self._scopes:
            return
        if len(self._scopes) < MOST_SCOPE_KEYS:
            self._scopes[scope] = None
        else:
            self._truncated = True
