"""What was sent, and what became of it: every id is answered, refused, buried or lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pydantic_core import from_json

from context_engine.errors import Unavailable
from context_engine.settings import Settings
from events import cloudevents, messages
from events.records import Position, RawMessage
from events.tail import Tail
from events.topics import DEAD_LETTER_SUFFIX, Topics
from tests.faults.sent import Kind, Outcome, Sent

MARK = "fault-id"
"""The header that a record of the suite bears, so that its dead letter is known again."""


class Ledger:
    """Reads every reply, announcement and dead letter of a house, beside whoever sends, and the
    requests and changes themselves: what a relay sends, and what is sent twice."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._ready, self._evictions = topics.ready.name, topics.evictions.name
        read = (topics.build_requests, *topics.changes())
        self._read_by_workers = {one.name for one in read}
        dead = (one.dead_letters.name for one in read)
        names = (self._ready, self._evictions, *dead, *self._read_by_workers)
        largest = topics.ready.max_message_bytes
        self._tail = Tail(settings.kafka_bootstrap, names, max_bytes=largest)
        self._came = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self.sent: dict[str, Sent] = {}
        self.open: dict[str, Sent] = {}
        """Taken by the broker, and nothing has come of it yet; the oldest first."""
        self.unsure: set[str] = set()
        """Nobody acknowledged them: they may be on their topic or not."""
        self.wrong: list[str] = []
        """Answers that say what another's would, or what cannot be read."""
        self._early: dict[str, list[Outcome]] = {}
        """Of domain writes, whose ids their writer learns after the relay has."""
        self._early_places: dict[str, list[Position]] = {}

    async def start(self) -> None:
        await self._tail.start()
        self._reading = asyncio.create_task(self._read())

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._tail.stop()

    # -- what is sent --

    def ask(self, id: str, expects: Mapping[str, Any] | None = None, *, ours: bool = True) -> Sent:
        """Notes an id before it is sent: its answer may come before the acknowledgement."""
        made = self.sent[id] = Sent(id, time.monotonic(), expects or {}, ours=ours)
        for place in self._early_places.pop(id, ()):
            self._seen(made, place)
        if early := self._early.pop(id, []):
            made.outcomes += early
        else:
            self.open[id] = made
        return made

    def taken(self, sent: Sent, place: Position | None) -> None:
        """The broker has it; or, without a place, nobody knows."""
        sent.place = place or sent.place
        if sent.place is None:
            self.open.pop(sent.id, None)
            self._came.set()
            if not sent.outcomes:
                self.unsure.add(sent.id)

    # -- what comes --

    async def _read(self) -> None:
        while True:
            try:
                for raw in await self._tail.poll():
                    self._note(raw)
            except Unavailable:  # the broker is away: a fault under test
                await asyncio.sleep(0.1)

    def _note(self, raw: RawMessage) -> None:
        came = time.monotonic()
        if raw.topic in self._read_by_workers:
            self._note_sent(raw)
            return
        if raw.topic == self._ready:
            id, outcome = (raw.key or b"").decode(errors="replace"), self._reply(raw, came)
        elif raw.topic == self._evictions:
            id = str(from_json(raw.value or b"{}").get("changeId"))
            outcome = Outcome("answered", raw.timestamp, came)
        elif raw.topic.endswith(DEAD_LETTER_SUFFIX):
            headers = dict(raw.headers)
            id = (headers.get(MARK) or b"").decode(errors="replace")
            reason = headers.get("kafka_dlt-exception-message") or b""
            outcome = Outcome("dead", raw.timestamp, came, reason.decode(errors="replace"))
        if (sent := self.sent.get(id)) is None:
            self._early.setdefault(id, []).append(outcome)
            return
        sent.outcomes.append(outcome)
        self.open.pop(id, None)
        self.unsure.discard(id)
        self._came.set()

    def _note_sent(self, raw: RawMessage) -> None:
        headers = dict(raw.headers)
        id = (headers.get(MARK) or headers.get("ce_id") or b"").decode(errors="replace")
        place = Position(raw.topic, raw.partition, raw.offset)
        if (sent := self.sent.get(id)) is not None:
            self._seen(sent, place)
        elif headers.get("ce_type") != messages.HEARTBEAT.encode():
            self._early_places.setdefault(id, []).append(place)

    def _seen(self, sent: Sent, place: Position) -> None:
        """It is on its topic, whatever its sender was told."""
        sent.copies += 1
        sent.place = sent.place or place
        if sent.id in self.unsure:
            self.unsure.discard(sent.id)
            self.open[sent.id] = sent

    def _reply(self, raw: RawMessage, came: float) -> Outcome:
        event = cloudevents.decode(raw)
        said = from_json(event.data)
        if event.type == messages.READY:
            self._compare(said)
            return Outcome("answered", raw.timestamp, came)
        return Outcome("refused", raw.timestamp, came, said["code"], said["retryable"])

    def _compare(self, said: dict[str, Any]) -> None:
        sent = self.sent.get(said["requestId"])
        for path, expected in sent.expects.items() if sent is not None else ():
            found: Any = said["context"]
            for step in path.split("."):
                found = (found or {}).get(step)
            if found != expected:
                self.wrong.append(f"{said['requestId']}: {path} is {found!r}, not {expected!r}")

    # -- what it comes to --

    async def settled(self, within: float) -> None:
        """Until something has come of everything, or the bound is reached."""
        await self.until(lambda: not self.open, within)

    async def until(self, holds: Callable[[], bool], within: float) -> bool:
        """Whether it came to hold in time, looked at whenever something comes."""
        try:
            async with asyncio.timeout(within):
                while not holds():
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            return False
        return True

    def served(self, since: float, topic: str, partitions: Collection[int]) -> bool:
        """Whether each of these partitions has answered what was sent to it since then, and
        nothing that is open has waited for a second."""
        if self.open and time.monotonic() - next(iter(self.open.values())).asked > 1.0:
            return False
        left = set(partitions)
        for sent in reversed(self.sent.values()):
            if sent.asked < since or not left:
                break
            if sent.place is not None and sent.place.topic == topic and sent.has("answered"):
                left.discard(sent.place.partition)
        return not left

    def count(self, kind: Kind) -> int:
        """Ids of which this came; what was answered in the end was not refused."""
        if kind == "refused":
            return sum(one.has("refused") and not one.has("answered") for one in self.sent.values())
        return sum(one.has(kind) for one in self.sent.values())

    @property
    def refusals(self) -> dict[str, int]:
        """How many ids were refused with each code."""
        found: dict[str, int] = {}
        for sent in self.sent.values():
            for code in {one.code for one in sent.outcomes if one.kind == "refused"}:
                found[code] = found.get(code, 0) + 1
        return found

    @property
    def final_refusals(self) -> list[str]:
        """Ids that were refused for good: trying again would change nothing."""
        return [
            sent.id
            for sent in self.sent.values()
            if any(one.kind == "refused" and not one.retryable for one in sent.outcomes)
        ]

    @property
    def duplicates(self) -> dict[str, int]:
        """How often more than once, by topic."""
        found: dict[str, int] = {}
        for sent in self.sent.values():
            if sent.duplicates:
                topic = sent.place.topic if sent.place else "?"
                found[topic] = found.get(topic, 0) + sent.duplicates
        return found
