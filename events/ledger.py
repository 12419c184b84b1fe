"""Which dead letters were handled: a log that everybody reads alike, in a topic of one partition.

Kafka cannot remove one record, so a letter is handled when the log says so. Before a letter is
replayed or discarded it is *claimed*: of several claims the first in the log holds, and whoever
wrote another finds that out by reading the log as far as that. A claim that nothing followed is
void after a while, so that a letter is not lost with whoever claimed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Literal, Self, assert_never
from uuid import uuid4

from pydantic import Field, ValidationError

from context_engine.models import Contract
from context_engine.settings import Settings
from events.letterbox import Letterbox
from events.letters import Letter
from events.producer import Producer
from events.records import OutgoingRecord, Position, RawMessage
from events.topics import Topics

CLAIM_MS = 120_000
"""How long a claim keeps others off, by the broker's clock: longer than any batch takes."""

Act = Literal["claimed", "released", "replayed", "discarded"]
DONE: tuple[Act, ...] = ("replayed", "discarded")


class Handling(Contract):
    """One line of the log: what became of a dead letter. The key is the letter's place."""

    letter: Annotated[str, Field(max_length=400)]
    """Its topic, partition and offset, with slashes between them."""
    at_ms: int
    """When it was buried: a topic that is made anew counts its offsets anew."""
    act: Act
    claim: Annotated[str, Field(max_length=64)]
    """By whom: one id for each run of a command."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a letter stands, since when by the broker's clock."""

    act: Act
    claim: str
    since_ms: int


class Ledger:
    """The log, folded. Of a letter that was handled some 300 bytes are kept."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], State] = {}

    def apply(self, one: Handling, when_ms: int) -> None:
        """The next line of the log, and when the broker appended it."""
        key = one.letter, one.at_ms
        state, new = self._states.get(key), State(one.act, one.claim, when_ms)
        if state is not None and state.act in DONE:
            return
        match one.act:
            case "claimed":
                if state is None or when_ms - state.since_ms > CLAIM_MS:
                    self._states[key] = new
            case "released":
                if state is not None and state.claim == one.claim:
                    del self._states[key]
            case "replayed" | "discarded":
                self._states[key] = new
            case _:
                assert_never(one.act)

    def state(self, letter: Letter) -> State | None:
        """What became of it; None for nothing so far."""
        return self._states.get((str(letter.place), letter.at_ms))

    def handled(self, letter: Letter) -> bool:
        state = self.state(letter)
        return state is not None and state.act in DONE


class HandledLetters:
    """The log on its topic: `async with HandledLetters(settings) as handled`."""

    def __init__(self, settings: Settings) -> None:
        topics = Topics.of(settings)
        self._topic, self._id = topics.handled, uuid4().hex
        self._box = Letterbox(settings.kafka_bootstrap, [topics.handled])
        # A message at its topic's limit has one header more when it comes again.
        limits = {one.name: one.max_message_bytes + 64 for one in topics.all()}
        self.producer = Producer(
            settings.kafka_bootstrap, client_id="context-dead-letters", max_record_bytes=limits
        )
        self.ledger = Ledger()

    async def __aenter__(self) -> Self:
        """Reads the log as far as it goes. Raises `Unavailable`, also where there is no topic."""
        await self._box.__aenter__()
        try:
            await self.producer.start()
            async for raw in self._box.read():
                self._note(raw)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.producer.stop(patience=3.0)
        await self._box.__aexit__(kind, error, trace)

    async def claim(self, letters: Sequence[Letter]) -> list[Letter]:
        """Those of `letters` that are this command's to handle, and nobody else's."""
        open_ = [letter for letter in letters if not self.ledger.handled(letter)]
        ends = await self._write("claimed", open_)
        if ends:
            await self._read_behind(max(end.offset for end in ends))
        return [letter for letter in open_ if self._mine(letter)]

    async def note(self, act: Act, letters: Iterable[Letter]) -> None:
        """Writes what became of letters that were claimed. Raises `Unavailable`."""
        await self._write(act, list(letters))

    def _mine(self, letter: Letter) -> bool:
        state = self.ledger.state(letter)
        return state is not None and (state.act, state.claim) == ("claimed", self._id)

    async def _write(self, act: Act, letters: Sequence[Letter]) -> list[Position]:
        lines = [
            Handling(letter=str(one.place), at_ms=one.at_ms, act=act, claim=self._id)
            for one in letters
        ]
        records = [
            OutgoingRecord(self._topic.name, line.letter.encode(), line.model_dump_json().encode())
            for line in lines
        ]
        return await asyncio.gather(*(self.producer.send(record) for record in records))

    async def _read_behind(self, offset: int) -> None:
        async for raw in self._box.read_on(self._topic.name, offset):
            self._note(raw)

    def _note(self, raw: RawMessage) -> None:
        """Who may write to the topic is trusted; what is no line of the log says nothing."""
        try:
            line = Handling.model_validate_json(raw.value or b"")
        except ValidationError:
            return
        self.ledger.apply(line, raw.timestamp)
