"""Requests, replies and dead letters as bytes: what is refused, reported, kept within bounds."""

from __future__ import annotations

import logging

import pytest
from pydantic import ValidationError

from context_engine.changes import (
    AnyChange,
    GrantChanged,
    GrantScope,
    MemberChanged,
    RecordsChanged,
    Subject,
    TableChanged,
)
from context_engine.errors import (
    ContextEngineError,
    Expired,
    InvalidRequest,
    NotFound,
    NotNow,
    RateLimited,
    ReplyRefused,
    Unavailable,
    UnsupportedOption,
)
from context_engine.models import invalid
from events import messages
from events.answers import error_of
from events.dead_letters import dead_letter
from events.messages import BuildFailed, BuildOptions, BuildRequest, UnknownFields, check_supported
from events.producer import record_bytes
from events.records import RawMessage
from events.topics import DEAD_LETTER_ROOM, MIB, Topics
from tests.support.echo import agent_context, settings_for

INPUT = b'{"userId":"u","workspaceId":"w"%s}'


def request(more: bytes = b"", input: bytes = b"") -> bytes:
    return b'{"requestId":"r","input":' + INPUT % input + more + b"}"


# -- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wire"),
    [
        (BuildOptions(model="m"), "model"),
        (BuildOptions(budget=0), "budget"),
    ],
)
def test_an_option_that_is_not_built_is_refused(options: BuildOptions, wire: str) -> None:
    """Named as it is on the wire; a falsy value is a value too."""
    with pytest.raises(UnsupportedOption, match=f"options.{wire} "):
        check_supported(options)


def test_options_that_are_built_pass() -> None:
    """Left out, null and empty all mean: not asked for."""
    parsed = BuildRequest.model_validate_json(
        request(b',"options":{"fresh":true,"strict":true,"maxAgeMs":0,"ttlMs":1,"after":[]}')
    )
    check_supported(parsed.options)
    assert (parsed.options.fresh, parsed.options.strict) == (True, True)
    assert (parsed.options.max_age_ms, parsed.options.ttl_ms) == (0, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b'{"requestId":"","input":' + INPUT % b"" + b"}",
        b'{"requestId":"a\\u0007","input":' + INPUT % b"" + b"}",
        request(input=b',"tableIds":"t"'),
        request(input=b',"tableIds":[' + b",".join(b'"%d"' % n for n in range(10_000)) + b"]"),
        request(input=b',"locale":"xx-nowhere"'),
        request(input=b',"timezone":"Mars/Base"'),
        request(input=b',"sessionId":"' + b"s" * 201 + b'"'),
        request(input=b',"metadata":{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
        request(b',"unknown":' + b"[" * 5_000 + b"]" * 5_000),
        request(b',"options":{"maxAgeMs":-1}'),
        request(b',"options":{"fresh":"perhaps"}'),
    ],
)
def test_a_malformed_request_is_refused_in_few_words(data: bytes) -> None:
    """Whatever was sent, the answer is bounded and does not repeat it."""
    with pytest.raises(ValidationError) as refused:
        BuildRequest.model_validate_json(data)
    assert 0 < len(invalid(refused.value).message) <= 1_100


def test_unknown_fields_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """By their place, in both spellings of what is known, and not their values."""
    unknown = UnknownFields()
    data = request(
        b',"extra":"secret","options":{"fresh":true,"odd":1}', b',"session_id":"s","x":2'
    )
    with caplog.at_level(logging.WARNING):
        unknown.note(data)
        unknown.note(data)
    assert [record.getMessage() for record in caplog.records] == [
        "unknown field ignored: 'extra'",
        "unknown field ignored: 'input.x'",
        "unknown field ignored: 'options.odd'",
    ]


def test_the_report_of_unknown_fields_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """A sender cannot fill memory or log with names."""
    unknown = UnknownFields()
    with caplog.at_level(logging.WARNING):
        for n in range(300):
            unknown.note(request(b',"%d%s":0' % (n, b"x" * 1_000)))
    assert len(caplog.records) == UnknownFields.LIMIT
    assert max(len(record.getMessage()) for record in caplog.records) < 150


# -- replies -----------------------------------------------------------------------------------


def test_a_reply_around_ready_json_is_the_contracts() -> None:
    """`ready_bytes` joins text; what comes out is a `ContextReady` all the same."""
    context = agent_context()
    data = messages.ready_bytes(
        'r"\\ä', context.context_id, "h", "cache", context.model_dump_json().encode()
    )
    ready = messages.ContextReady.model_validate_json(data)
    assert ready.request_id == 'r"\\ä'
    assert ready.context == context


@pytest.mark.parametrize(
    ("code", "retryable", "kind"),
    [
        ("not_found", False, NotFound),
        ("invalid_request", False, InvalidRequest),
        ("unsupported_option", False, UnsupportedOption),
        ("reply_refused", False, ReplyRefused),
        ("unavailable", True, Unavailable),
        ("expired", True, Expired),
        ("rate_limited", True, RateLimited),
        ("newer_code", False, ContextEngineError),
        ("newer_code", True, Unavailable),
    ],
)
def test_a_failure_becomes_its_error(
    code: str, retryable: bool, kind: type[ContextEngineError]
) -> None:
    """With the engine's own words; codes of a later version keep their name or their promise."""
    error = error_of(
        BuildFailed(request_id="r", code=code, message="why", retryable=retryable, field="input")
    )
    assert isinstance(error, kind)
    assert error.message.endswith("why")
    assert error.retryable is retryable
    assert retryable or error.code == code
    assert not isinstance(error, NotNow) or error.code == code
    assert not isinstance(error, InvalidRequest) or error.field == "input"


def test_a_limit_says_by_when_to_ask_again() -> None:
    """Where the engine knows."""
    failed = BuildFailed(
        request_id="r", code="rate_limited", message="why", retryable=True, retry_after_ms=70
    )
    error = error_of(BuildFailed.model_validate_json(failed.model_dump_json()))
    assert isinstance(error, RateLimited)
    assert error.retry_after_ms == 70


# -- topics ------------------------------------------------------------------------------------


def test_every_change_has_its_topic() -> None:
    """The kind of change decides, and its CloudEvents type begins with `domain.`."""
    topics = Topics.of(settings_for("nowhere:1"))
    subject, scope = Subject(type="user", id="u"), GrantScope(type="table", id="t")
    expected: dict[str, AnyChange] = {
        "domain.schema-change": TableChanged(workspace_id="w", table_id="t", op="renamed"),
        "domain.record-edit": RecordsChanged(
            workspace_id="w", table_id="t", record_ids=("r",), op="deleted"
        ),
        "domain.membership": MemberChanged(workspace_id="w", user_id="u", op="updated"),
        "domain.permission-change": GrantChanged(
            workspace_id="w", subject=subject, scope=scope, op="created"
        ),
    }
    for name, change in expected.items():
        assert topics.topic_for(change).name == name
        assert messages.change_type(change).startswith("domain.")


def test_topics_are_as_the_design_says() -> None:
    """Partitions, sizes and lifetimes; what is read has dead letters of the same partitions."""
    topics = Topics.of(settings_for("nowhere:1"))
    day = 86_400_000
    assert topics.build_requests.config() == {
        "retention.ms": str(day),
        "max.message.bytes": str(MIB + 1024),
        "message.timestamp.type": "LogAppendTime",
    }
    assert (topics.ready.partitions, topics.ready.max_message_bytes) == (12, 4 * MIB)
    for source in (topics.build_requests, *topics.changes()):
        buried = topics.dead_letter(source.name)
        assert (buried.name, buried.partitions) == (f"{source.name}-dlt", source.partitions)
        assert (buried.retention_ms, buried.max_message_bytes) == (
            14 * day,
            source.max_message_bytes + 64 * 1024,
        )
        # Whole segments are removed, of a week each unless the broker is told otherwise.
        assert topics.handled.retention_ms > buried.retention_ms + 7 * day
    with pytest.raises(KeyError):
        topics.dead_letter(topics.ready.name)


# -- dead letters ------------------------------------------------------------------------------


def bury(raw: RawMessage, reason: str = "why") -> dict[str, bytes | None]:
    record = dead_letter(raw, InvalidRequest(reason), "group")
    assert record_bytes(record) <= MIB + DEAD_LETTER_ROOM
    return dict(record.headers)


def test_a_dead_letter_is_the_message_with_springs_headers() -> None:
    """Same partition, key and value; where it came from and why, as Spring writes it."""
    raw = RawMessage("t", 3, 258, 1_700_000_000_000, b"\xff", b"\xfe", (("own", None),))
    record = dead_letter(raw, InvalidRequest("bad", field="x"), "group")
    assert (record.topic, record.partition) == ("t-dlt", 3)
    assert (record.key, record.value, record.headers[0]) == (b"\xff", b"\xfe", ("own", None))
    assert dict(record.headers[1:]) == {
        "kafka_dlt-original-topic": b"t",
        "kafka_dlt-original-partition": b"\x00\x00\x00\x03",
        "kafka_dlt-original-offset": b"\x00" * 6 + b"\x01\x02",
        "kafka_dlt-original-timestamp": (1_700_000_000_000).to_bytes(8, "big"),
        "kafka_dlt-original-consumer-group": b"group",
        "kafka_dlt-exception-fqcn": b"context_engine.errors.InvalidRequest",
        "kafka_dlt-exception-message": b"x: bad",
        "kafka_dlt-exception-stacktrace": b"",
    }


def test_a_second_burial_replaces_the_first() -> None:
    """A replayed message that fails again does not gather headers."""
    first = dead_letter(RawMessage("t", 0, 1, 0, None, None), InvalidRequest("one"), "group")
    again = RawMessage("t", 0, 9, 0, None, None, first.headers)
    second = dead_letter(again, InvalidRequest("two"), "group")
    assert len(second.headers) == len(first.headers)
    assert dict(second.headers)["kafka_dlt-exception-message"] == b"two"


def test_a_dead_letter_always_fits() -> None:
    """Whatever a source topic takes, and more than that from a broker that holds no limits."""
    full = b"x" * MIB
    escaped = tuple(("\\xff" * 8, b"") for _ in range(60_000))
    bury(RawMessage("t", 0, 0, 0, None, full), "ä" * 5_000)
    bury(RawMessage("t", 0, 0, 0, b"k", b"v", (("h", full[:-3]),)))
    bury(RawMessage("t", 0, 0, 0, b"k", b"v", escaped))
    assert "kafka_dlt-truncated" not in bury(RawMessage("t", 0, 0, 0, b"k", full[1:]))
    assert bury(RawMessage("t", 0, 0, 0, full * 2, full * 5))["kafka_dlt-truncated"] == b"true"


def test_a_long_reason_is_cut_between_characters() -> None:
    """The header stays UTF-8."""
    reason = bury(RawMessage("t", 0, 0, 0, None, b""), "x" + "ä" * 5_000)
    message = reason["kafka_dlt-exception-message"]
    assert message is not None
    assert message.decode().strip("xä") == ""
