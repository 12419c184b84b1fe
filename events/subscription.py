"""Subscriptions: messages of some topics as an async iterator, and how each kind is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from pydantic import ValidationError

from events.messages import ContextEvicted
from events.records import Position, RawMessage
from events.tail import Missed, Tail

T = TypeVar("T")


class Subscription(Generic[T]):
    """Messages of some topics, as an async iterator: each at least once, from now on.

    "Now" is when it starts: at the first `anext`, or earlier by `await start()` or `async with`,
    for whoever must not miss what happens in between. Nothing is buffered beyond one fetch, so a
    slow reader holds back its own subscription only. After an `Unavailable` it can be asked again
    and goes on where it stood; where that is not kept any more it raises `Missed`, once.
    """

    def __init__(self, tail: Tail, read: Callable[[RawMessage], T | None]) -> None:
        self._tail, self._read = tail, read
        self._ready: deque[RawMessage] = deque()
        self._given: dict[tuple[str, int], int] = {}
        self._started = False

    @property
    def positions(self) -> tuple[Position, ...]:
        """The next message of each partition, after those that were given: what another
        subscription, in another process perhaps, can go on from. Empty before the start."""
        return tuple(
            Position(
                one.topic,
                one.partition,
                max(one.offset, self._given.get((one.topic, one.partition), 0)),
            )
            for one in self._tail.began
        )

    async def start(self) -> Self:
        """From here on nothing is missed that is kept. Raises `Unavailable`."""
        if not self._started:
            await self._tail.start()
            self._started = True
        return self

    async def aclose(self) -> None:
        """Ends the subscription."""
        await self._tail.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next message. Raises `Unavailable` when the broker is away, `Missed` for a gap."""
        await self.start()
        while True:
            while self._ready:
                raw = self._ready.popleft()
                self._given[raw.topic, raw.partition] = raw.offset + 1
                if (found := self._read(raw)) is not None:
                    return found
            self._ready.extend(await self._tail.poll())


def evictions_of(workspace_id: str | None) -> Callable[[RawMessage], ContextEvicted | None]:
    """Reads announcements. Raises `Missed` for one that cannot be read: it says of something that
    it was taken back, and not of what."""
    wanted = workspace_id.encode() if workspace_id is not None else None

    def read(raw: RawMessage) -> ContextEvicted | None:
        # Without a key it concerns every workspace.
        if None not in (wanted, raw.key) and raw.key != wanted:
            return None
        try:
            return ContextEvicted.model_validate_json(raw.value or b"")
        except ValidationError as error:
            place = f"{raw.topic}[{raw.partition}] at {raw.offset}"
            raise Missed(f"the message in {place} cannot be read") from error

    return read


def of_workspace(
    workspace_id: str | None, parse: Callable[[bytes], T]
) -> Callable[[RawMessage], T | None]:
    """Reads messages whose key is the workspace; others, and what cannot be read, are None."""
    wanted = workspace_id.encode() if workspace_id is not None else None

    def read(raw: RawMessage) -> T | None:
        if wanted not in (None, raw.key) or raw.value is None:
            return None
        try:
            return parse(raw.value)
        except ValidationError:
            return None

    return read
