"""Bad input through the real build worker: buried with the reason, answered, and gone on from."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Set
from secrets import token_hex
from typing import Any

import pytest

from context_engine.adapters.sql import tables as t
from context_engine.errors import ReplyRefused
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events import cloudevents, messages
from events.client import ContextClient
from events.messages import BuildFailed
from events.producer import Producer
from events.records import Headers, OutgoingRecord, RawMessage
from events.tail import Tail
from events.topics import DEAD_LETTER_SUFFIX, MIB, Topics
from tests.support.schemas import validate_message
from tests.support.world import World
from workers.supervisor import WorkerProcess

WAIT_SECONDS = 20.0
GOOD = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))


class Wire:
    """Raw requests out; replies and dead letters in, by the id of their request."""

    def __init__(self, settings: Settings) -> None:
        self._topics = Topics.of(settings)
        self._producer = Producer(settings.kafka_bootstrap, client_id="test-bad-input")
        requests = self._topics.build_requests
        names = (self._topics.ready.name, requests.dead_letters.name)
        self._tail = Tail(settings.kafka_bootstrap, names, max_bytes=4 * MIB)
        self.replies: dict[str, list[RawMessage]] = defaultdict(list)
        self.dead: dict[bytes | None, RawMessage] = {}

    async def start(self) -> None:
        await self._producer.start()
        await self._tail.start()

    async def stop(self) -> None:
        await self._tail.stop()
        await self._producer.stop()

    async def send(self, value: bytes | None, headers: Headers, key: bytes | None = None) -> bytes:
        """Sends a request as it is; the key that its dead letter bears."""
        key = key or token_hex(8).encode()
        topic = self._topics.build_requests.name
        await self._producer.send(OutgoingRecord(topic, key, value, headers))
        return key

    async def until(self, ids: Set[str], keys: Set[bytes] = frozenset()) -> None:
        """Waits for a reply to each id and a dead letter of each key."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (self.replies.keys() >= ids and self.dead.keys() >= keys):
                for raw in await self._tail.poll():
                    self._note(raw)

    def _note(self, raw: RawMessage) -> None:
        if raw.topic.endswith(DEAD_LETTER_SUFFIX):
            self.dead[raw.key] = raw
        else:
            validate_message(raw)
            self.replies[(raw.key or b"").decode()].append(raw)

    def failure(self, id: str) -> BuildFailed:
        """The one reply to `id`."""
        (raw,) = self.replies[id]
        return BuildFailed.model_validate_json(raw.value or b"")

    def reason(self, key: bytes) -> str:
        return (dict(self.dead[key].headers)["kafka_dlt-exception-message"] or b"").decode()


@pytest.fixture
async def wire(settings: Settings, house: dict[str, WorkerProcess]) -> AsyncIterator[Wire]:
    made = Wire(settings)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


def request(id: str, **more: object) -> bytes:
    given: dict[str, Any] = {"userId": "ana", "workspaceId": "w", **more}
    return json.dumps({"requestId": id, "input": given}).encode()


def event(*extra: tuple[str, bytes | None]) -> Headers:
    headers, _ = cloudevents.encode(
        type=messages.BUILD_REQUESTED, source="test", id=token_hex(8), data=b"", extra=extra
    )
    return headers


def without(name: str) -> Headers:
    return tuple(one for one in event() if one[0] != name)


async def test_bad_requests_are_buried_answered_and_gone_on_from(
    wire: Wire, client: ContextClient
) -> None:
    """Each is in the dead letters with its reason and answered by field; then a good one is."""
    silent = {
        await wire.send(None, event()): "value",
        await wire.send(b"{", event()): "",
        await wire.send(b'{"requestId": "\xff"}', event()): "",
        await wire.send(b"[" * 100_000 + b"]" * 100_000, event()): "",
        await wire.send(request("x" * 201), event()): "requestId",
    }
    name = token_hex(4)
    many = [f"t{n}" for n in range(10_000)]
    bad: list[tuple[str, dict[str, Any], Headers]] = [
        ("input.tableIds", {"tableIds": many}, event()),
        ("input.tableIds", {"tableIds": "t0"}, event()),
        ("input.userId", {"userId": None}, event()),
        ("input.taskId", {"taskId": "x" * 201}, event()),
        ("input.locale", {"locale": "klingon"}, event()),
        ("input.timezone", {"timezone": "Mars/Base"}, event()),
        ("input.message", {"message": "x" * 900_000}, event()),
        ("ce_specversion", {}, ()),
        ("ce_type", {}, without("ce_type")),
        ("ce_id", {}, (*without("ce_id"), ("ce_id", b"\xff"))),
    ]
    answered = {}
    for number, (field, more, headers) in enumerate(bad):
        id = f"{name}-{number}"
        answered[id] = (await wire.send(request(id, **more), headers), field)
    await wire.until(set(answered), {*silent, *(key for key, _ in answered.values())})
    for key, start in silent.items():
        assert wire.reason(key).startswith(start)
    for id, (key, field) in answered.items():
        said = wire.failure(id)
        assert (said.code, said.field) == ("invalid_request", field)
        assert wire.reason(key).startswith(field)
    assert (await client.request(GOOD)).context.user.id == "ana"


async def test_odd_keys_and_headers_are_let_in(wire: Wire) -> None:
    """A key and headers of others that are not UTF-8 concern nobody here."""
    id = token_hex(8)
    headers = event(("trace", b"\xff\xfe"), ("empty", None))
    await wire.send(request(id), headers, key=b"\xff\x00")
    await wire.until({id})
    (ready,) = wire.replies[id]
    assert validate_message(ready) == messages.READY


async def test_replies_that_cannot_be_delivered_become_failures(
    wire: Wire, client: ContextClient
) -> None:
    """A topic outside the list, and a partition that is not there: told on the default topic."""
    elsewhere, nowhere = token_hex(8), token_hex(8) + "\u00a0"
    correlation = ("kafka_correlationId", b"\x00\xff")
    await wire.send(
        request(elsewhere), event(("kafka_replyTopic", b"domain.grant-change"), correlation)
    )
    place = ("kafka_replyPartition", (999).to_bytes(4, "big"))
    await wire.send(
        request(nowhere), event(("kafka_replyTopic", b"context.ready"), place, correlation)
    )
    await wire.until({elsewhere, nowhere})
    for id in (elsewhere, nowhere):
        assert wire.failure(id).code == "reply_refused"
        assert correlation in wire.replies[id][0].headers
    assert (await client.request(GOOD)).context.user.id == "ana"


async def test_a_context_over_the_limit_of_its_topic_becomes_a_failure(
    wire: Wire, client: ContextClient, world: World
) -> None:
    """More than 4 MiB: told on the default topic, wherever the reply was to go; not buried."""
    workspace, named = f"wide-{token_hex(4)}", token_hex(8)
    await world.add(t.workspaces, {"id": workspace, "name": "名" * 2 * MIB})
    await world.add(t.members, {"workspace_id": workspace, "user_id": "ana", "role": "admin"})
    with pytest.raises(ReplyRefused, match="takes at most"):
        await client.request(GOOD.model_copy(update={"workspace_id": workspace, "table_ids": ()}))
    place = ("kafka_replyPartition", (3).to_bytes(4, "big"))
    correlation = ("kafka_correlationId", b"\x00\xff")
    key = await wire.send(
        request(named, workspaceId=workspace),
        event(("kafka_replyTopic", b"context.ready"), place, correlation),
    )
    await wire.until({named})
    said = wire.failure(named)
    assert (said.code, said.retryable) == ("reply_refused", False)
    assert correlation in wire.replies[named][0].headers
    assert key not in wire.dead
    assert (await client.request(GOOD)).context.user.id == "ana"
