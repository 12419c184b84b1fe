"""The build worker's handler over an engine of the test's: every request is answered or buried."""

from __future__ import annotations

import json
import math
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from context_engine.engine import Answer, ContextEngine
from context_engine.errors import NotFound, RateLimited, Unavailable
from context_engine.settings import Settings
from events import cloudevents, messages
from events.messages import BuildFailed
from events.producer import RecordTooLarge, UnknownPartition
from events.records import Headers, OutgoingRecord, RawMessage
from events.topics import Topics
from tests.support.schemas import validate_message
from workers.build_handler import BuildHandler

pytestmark = pytest.mark.unit

SETTINGS = Settings.model_validate(
    {"tag_secret": "s" * 32, "reply_topics": ("context.ready", "replies")}
)
TOPICS = Topics.of(SETTINGS)
READY, DEAD = "context.ready", "context.build-requests-dlt"


class Engine:
    """Answers each request alike, or raises what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.built, self.until = error, 0, 0.0

    async def build(self, *_: object, until: float, **__: object) -> Answer:
        self.built += 1
        self.until = until
        if self.error is not None:
            raise self.error
        return Answer("c1", "h1", "build", b"{}")


def handler(engine: Engine | None = None) -> BuildHandler:
    return BuildHandler(cast("ContextEngine", engine or Engine()), TOPICS, SETTINGS)


def body(**more: object) -> dict[str, Any]:
    """A good request; `more` goes into its input."""
    return {"requestId": "r1", "input": {"userId": "ana", "workspaceId": "w", **more}}


def message(value: object, extra: Headers = (), *, key: bytes = b"w") -> RawMessage:
    """A request in binary mode; bytes go as they are, all else as JSON."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers, _ = cloudevents.encode(
        type=messages.BUILD_REQUESTED, source="test", id="e1", data=data, extra=extra
    )
    return RawMessage("context.build-requests", 3, 7, 0, key, data, headers)


def bare(value: bytes | None, headers: Headers = ()) -> RawMessage:
    return RawMessage("context.build-requests", 3, 7, 0, b"w", value, headers)


def failure(record: OutgoingRecord) -> BuildFailed:
    """What a failure on the bus says; it fits its committed schema."""
    raw = RawMessage(record.topic, 0, 0, 0, record.key, record.value, record.headers)
    assert validate_message(raw) == messages.BUILD_FAILED
    return BuildFailed.model_validate_json(record.value or b"")


def reason(record: OutgoingRecord) -> str:
    return (dict(record.headers)["kafka_dlt-exception-message"] or b"").decode()


def nested(depth: int) -> bytes:
    """A request whose metadata is `depth` arrays deep."""
    text = json.dumps(body(metadata={"a": "HERE"}))
    return text.replace('"HERE"', "[" * depth + "]" * depth).encode()


def structured(data: object) -> RawMessage:
    event = {"specversion": "1.0", "id": "e", "source": "s", "type": "context.build.requested"}
    value = json.dumps({**event, "data": data}).encode()
    return bare(value, (("content-type", b"application/cloudevents+json"),))


def in_base_64(data: object) -> RawMessage:
    event = {"specversion": "1.0", "id": "e", "source": "s", "type": "context.build.requested"}
    encoded = b64encode(json.dumps(data).encode()).decode()
    value = json.dumps({**event, "data_base64": encoded}).encode()
    return bare(value, (("content-type", b"application/cloudevents+json"),))


def without(name: str) -> RawMessage:
    raw = message(body())
    return bare(raw.value, tuple(one for one in raw.headers if one[0] != name))


MANY = [f"t{n}" for n in range(10_000)]

ANSWERED = {
    "no user": (message({"requestId": "r1", "input": {"workspaceId": "w"}}), "input.userId"),
    "no input": (message({"requestId": "r1"}), "input"),
    "a wrong type": (message(body(tableIds="t0")), "input.tableIds"),
    "a wrong type inside": (message(body(tableIds=[1])), "input.tableIds.0"),
    "a null user": (message(body(userId=None)), "input.userId"),
    "an empty id": (message(body(taskId="")), "input.taskId"),
    "an over-long id": (message(body(taskId="x" * 201)), "input.taskId"),
    "a control character": (message(body(taskId="a\nb")), "input.taskId"),
    "an over-long message": (message(body(message="x" * 200_001)), "input.message"),
    "900 KB": (message(body(message="x" * 900_000)), "input.message"),
    "10,000 tables": (message(body(tableIds=MANY)), "input.tableIds"),
    "an unknown locale": (message(body(locale="klingon")), "input.locale"),
    "an unknown zone": (message(body(timezone="Mars/Base")), "input.timezone"),
    "a path as zone": (message(body(timezone="../../etc/passwd")), "input.timezone"),
    "deep metadata": (message(nested(20)), "input.metadata"),
    "a wrong option": (message({**body(), "options": {"fresh": "maybe"}}), "options.fresh"),
    "structured, wrong": (structured(body(tableIds="t0")), "input.tableIds"),
    "in base 64, wrong": (in_base_64(body(tableIds="t0")), "input.tableIds"),
    "two content types": (message(body(), (("content-type", b"text/json"),)), "content-type"),
    "no version": (without("ce_specversion"), "ce_specversion"),
    "no event id": (without("ce_id"), "ce_id"),
    "no type": (without("ce_type"), "ce_type"),
    "no event at all": (bare(json.dumps(body()).encode()), "ce_specversion"),
    "invalid UTF-8 in a header": (
        bare(
            json.dumps(body()).encode(),
            (("ce_specversion", b"1.0"), ("ce_id", b"\xff"), ("ce_source", b"s")),
        ),
        "ce_id",
    ),
    "another type": (
        bare(
            json.dumps(body()).encode(),
            (("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"s"), ("ce_type", b"t")),
        ),
        "ce_type",
    ),
}  # fmt: skip

SILENT = {
    "a null value": bare(None),
    "no bytes": message(b""),
    "not JSON": message(b"{"),
    "invalid UTF-8": message(b'{"requestId": "\xff"}'),
    "an array": message(b"[]"),
    "null": message(b"null"),
    "no id": message({"input": {"userId": "ana", "workspaceId": "w"}}),
    "an id that is a number": message({**body(), "requestId": 1}),
    "an over-long id": message({**body(), "requestId": "x" * 201}),
    "an id with a control character": message({**body(), "requestId": "a\x00"}),
    "100,000 deep": message(b"[" * 100_000 + b"]" * 100_000),
    "a request 100,000 deep": message(nested(100_000)),
    "a structured event without data": bare(b"{}", (("content-type", b"application/cloudevents"),)),
}


@pytest.mark.parametrize(("raw", "field"), ANSWERED.values(), ids=ANSWERED.keys())
async def test_what_breaks_the_contract_is_buried_and_answered(raw: RawMessage, field: str) -> None:
    """Both name the field and say why; the engine is not asked; the message is kept as it came."""
    engine = Engine()
    dead, failed = await handler(engine)(raw)
    said = failure(failed)
    assert (said.request_id, said.code, said.retryable) == ("r1", "invalid_request", False)
    assert said.field is not None
    assert said.field.startswith(field)
    assert (failed.topic, failed.key) == (READY, b"r1")
    assert (dead.topic, dead.partition, dead.key, dead.value) == (DEAD, 3, raw.key, raw.value)
    assert reason(dead).startswith(field)
    assert len(said.message) < 2_000
    assert engine.built == 0


@pytest.mark.parametrize("raw", SILENT.values(), ids=SILENT.keys())
async def test_what_names_no_request_is_buried_alone(raw: RawMessage) -> None:
    """Nobody can be answered; the reason is in the dead letter."""
    (dead,) = await handler()(raw)
    assert dead.topic == DEAD
    assert reason(dead)


@pytest.mark.parametrize("depth", [50, 150, 190, 220, 300, 1_000])
async def test_depth_in_a_field_that_is_ignored_raises_nothing(depth: int) -> None:
    """Unknown fields are ignored at any depth that the parser reads, else it is bad input."""
    deep = json.dumps({**body(), "later": "HERE"}).replace('"HERE"', "[" * depth + "]" * depth)
    records = await handler()(message(deep.encode()))
    assert {record.topic for record in records} <= {READY, DEAD}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5_000, "-0"])
async def test_odd_numbers_raise_nothing(number: str) -> None:
    """Numbers beyond JSON's or Python's limits are read or refused."""
    text = json.dumps(body(metadata={"a": "HERE"})).replace('"HERE"', number)
    assert await handler()(message(text.encode()))


async def test_an_id_of_any_characters_is_answered() -> None:
    """Good request or bad: what the contract takes as an id, the failure names."""
    odd = {**body(tableIds="t0"), "requestId": "r\u00a0\u200b"}
    _, failed = await handler()(message(odd))
    assert failure(failed).request_id == "r\u00a0\u200b"


async def test_a_key_is_any_bytes() -> None:
    """The key is for the broker; a request is answered whatever it is."""
    (ready,) = await handler()(message(body(), key=b"\xff\xfe"))
    assert (ready.topic, ready.key) == (READY, b"r1")


async def test_an_option_of_later_is_refused_and_not_buried() -> None:
    """It is well formed, so only its asker is told."""
    (failed,) = await handler()(message({**body(), "options": {"model": "m"}}))
    said = failure(failed)
    assert said.code == "unsupported_option"
    assert "options.model" in said.message


def aged(ms: int, ttl: object) -> RawMessage:
    """A request that the broker appended so many milliseconds ago."""
    raw = message({**body(), "options": {"ttlMs": ttl}})
    return replace(raw, timestamp=time.time_ns() // 1_000_000 - ms)


async def test_a_request_older_than_its_ttl_is_answered_and_nothing_is_built() -> None:
    """It is well formed, so it is not buried; asked again it may be answered."""
    engine = Engine()
    (failed,) = await handler(engine)(aged(5_001, 5_000))
    said = failure(failed)
    assert (said.code, said.retryable, engine.built) == ("expired", True, 0)


@pytest.mark.parametrize("ms", [0, 30_000, -100_000])
async def test_a_request_within_its_ttl_is_built_before_that_is_over(ms: int) -> None:
    """A broker whose clock is ahead makes it no younger than new."""
    engine = Engine()
    before = time.monotonic()
    (ready,) = await handler(engine)(aged(ms, 60_000))
    assert ready.headers[3] == ("ce_type", b"context.ready")
    left = 60 - max(0, ms) / 1_000
    assert before - 0.01 <= engine.until - left <= time.monotonic()  # times are whole ms


@pytest.mark.parametrize("timestamp", [0, -1])
async def test_a_request_without_a_time_never_expires(timestamp: int) -> None:
    engine = Engine()
    await handler(engine)(replace(aged(0, 1), timestamp=timestamp))
    assert (engine.built, engine.until) == (1, math.inf)


@pytest.mark.parametrize("ttl", [0, -1, 86_400_001, "soon", 1.5])
async def test_a_ttl_that_is_none_is_named(ttl: object) -> None:
    """From a millisecond to as long as the topic keeps a request."""
    dead, failed = await handler()(aged(0, ttl))
    assert failure(failed).field == "options.ttlMs"
    assert reason(dead).startswith("options.ttlMs")


async def test_a_limited_request_is_answered_with_when_to_ask_again() -> None:
    """And not buried: nothing is wrong with it."""
    (failed,) = await handler(Engine(RateLimited("many", 70)))(message(body()))
    said = failure(failed)
    assert (said.code, said.retryable, said.retry_after_ms) == ("rate_limited", True, 70)


CORRELATION: Headers = (("kafka_correlationId", b"\x00\xff"), ("correlation_id", b"abc"))


@pytest.mark.parametrize("name", ["kafka_replyTopic", "reply_to"])
@pytest.mark.parametrize("topic", [b"elsewhere", b"domain.grant-change", b"\xff", b""])
async def test_a_reply_topic_that_is_not_allowed(name: str, topic: bytes) -> None:
    """A failure on the default topic, which whoever waits there can still tell is theirs."""
    (failed,) = await handler()(message(body(), ((name, topic), *CORRELATION)))
    assert failure(failed).code == "reply_refused"
    assert (failed.topic, failed.partition) == (READY, None)
    assert failed.headers[-2:] == CORRELATION


async def test_a_reply_partition_that_is_no_number() -> None:
    """The same for Spring's partition, where it is not four bytes."""
    extra = (("kafka_replyTopic", b"replies"), ("kafka_replyPartition", b"3"), *CORRELATION)
    (failed,) = await handler()(message(body(), extra))
    assert failure(failed).code == "reply_refused"
    assert (failed.topic, failed.headers[-2:]) == (READY, CORRELATION)


async def test_failures_go_where_the_reply_would() -> None:
    """An allowed address is used for failures too, bad input's among them."""
    extra = (("kafka_replyTopic", b"replies"), ("kafka_replyPartition", b"\0\0\0\2"), *CORRELATION)
    (failed,) = await handler(Engine(NotFound("table", "t0")))(message(body(), extra))
    assert (failed.topic, failed.partition, failed.headers[-2:]) == ("replies", 2, CORRELATION)
    _, refused = await handler()(message(body(locale="klingon"), extra))
    assert (refused.topic, refused.partition) == ("replies", 2)


@pytest.mark.parametrize(
    ("error", "code", "retryable", "buried"),
    [
        (NotFound("table", "t0"), "not_found", False, False),
        (Unavailable("database", "away"), "unavailable", True, False),
        (RuntimeError("a secret"), "internal", False, True),
        (RecursionError(), "internal", False, True),
    ],
    ids=["not found", "unavailable", "a fault", "a fault of depth"],
)
async def test_what_the_engine_raises(
    error: Exception, code: str, retryable: bool, buried: bool
) -> None:
    """Answers are answers; only a fault of ours is buried too, and its words stay inside."""
    records = await handler(Engine(error))(message(body()))
    said = failure(records[-1])
    assert (said.code, said.retryable, said.request_id) == (code, retryable, "r1")
    assert "secret" not in said.message
    assert [record.topic for record in records] == ([DEAD, READY] if buried else [READY])


@pytest.mark.parametrize("id", ["r1", "r\u00a01", "r\u200b1", "\u00fc" * 200], ids=ascii)
@pytest.mark.parametrize(
    "refusal",
    [lambda: RecordTooLarge("4 MiB"), lambda: UnknownPartition("no 99")],
    ids=["too large", "no such partition"],
)
async def test_a_reply_that_its_topic_refuses(
    id: str, refusal: Callable[[], RecordTooLarge]
) -> None:
    """A typed failure takes its place on the default topic, for every id that was accepted."""
    extra = (
        ("kafka_replyTopic", b"replies"),
        ("kafka_replyPartition", b"\0\0\0\x63"),
        *CORRELATION,
    )
    raw, made = message({**body(), "requestId": id}, extra), handler()
    (reply,) = await made(raw)
    assert (reply.topic, reply.partition) == ("replies", 99)
    (failed,) = await made.substitute(raw, reply, refusal())
    said = failure(failed)
    assert (said.code, said.request_id) == ("reply_refused", id)
    assert (failed.topic, failed.partition) == (READY, None)
    assert failed.headers[-2:] == CORRELATION


async def test_a_dead_letter_that_its_topic_refuses_is_loud() -> None:
    """There is nothing to put in its place: the worker leaves rather than lose a message."""
    raw, made = message(b"{"), handler()
    (dead,) = await made(raw)
    with pytest.raises(RecordTooLarge):
        await made.substitute(raw, dead, RecordTooLarge("too large"))


@pytest.mark.parametrize(
    ("made", "raw", "event", "level"),
    [
        (handler(), message({**body(), "options": []}), "request refused", "warning"),
        (handler(Engine(NotFound("table", "t"))), message(body()), "request failed", "info"),
        (handler(Engine(ValueError("no"))), message(body()), "request met a fault", "error"),
    ],
    ids=["malformed", "denied", "fault"],
)
async def test_a_line_about_a_request_has_its_id(
    made: BuildHandler, raw: RawMessage, event: str, level: str
) -> None:
    """Whatever became of it; and never what it said."""
    with capture_logs([merge_contextvars]) as told:
        await made(raw)
    line = next(one for one in told if one["event"] == event)
    assert (line["request_id"], line["log_level"]) == ("r1", level)
    assert "ana" not in str(told)


async def test_a_token_that_nobody_was_given_is_refused_and_buried() -> None:
    """Malformed: its asker is told which option, and the message is kept."""
    records = await handler()(message({**body(), "options": {"after": ["x"]}}))
    said = failure(records[-1])
    assert (said.code, said.field) == ("invalid_request", "options.after")
    assert len(records) == 2
