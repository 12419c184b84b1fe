"""Gathers what is asked while a round trip is under way into the next one.

A batch runs in a task of its own: whoever stops waiting takes nothing away from the others, and
never leaves an answer on a connection for somebody else to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

Command = tuple[str | bytes | int | float, ...]
"""A command of the Redis protocol with its arguments."""

Reply = Any
"""What the protocol's parser made of a reply; the command's own pack says which shape it has."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class Pack(Protocol[Item_contra, Answer_co]):
    """Makes one command of several items, and takes its reply apart again."""

    @property
    def most(self) -> int:
        """How many items one command takes: it blocks the store for all of them."""

    @property
    def shared(self) -> bool:
        """Whether equal items that travel together may have one answer."""

    def command(self, items: Sequence[Item_contra], /) -> Command: ...

    def answers(self, items: Sequence[Item_contra], reply: Reply, /) -> Sequence[Answer_co]:
        """One answer for each item, in order."""


Send = Callable[[list[Command]], Awaitable[list[Reply]]]
"""One round trip: a reply for each command, or the error that stands in its place."""


@dataclass(slots=True)
class _Group(Generic[Item, Answer]):
    pack: Pack[Item, Answer]
    items: list[Item] = field(default_factory=list)
    waiting: list[list[asyncio.Future[Answer]]] = field(default_factory=list)
    places: dict[Item, int] = field(default_factory=dict)

    def add(self, item: Item, future: asyncio.Future[Answer]) -> None:
        """Equal items of a pack that only reads are one."""
        place = self.places.setdefault(item, len(self.items)) if self.pack.shared else -1
        if place in (-1, len(self.items)):
            self.items.append(item)
            self.waiting.append([future])
        else:
            self.waiting[place].append(future)

    def settle(self, reply: Reply) -> None:
        if isinstance(reply, BaseException):
            self.fail(reply)
            return
        for futures, answer in zip(self.waiting, self.pack.answers(self.items, reply), strict=True):
            for future in futures:
                if not future.done():
                    future.set_result(answer)

    def fail(self, error: BaseException) -> None:
        for future in chain.from_iterable(self.waiting):
            if not future.done():
                future.set_exception(error)


class Batcher:
    """One round trip at a time, and in each everything that was asked before it began."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._groups: list[_Group[Any, Any]] = []
        self._open: dict[tuple[int, Hashable], _Group[Any, Any]] = {}
        self._runner: asyncio.Task[None] | None = None

    async def ask(self, pack: Pack[Item, Answer], place: Hashable, item: Item) -> Answer:
        """The answer to `item`; items of one pack and place travel as one command."""
        group = self._open.get((id(pack), place))
        if group is None or len(group.items) >= pack.most:
            group = _Group(pack)
            self._groups.append(group)
            self._open[id(pack), place] = group
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        group.add(item, future)
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="redis-batches")
        return await future

    async def _run(self) -> None:
        try:
            while self._groups:
                groups, self._groups = self._groups, []
                self._open.clear()
                await self._round_trip(groups)
        finally:
            self._runner = None
            for group in self._groups:
                group.fail(asyncio.CancelledError())

    async def _round_trip(self, groups: Sequence[_Group[Any, Any]]) -> None:
        """Every error goes to those who wait for the answer; none ends the runner."""
        try:
            replies = await self._send([group.pack.command(group.items) for group in groups])
        except asyncio.CancelledError as error:
            for group in groups:
                group.fail(error)
            raise
        except Exception as error:  # noqa: BLE001 - handed to every waiter, hidden from none
            for group in groups:
                group.fail(error)
            return
        for group, reply in zip(groups, replies, strict=True):
            try:
                group.settle(reply)
            except Exception as error:  # noqa: BLE001 - a reply of another shape fails its own
                group.fail(error)
