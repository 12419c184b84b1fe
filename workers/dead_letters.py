"""What operators do with dead letters: list, look at one, replay, discard. No command line here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from context_engine.errors import NotFound, Unavailable
from context_engine.settings import Settings
from events.dead_letters import replayed
from events.ledger import Act, HandledLetters, State
from events.letterbox import Letterbox, Progress
from events.letters import Letter, LetterPlace, Wanted, buried_in, letter_of
from events.producer import RecordRefused
from events.records import RawMessage
from events.topics import MIB, Topic, Topics

BATCH_LETTERS, BATCH_BYTES = 100, 16 * MIB
"""What is claimed and replayed at once, and so held in memory."""
MOST_SKIPPED = 100
"""Letters that could not be handled and are named one by one; all are counted."""
ANY = Wanted()
CUT = "was cut when it was buried; send it again from where it came"
GONE = "is not there, or not any more"


@dataclass(slots=True)
class Page:
    """Letters that nobody handled, the oldest first."""

    letters: list[Letter]
    matched: int
    """How many there are, with those of later pages."""


@dataclass(slots=True)
class Outcome:
    """What became of the letters that a command was to handle."""

    done: int = 0
    already: int = 0
    """Handled before."""
    others: int = 0
    """Claimed by somebody else who is at it."""
    skipped: int = 0
    why: list[tuple[str, str]] = field(default_factory=list)
    """Of those that were skipped the first, with the reason."""

    def skip(self, place: LetterPlace, why: str) -> None:
        self.skipped += 1
        if len(self.why) < MOST_SKIPPED:
            self.why.append((str(place), why))


def topics_of(settings: Settings, named: Sequence[str]) -> tuple[Topic, ...]:
    """Those named, by their own name or their source's; all without a name.

    Raises `InvalidRequest` for a name of no topic of dead letters.
    """
    topics = Topics.of(settings)
    if not named:
        return topics.buried()
    return tuple(dict.fromkeys(buried_in(name, topics) for name in named))


async def page(
    settings: Settings,
    topics: Sequence[Topic],
    wanted: Wanted,
    *,
    limit: int,
    after: LetterPlace | None = None,
    progress: Progress,
) -> Page:
    """The first `limit` letters that are wanted, behind `after` if one is given.

    Reads the topics whole and keeps no more than it shows. Raises `Unavailable`, and `NotFound`
    for an `after` that is not there any more.
    """
    async with (
        HandledLetters(settings) as handled,
        Letterbox(settings.kafka_bootstrap, topics) as box,
    ):
        start = _order(await _one(box, after)) if after is not None else None
        found: list[Letter] = []
        matched = 0
        async for raw in box.read(since_ms=wanted.since_ms, progress=progress):
            letter = letter_of(raw)
            if letter not in wanted or handled.ledger.handled(letter):
                continue
            if start is not None and _order(letter) <= start:
                continue
            matched += 1
            found.append(letter)
            if len(found) >= 2 * limit:
                found = sorted(found, key=_order)[:limit]
    return Page(sorted(found, key=_order)[:limit], matched)


def _order(letter: Letter) -> tuple[int, LetterPlace]:
    return letter.at_ms, letter.place


async def _one(box: Letterbox, place: LetterPlace) -> Letter:
    raw = await box.one(place.topic, place.partition, place.offset)
    if raw is None:
        raise NotFound("dead letter", str(place))
    return letter_of(raw)


async def read_one(settings: Settings, place: LetterPlace) -> tuple[RawMessage, State | None]:
    """One letter, with its body, and what became of it. Raises `NotFound`, `Unavailable`."""
    topic = buried_in(place.topic, Topics.of(settings))
    async with (
        HandledLetters(settings) as handled,
        Letterbox(settings.kafka_bootstrap, [topic]) as box,
    ):
        raw = await box.one(place.topic, place.partition, place.offset)
        if raw is None:
            raise NotFound("dead letter", str(place))
        return raw, handled.ledger.state(letter_of(raw))


async def handle(
    settings: Settings,
    act: Act,
    *,
    places: Sequence[LetterPlace] = (),
    topics: Sequence[Topic] = (),
    wanted: Wanted = ANY,
    progress: Progress,
) -> Outcome:
    """Replays or discards these letters; without `places` all that are `wanted` of `topics`.

    Each is handled by one command only, however many run. One that dies in the middle of a batch
    leaves letters that the next may replay a second time, never one that is lost. Raises
    `Unavailable`: what was handled until then stays handled.
    """
    outcome = Outcome()
    async with AsyncExitStack() as stack:
        handled = await stack.enter_async_context(HandledLetters(settings))
        if places:
            topics = topics_of(settings, [place.topic for place in places])
        box = await stack.enter_async_context(Letterbox(settings.kafka_bootstrap, topics))
        source = (
            _named(box, places, outcome)
            if places
            else box.read(since_ms=wanted.since_ms, progress=progress)
        )
        async for batch in _batches(source, wanted):
            await _handle_batch(handled, act, batch, outcome)
    return outcome


async def _named(
    box: Letterbox, places: Sequence[LetterPlace], outcome: Outcome
) -> AsyncIterator[RawMessage]:
    for place in dict.fromkeys(places):
        raw = await box.one(place.topic, place.partition, place.offset)
        if raw is None:
            outcome.skip(place, GONE)
        else:
            yield raw


async def _batches(
    source: AsyncIterator[RawMessage], wanted: Wanted
) -> AsyncIterator[list[tuple[Letter, RawMessage]]]:
    batch: list[tuple[Letter, RawMessage]] = []
    size = 0
    async for raw in source:
        letter = letter_of(raw)
        if letter not in wanted:
            continue
        batch.append((letter, raw))
        size += letter.bytes
        if len(batch) >= BATCH_LETTERS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _handle_batch(
    handled: HandledLetters, act: Act, batch: list[tuple[Letter, RawMessage]], outcome: Outcome
) -> None:
    before = [letter for letter, _ in batch if handled.ledger.handled(letter)]
    mine = {letter.place for letter in await handled.claim([letter for letter, _ in batch])}
    outcome.already += len(before)
    outcome.others += len(batch) - len(before) - len(mine)
    claimed = [(letter, raw) for letter, raw in batch if letter.place in mine]
    if act != "replayed":
        await handled.note(act, [letter for letter, _ in claimed])
        outcome.done += len(claimed)
        return
    sent = await asyncio.gather(*(_replay(handled, *one) for one in claimed))
    done = [letter for (letter, _), why in zip(claimed, sent, strict=True) if why is None]
    left = [letter for letter, _ in claimed if letter not in done]
    await handled.note(act, done)
    await handled.note("released", left)
    outcome.done += len(done)
    for letter, why in ((one, why) for (one, _), why in zip(claimed, sent, strict=True)):
        if isinstance(why, Unavailable):
            raise why
        if why is not None:
            outcome.skip(letter.place, why)


async def _replay(
    handled: HandledLetters, letter: Letter, raw: RawMessage
) -> str | Unavailable | None:
    """None once the broker has it; else why it has not."""
    if letter.truncated:
        return CUT
    try:
        await handled.producer.send(replayed(raw, letter.replays + 1))
    except RecordRefused as refused:
        return refused.message
    except Unavailable as away:
        return away
    return None
