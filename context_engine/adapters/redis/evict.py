"""Unlinking, in slices that never hold up the store: for memory and for announcements only."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

from context_engine import keys
from context_engine.adapters.redis import packs
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.adapters.redis.link import Foreign, Moving
from context_engine.errors import Unavailable
from context_engine.ports import Evicted

SLICE = 50
"""Names taken from an index, and unlinked, at once: in much less than 2 ms of the store's time."""

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
        except Moving:
            return await self._popped_empty(index)
        except Unavailable as error:
            if "no such key" not in error.message:
                raise
            return 0  # another has emptied it meanwhile
        while names := await self._ask(("ZRANGE", aside, at, at + SLICE - 1)):
            count += await self._unlink(name.decode() for name in names)
            at += SLICE
        await self._ask(("UNLINK", aside))
        return count

    async def _popped_empty(self, index: str) -> int:
        """Of an index that cannot be put aside: while its slot moves between two servers of a
        cluster, a command of two names, of which one is new, finds no place for as long as that
        takes."""
        count = 0
        while names := (await self._popped(index))[::2]:
            count += await self._unlink(name.decode() for name in names)
        return count

    async def _popped(self, index: str) -> Reply:
        try:
            return await self._ask(("ZPOPMIN", index, SLICE))
        except Foreign:
            await self._ask(("UNLINK", index))
            return []

    async def _unlink(self, members: Iterable[str]) -> int:
        """How many there were of those that are told of."""
        found = dict.fromkeys(map(keys.unquiet, members))
        told = [name for name, aloud in found if aloud]
        count = 0
        for name, one in zip(told, await self._sliced(self._dropped, told), strict=True):
            count += max(one, 0)
            if one >= 0:
                self._announce(name)
        # After those: what is both, an answer in the place of a denial, is told of.
        await self._sliced(self._unlinked, [name for name, aloud in found if not aloud])
        return count

    async def _sliced(
        self, act: Callable[[Sequence[str]], Awaitable[Sequence[int]]], names: Sequence[str]
    ) -> list[int]:
        slices = [names[at : at + SLICE] for at in range(0, len(names), SLICE)]
        return [one for found in await asyncio.gather(*map(act, slices)) for one in found]

    async def _dropped(self, names: Sequence[str]) -> Sequence[int]:
        try:
            found: list[int] = await self._ask(packs.call("drop", names, ()))
        except Moving:
            each = await asyncio.gather(*(self._ask(packs.call("drop", (n,), ())) for n in names))
            return [one for (one,) in each]
        return found

    async def _unlinked(self, names: Sequence[str]) -> Sequence[int]:
        try:
            await self._ask(("UNLINK", *names))
        except Moving:
            await asyncio.gather(*(self._ask(("UNLINK", name)) for name in names))
        return ()

    def _announce(self, name: str) -> None:
        scope = keys.scope_key_in(name)
        if scope is None or scope in self._scopes:
            return
        if len(self._scopes) < MOST_SCOPE_KEYS:
            self._scopes[scope] = None
        else:
            self._truncated = True
