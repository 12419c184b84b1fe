"""Reading dead letters: which topics have them, what each says about itself, and which are wanted.

Everything in a letter but its place is input: what is read of it is bounded, and believed nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from events import cloudevents
from events.dead_letters import PREFIX, REASON_BYTES, REPLAY_COUNT
from events.records import RawMessage
from events.topics import DEAD_LETTER_SUFFIX, Topic, Topics

UNDECODABLE = "\ufffd"
NAME_BYTES = 256
"""Longest name that is read out of a header."""


@dataclass(frozen=True, slots=True, order=True)
class LetterPlace:
    """Where a letter lies: `context.build-requests-dlt/3/17`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Letter:
    """What a dead letter says of itself, without its body. Times in milliseconds since 1970."""

    place: LetterPlace
    at_ms: int
    """When it was buried."""
    error: str
    """Class of the error, such as `InvalidRequest`."""
    reason: str
    group: str
    original_offset: int | None
    original_ms: int | None
    workspace_ids: tuple[str, ...]
    """Whose it may be: as its key and its body name them."""
    replays: int
    """How often it was replayed before it was buried here."""
    truncated: bool
    bytes: int
    """Of key and value."""

    @property
    def original_topic(self) -> str:
        return self.place.topic.removesuffix(DEAD_LETTER_SUFFIX)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters: those that fit all that is given. Times in milliseconds since 1970."""

    reason: str | None = None
    """Part of the error's class or of the reason, in any case."""
    workspace_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def __contains__(self, letter: Letter) -> bool:
        wanted = (self.reason or "").lower()
        return (
            (wanted in letter.error.lower() or wanted in letter.reason.lower())
            and self.workspace_id in (None, *letter.workspace_ids)
            and (self.since_ms is None or letter.at_ms >= self.since_ms)
            and (self.until_ms is None or letter.at_ms < self.until_ms)
        )


def letter_of(raw: RawMessage) -> Letter:
    """What `raw`, a message of a topic of dead letters, says of itself."""
    headers = {name: value for name, value in raw.headers if name.startswith(PREFIX)}

    def text(name: str, most: int = NAME_BYTES) -> str:
        return (headers.get(PREFIX + name) or b"")[:most].decode(errors="replace")

    def number(name: str) -> int | None:
        value = headers.get(PREFIX + name)
        return int.from_bytes(value, "big", signed=True) if value and len(value) == 8 else None

    return Letter(
        place=LetterPlace(raw.topic, raw.partition, raw.offset),
        at_ms=raw.timestamp,
        error=text("exception-fqcn").rpartition(".")[2],
        reason=text("exception-message", REASON_BYTES),
        group=text("original-consumer-group"),
        original_offset=number("original-offset"),
        original_ms=number("original-timestamp"),
        workspace_ids=tuple(dict.fromkeys(_workspaces(raw))),
        replays=replays_of(raw),
        truncated=f"{PREFIX}truncated" in headers,
        bytes=len(raw.key or b"") + len(raw.value or b""),
    )


def replays_of(raw: RawMessage) -> int:
    """How often it was replayed; 0 where its header says nothing of use."""
    for name, value in raw.headers:
        if name == REPLAY_COUNT and value is not None and len(value) < 10 and value.isdigit():
            return int(value)
    return 0


def _workspaces(raw: RawMessage) -> Iterator[str]:
    """Of a change its key is one, of a request none."""
    key = raw.key.decode(errors="replace") if raw.key else None
    named: list[JsonValue] = [key]
    for part in cloudevents.peek(raw.value):
        for place in (part, part.get("input")):
            if isinstance(place, dict):
                named += [place.get("workspaceId"), place.get("workspace_id")]
    for value in named:
        found = cloudevents.usable_id(value)
        if found is not None and UNDECODABLE not in found:
            yield found


def place_of(text: str, topics: Topics) -> LetterPlace:
    """The place that `list` shows. Raises `InvalidRequest` for what is none."""
    topic, *numbers = text.split("/")
    if len(numbers) != 2 or not all(one.isdecimal() and len(one) < 19 for one in numbers):
        raise InvalidRequest(
            f"{text[:120]!r} is no letter; write TOPIC/PARTITION/OFFSET, as list shows it",
            field="letters",
        )
    buried_in(topic, topics)
    return LetterPlace(topic, int(numbers[0]), int(numbers[1]))


def buried_in(name: str, topics: Topics) -> Topic:
    """The topic of dead letters of that name, or that of the topic of that name.

    Raises `InvalidRequest`, which names those that there are.
    """
    buried = topics.buried()
    for topic in buried:
        if name in (topic.name, topic.name.removesuffix(DEAD_LETTER_SUFFIX)):
            return topic
    known = ", ".join(topic.name for topic in buried)
    raise InvalidRequest(f"{name[:120]!r} has no dead letters; there are {known}", field="topic")
