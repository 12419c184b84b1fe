"""Dead letters by hand, on the real broker: listed, shown, replayed, buried again, discarded."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine.errors import InvalidRequest, NotFound
from context_engine.settings import Settings
from events import cloudevents, messages
from events.dead_letters import REPLAY_COUNT, dead_letter
from events.letters import LetterPlace, Wanted
from events.producer import Producer
from events.records import OutgoingRecord, RawMessage
from events.topics import Topics, ensure
from tests.support.bus import own_names, reader
from workers.cli.main import app
from workers.dead_letters import Outcome, Page, handle, page, read_one
from workers.house import settings_of
from workers.localstack import LocalStack
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(180)


Command = Callable[..., Awaitable[Any]]


def quiet(_read: int, _of: int) -> None:
    """Nobody looks at the progress here."""


class Buried:
    """Topics of this test's own, and what is buried there."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.topics = settings, Topics.of(settings)
        self.source = self.topics.change("membership")
        self.producer = Producer(settings.kafka_bootstrap, client_id="test-dead-letters")

    async def bury(self, key: str, value: bytes = b"{}", *more: tuple[str, bytes]) -> LetterPlace:
        """A letter of a message that the consumer could not read."""
        headers = (("ce_id", key.encode()), *more)
        raw = RawMessage(self.source.name, 2, 7, 1_000, key.encode(), value, headers)
        error = InvalidRequest("is not JSON", field="value")
        at = await self.producer.send(dead_letter(raw, error, "group"))
        return LetterPlace(at.topic, at.partition, at.offset)

    async def list(self, wanted: Wanted = Wanted(), **more: Any) -> Page:  # noqa: B008
        given = {"limit": 100, "progress": quiet, **more}
        return await page(self.settings, [self.source.dead_letters], wanted, **given)

    async def places(self, wanted: Wanted = Wanted()) -> list[LetterPlace]:  # noqa: B008
        return [one.place for one in (await self.list(wanted)).letters]

    async def handle(self, act: Any, *places: LetterPlace, **more: Any) -> Outcome:
        topics = [self.source.dead_letters]
        return await handle(
            self.settings, act, places=places, topics=topics, progress=quiet, **more
        )

    async def replays(self) -> list[RawMessage]:
        """What is on the topic that the letters came from."""
        async with reader(self.settings.kafka_bootstrap, self.source.name) as reading:
            return await reading.everything()


@pytest.fixture
async def buried(stack: LocalStack) -> AsyncIterator[Buried]:
    names = own_names()
    handled = {"CONTEXT_TOPIC_HANDLED": f"{names['CONTEXT_TOPIC_EVICTIONS']}.handled"}
    made = Buried(settings_of(stack.env() | names | handled))
    await ensure(made.settings.kafka_bootstrap, made.topics)
    await made.producer.start()
    yield made
    await made.producer.stop()


async def test_letters_are_listed_by_what_they_say(buried: Buried) -> None:
    """By reason, workspace and time, the oldest first, a page at a time."""
    first, second, third = [await buried.bury(f"w{n}") for n in (1, 2, 3)]
    assert await buried.places() == [first, second, third]
    assert await buried.places(Wanted(workspace_id="w2")) == [second]
    assert await buried.places(Wanted(reason="INVALID")) == [first, second, third]
    assert await buried.places(Wanted(reason="other")) == []
    (_, middle, last) = (await buried.list()).letters
    if first.offset + 2 == third.offset and middle.at_ms < last.at_ms:
        assert await buried.places(Wanted(until_ms=last.at_ms)) == [first, second]
    assert third in await buried.places(Wanted(since_ms=last.at_ms))
    assert await buried.places(Wanted(since_ms=last.at_ms + 60_000)) == []
    head = await buried.list(limit=2)
    assert ([one.place for one in head.letters], head.matched) == ([first, second], 3)
    rest = await buried.list(limit=2, after=second)
    assert ([one.place for one in rest.letters], rest.matched) == ([third], 1)
    assert (last.error, last.reason) == ("InvalidRequest", "value: is not JSON")
    assert (last.group, last.original_offset, last.original_ms) == ("group", 7, 1_000)


async def test_a_replay_is_what_came_with_a_count(buried: Buried) -> None:
    """Same key, value, partition and headers without those of the burial; then it is handled."""
    place = await buried.bury("w1", b"\x00\xff", ("trace", b"\xfe"), (REPLAY_COUNT, b"4"))
    other = await buried.bury("w2")
    assert (await buried.handle("replayed", place)).done == 1
    (raw,) = await buried.replays()
    assert (raw.key, raw.value, raw.partition) == (b"w1", b"\x00\xff", 2)
    assert raw.headers == ((REPLAY_COUNT, b"5"), ("ce_id", b"w1"), ("trace", b"\xfe"))
    assert await buried.places() == [other]
    again = await buried.handle("replayed", place)
    assert (again.done, again.already) == (0, 1)
    assert len(await buried.replays()) == 1
    _, state = await read_one(buried.settings, place)
    assert state is not None
    assert state.act == "replayed"


async def test_two_operators_at_once_replay_each_letter_once(buried: Buried) -> None:
    """Whoever claims first; nothing is left for a third."""
    for number in range(30):
        await buried.bury(f"w{number}")
    outcomes = await asyncio.gather(
        buried.handle("replayed"), buried.handle("replayed"), buried.handle("replayed")
    )
    assert sum(one.done for one in outcomes) == 30
    assert sum(one.done + one.already + one.others for one in outcomes) == 90
    keys = sorted(raw.key or b"" for raw in await buried.replays())
    assert keys == sorted(f"w{number}".encode() for number in range(30))
    assert await buried.places() == []


async def test_a_discard_is_for_good_and_may_be_repeated(buried: Buried) -> None:
    """By what they say; a letter that comes later is another."""
    await buried.bury("w1")
    kept = await buried.bury("w2")
    wanted = Wanted(workspace_id="w1")
    assert (await buried.handle("discarded", wanted=wanted)).done == 1
    again = await buried.handle("discarded", wanted=wanted)
    assert (again.done, again.already) == (0, 1)
    assert await buried.places() == [kept]
    later = await buried.bury("w1")
    assert set(await buried.places()) == {kept, later}
    assert await buried.replays() == []


async def test_what_cannot_be_sent_again_stays_and_says_why(buried: Buried) -> None:
    """A letter that was cut, and one that is not there; neither is handled, the rest is."""
    cut = await buried.bury("w1", b"x" * (1024 * 1024 + 5))
    good = await buried.bury("w2")
    missing = LetterPlace(good.topic, good.partition, good.offset + 100)
    outcome = await buried.handle("replayed", cut, good, missing)
    assert (outcome.done, outcome.skipped) == (1, 2)
    assert dict(outcome.why).keys() == {str(cut), str(missing)}
    assert await buried.places() == [cut]
    assert (await buried.handle("discarded", cut)).done == 1
    with pytest.raises(NotFound):
        await read_one(buried.settings, missing)


async def test_a_message_at_its_topics_limit_can_be_replayed(buried: Buried) -> None:
    """With its count it is larger than what a product may send."""
    place = await buried.bury("w", b"x" * (1024 * 1024 - 8))
    assert (await buried.handle("replayed", place)).done == 1
    (raw,) = await buried.replays()
    assert len(raw.value or b"") == 1024 * 1024 - 8


@pytest.fixture
def command(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`context-engine dead-letters` as typed, in this process; what it prints as JSON."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> tuple[int, str]:
        typed = ["dead-letters", *words, "--json"]
        monkeypatch.setattr(sys, "argv", ["context-engine", *typed])
        done = CliRunner().invoke(app, typed)
        return done.exit_code, done.stdout

    async def command(*words: str, code: int = 0) -> Any:
        left, out = await asyncio.to_thread(run, *words)
        assert left == code, out
        return json.loads(out)

    return command


async def test_a_poison_from_its_burial_to_its_end(
    command: Command, settings: Settings, house: dict[str, WorkerProcess]
) -> None:
    """Listed, shown, replayed; it fails again and comes back with the count; discarded."""
    workspace, topics = f"w-{secrets.token_hex(6)}", Topics.of(settings)
    of_it = ("--workspace", workspace)
    headers, value = cloudevents.encode(
        type=messages.BUILD_REQUESTED,
        source="test",
        id="e",
        data=json.dumps({"requestId": workspace, "input": {"workspaceId": workspace}}).encode(),
    )
    record = OutgoingRecord(topics.build_requests.name, b"k", value, headers)
    producer = Producer(settings.kafka_bootstrap, client_id="test-poison")
    await producer.start()
    try:
        await producer.send(record)
    finally:
        await producer.stop()

    async def buried(replays: int) -> Any:
        async with asyncio.timeout(60):
            while True:
                found = (await command("list", *of_it))["letters"]
                if found and found[0]["replays"] == replays:
                    return found

    (letter,) = await buried(0)
    assert letter["reason"].startswith("input.userId")
    shown = await command("show", letter["letter"])
    assert json.loads(shown["body"]["text"])["requestId"] == workspace
    assert (shown["key"], shown["handled"]) == ({"text": "k"}, None)
    assert (await command("replay", letter["letter"]))["replayed"] == 1
    (back,) = await buried(1)
    assert back["letter"] != letter["letter"]
    assert (await command("discard", *of_it))["discarded"] == 1
    assert (await command("list", *of_it))["letters"] == []
