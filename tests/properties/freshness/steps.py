"""Actors that take one step at a time: whoever is told to go on goes to its next stop.

A stop is a place in a port where something else may come first. Whoever has no actor, or one that
runs freely, passes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar

from context_engine.flights import Flight

Result = TypeVar("Result")
BOUND_SECONDS = 60.0
"""For what takes milliseconds: a machine that stands still for a while is no finding."""

CURRENT: ContextVar[Actor[Any] | None] = ContextVar("actor", default=None)


class Crowd:
    """The actors of one world."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.all: list[Actor[Any]] = []

    def begin(self, name: str, work: Coroutine[Any, Any, Result], *, freely: bool) -> Actor[Result]:
        made = Actor(self, name, work, freely=freely)
        self.all.append(made)
        return made

    async def settle(self) -> None:
        """Until all stand, wait for one another or have ended. Who polls looks once more, and again
        where another's look came to something."""
        await self._stand()
        before, polling = None, self._polling()
        while polling != before:
            for one in polling:
                one.go()
            await self._stand()
            before, polling = polling, self._polling()

    def _polling(self) -> list[Actor[Any]]:
        return [one for one in self.all if one.polls]

    async def _stand(self) -> None:
        async with asyncio.timeout(BOUND_SECONDS):
            while any(one.moving for one in self.all):
                self.changed.clear()
                await self.changed.wait()

    async def end(self, ending: Iterable[Actor[Any]]) -> None:
        """As if their processes were killed."""
        for one in ending:
            one.freely = True
            one.task.cancel()
            await asyncio.wait((one.task,))
        self.all = [one for one in self.all if not one.task.done()]


class Actor(Generic[Result]):
    """A task with a name."""

    def __init__(
        self, crowd: Crowd, name: str, work: Coroutine[Any, Any, Result], *, freely: bool
    ) -> None:
        self.name, self.freely, self._crowd = name, freely, crowd
        self.at: str | None = None
        """Where it stands."""
        self.polls = False
        """It stands there until others have taken a step, though it runs freely."""
        self.waits_for: Watched[Any] | None = None
        self._go = asyncio.Event()
        context = copy_context()
        context.run(CURRENT.set, self)
        self.task: asyncio.Task[Result] = asyncio.get_running_loop().create_task(
            work, context=context
        )
        self.task.add_done_callback(self._tell)

    def _tell(self, *_: object) -> None:
        self._crowd.changed.set()

    @property
    def moving(self) -> bool:
        """Whether it comes to its next stop by itself."""
        if self.task.done() or self.at is not None:
            return False
        flight = self.waits_for
        if flight is None or flight.task.done() or flight.owner is None:
            return True
        owner = flight.owner
        return owner is self or (owner.freely and owner.at is None)

    async def stop(self, point: str, *, polls: bool = False) -> None:
        if self.freely and not polls:
            return
        self.at, self.polls = point, self.freely
        self._go.clear()
        self._tell()
        await self._go.wait()

    def go(self, *, freely: bool = False) -> None:
        self.freely = self.freely or freely
        self.at, self.polls = None, False
        self._go.set()

    def wait_for(self, flight: Watched[Any] | None) -> None:
        self.waits_for = flight
        self._tell()


async def stop(point: str, *, polls: bool = False) -> None:
    """A stop of whoever comes here; `polls`: of those who run freely too, for a step of others."""
    if (actor := CURRENT.get()) is not None:
        await actor.stop(point, polls=polls)


class Watched(Flight[Result]):
    """A flight that knows whose steps are its own; in place of the engine's."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.owner = CURRENT.get()

    async def ended(self) -> None:
        actor = CURRENT.get()
        if actor is None:
            return await super().ended()
        actor.wait_for(self)
        try:
            await super().ended()
        finally:
            actor.wait_for(None)
