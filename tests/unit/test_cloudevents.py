"""The CloudEvents codec: both modes in, binary out, understood by the official SDK both ways."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings import kafka as sdk
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from context_engine.errors import InvalidRequest, ReplyRefused
from events import cloudevents
from events.cloudevents import ReplyAddress, decode, encode, peek_request_id
from events.messages import BuildRequest
from events.records import Headers, RawMessage

DATA = b'{"requestId":"r1","text":"\xc3\xa4"}'
HEADERS: Headers = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"e1"),
    ("ce_source", b"test"),
    ("ce_type", b"context.build.requested"),
)
JSON_MODE: Headers = (("Content-Type", b"Application/CloudEvents+json; charset=UTF-8"),)


def raw(value: bytes | None = DATA, headers: Headers = HEADERS, key: bytes = b"k") -> RawMessage:
    return RawMessage("t", 0, 0, 0, key, value, headers)


def without(name: str, *more: tuple[str, bytes | None]) -> Headers:
    return (*(header for header in HEADERS if header[0] != name), *more)


def test_what_is_encoded_is_decoded() -> None:
    """Binary mode: attributes in headers, data as it is."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    headers, value = encode(type="a.b", source="s", id="i", data=DATA, time=at)
    event = decode(raw(value, headers))
    assert (event.id, event.source, event.type, event.data) == ("i", "s", "a.b", DATA)
    assert event.time == "2026-01-02T03:04:05Z"


def test_time_is_not_invented() -> None:
    """An event without a time has none."""
    assert decode(raw()).time is None


def test_the_sdk_reads_what_we_write() -> None:
    """The official SDK understands our binary mode."""
    headers, value = encode(type="a.b", source="/s", id="i", data=b'{"n": 1}')
    message = sdk.KafkaMessage(headers={n: v for n, v in headers if v}, key="k", value=value)
    event = sdk.from_kafka(message, JSONFormat())
    assert (event.get_id(), event.get_source(), event.get_type()) == ("i", "/s", "a.b")
    assert event.get_data() == {"n": 1}
    assert event.get_time() is not None


@pytest.mark.parametrize("mode", [sdk.to_binary, sdk.to_structured])
@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.ours+json", None])
def test_we_read_what_the_sdk_writes(mode: object, content_type: str | None) -> None:
    """Both of the SDK's modes are understood."""
    attributes = {"id": "i", "source": "/s", "type": "a.b", "partitionkey": "w"}
    if content_type:
        attributes["datacontenttype"] = content_type
    made = SdkEvent(attributes, {"text": "ä", "n": [1, None]})
    message = mode(made, JSONFormat())  # type: ignore[operator]
    event = decode(raw(message.value, tuple(message.headers.items())))
    assert (event.id, event.source, event.type) == ("i", "/s", "a.b")
    assert json.loads(event.data) == {"text": "ä", "n": [1, None]}


def test_structured_data_in_base_64_is_read() -> None:
    """The SDK writes data that it was given as bytes in base 64."""
    made = SdkEvent({"id": "i", "source": "/s", "type": "a.b"}, DATA)
    message = sdk.to_structured(made, JSONFormat())
    assert decode(raw(message.value, tuple(message.headers.items()))).data == DATA


@pytest.mark.parametrize("name", ["ce_id", "ce_source", "ce_type", "ce_specversion"])
@pytest.mark.parametrize("value", [None, b"", b"\xff", b"x" * 1_025])
def test_attributes_are_required_and_are_bounded_text(name: str, value: bytes | None) -> None:
    """Absent, null, empty, not UTF-8 or too long: refused, and the header is named."""
    for headers in (without(name), without(name, (name, value))):
        with pytest.raises(InvalidRequest) as refused:
            decode(raw(headers=headers))
        assert refused.value.field == name


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        (without("ce_specversion", ("ce_specversion", b"0.3")), "ce_specversion"),
        ((*HEADERS, ("CE_ID", b"e2")), "ce_id"),
        ((*HEADERS, ("content-type", b"text/plain")), "content-type"),
        ((*HEADERS, ("content-type", b"application/jsonish")), "content-type"),
        ((*HEADERS, ("content-type", b"\xff")), "content-type"),
        ((*HEADERS, ("content-type", b"application/json"), *JSON_MODE), "content-type"),
        ((*JSON_MODE, ("content-type", b"application/json"), *HEADERS), "content-type"),
    ],
)
def test_headers_that_mislead_are_refused(headers: Headers, field: str) -> None:
    """Another version, two ids, two content types, or data that is not JSON by its own word."""
    with pytest.raises(InvalidRequest) as refused:
        decode(raw(headers=headers))
    assert refused.value.field == field


def test_what_does_not_mislead_is_let_in() -> None:
    """The same header twice with one value, foreign headers of any kind, a key of any bytes."""
    odd: Headers = (("ce_id", b"e1"), ("n\\xff", b"\xff"), ("trace", None), ("trace", b""))
    twice: Headers = (("content-type", b"application/json"), ("Content-Type", b"application/json"))
    assert decode(raw(headers=(*HEADERS, *odd, *twice), key=b"\xff")).id == "e1"


def test_a_tombstone_is_refused() -> None:
    """No value, no event."""
    with pytest.raises(InvalidRequest, match="without a value"):
        decode(raw(None))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b"{", "value"),
        (b"\xff", "value"),
        (b"[]", "value"),
        (b"[" * 100_000, "value"),
        (b'{"specversion":"1.0","n":' + b"1" * 5_000 + b"}", "value"),
        (b'{"specversion":"0.3"}', "specversion"),
        (b'{"specversion":"1.0","id":7,"source":"s","type":"t","data":{}}', "id"),
        (b'{"specversion":"1.0","id":"i","source":"s","type":"t"}', "data"),
        (
            b'{"specversion":"1.0","id":"i","source":"s","type":"t","data_base64":"!"}',
            "data_base64",
        ),
    ],
)
def test_structured_events_that_are_none_are_refused(value: bytes, field: str) -> None:
    """Each with the place where it is wrong."""
    with pytest.raises(InvalidRequest) as refused:
        decode(raw(value, JSON_MODE))
    assert refused.value.field == field


def in_structured_mode(**more: object) -> bytes:
    event = {"specversion": "1.0", "id": "i", "source": "s", "type": "t", "data": {"n": 1}}
    return json.dumps({**event, **more}).encode()


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/jsonish", "", 7])
@pytest.mark.parametrize("data", [{"data": {"n": 1}}, {"data_base64": "e30="}])
def test_structured_data_of_another_kind_is_refused(kind: object, data: dict[str, object]) -> None:
    """What says of itself that it is not JSON is not read as JSON."""
    with pytest.raises(InvalidRequest) as refused:
        decode(raw(in_structured_mode(datacontenttype=kind, **data), JSON_MODE))
    assert refused.value.field == "datacontenttype"


@pytest.mark.parametrize("kind", [None, "application/json", "Application/X+JSON ; charset=utf-8"])
def test_structured_data_that_is_json_is_read(kind: object) -> None:
    """By its own word in any spelling, or without a word: CloudEvents' default."""
    event = decode(raw(in_structured_mode(datacontenttype=kind), JSON_MODE))
    assert json.loads(event.data) == {"n": 1}


HEADER = st.tuples(
    st.sampled_from(["ce_id", "ce_type", "ce_source", "ce_specversion", "content-type", "x"]),
    st.one_of(
        st.none(),
        st.binary(max_size=20),
        st.sampled_from([b"1.0", b"application/json", b"application/cloudevents+json"]),
    ),
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
VALUE = st.one_of(
    st.none(),
    st.binary(max_size=40),
    ANY_JSON.map(lambda found: json.dumps(found).encode()),
    ANY_JSON.map(
        lambda found: json.dumps(
            {"specversion": "1.0", "id": "i", "source": "s", "type": "t", "data": found}
        ).encode()
    ),
)


@given(st.lists(HEADER, max_size=6), VALUE)
def test_any_bytes_are_read_or_refused(
    headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    """Nothing that a client can write raises anything but the typed errors."""
    message = raw(value, tuple(headers))
    with suppress(InvalidRequest):
        decode(message)
    with suppress(ReplyRefused):
        ReplyAddress.of(message, frozenset())
    peek_request_id(message)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"requestId":"r1","input":7}', "r1"),
        (b'{"request_id":"r1"}', "r1"),
        (b'{"specversion":"1.0","data":{"requestId":"r1"}}', "r1"),
        (b'{"specversion":"1.0","data_base64":"%b"}' % b64encode(b'{"requestId":"r1"}'), "r1"),
        (b'{"specversion":"1.0","data_base64":"%b"}' % b64encode(b"\xff"), None),
        (b'{"specversion":"1.0","data_base64":"!"}', None),
        (b'{"requestId":"r1"', None),
        (b'{"requestId":7}', None),
        (b'{"requestId":""}', None),
        (b'{"requestId":"a\\u0000b"}', None),
        (b'{"requestId":"\\ud800"}', None),
        (b'{"requestId":"' + b"x" * 201 + b'"}', None),
        (b'["requestId"]', None),
        (b"[" * 100_000, None),
        (b"\xff", None),
        (None, None),
    ],
)
def test_an_id_is_read_where_a_request_is_not(value: bytes | None, found: str | None) -> None:
    """Whoever sent something malformed is answered, if the id can be read and is usable."""
    assert peek_request_id(raw(value)) == found


@given(
    st.text(alphabet=st.characters(), max_size=4)
    | st.sampled_from(["a\u00a0b", "\u200b", "\ue000", "\x7f", "\ud800", "x" * 200, "x" * 201])
)
def test_an_id_that_a_request_may_have_is_read_and_no_other(found: str) -> None:
    """Else a request that is malformed elsewhere would get no answer, or one to no id."""
    try:
        BuildRequest.model_validate(
            {"requestId": found, "input": {"userId": "u", "workspaceId": "w"}}
        )
        wanted = found
    except ValidationError:
        wanted = None
    assert peek_request_id(raw(json.dumps({"requestId": found, "input": 7}).encode())) == wanted


ALLOWED = frozenset({"replies"})


@pytest.mark.parametrize(
    ("correlation", "reply"),
    [("kafka_correlationId", "kafka_replyTopic"), ("correlation_id", "reply_to")],
)
def test_both_families_of_reply_headers_are_read(correlation: str, reply: str) -> None:
    """Spring's and FastStream's names; the correlation goes back byte for byte."""
    address = ReplyAddress.of(
        raw(headers=((correlation, b"\x00\xff" * 8), (reply, b"replies"))), ALLOWED
    )
    assert address == ReplyAddress("replies", None, ((correlation, b"\x00\xff" * 8),))


def test_springs_partition_is_four_bytes_big_endian() -> None:
    """As Spring's template writes it; anything else is refused, not guessed."""
    topic = ("kafka_replyTopic", b"replies")
    found = ReplyAddress.of(
        raw(headers=(topic, ("kafka_replyPartition", b"\x00\x00\x01\x02"))), ALLOWED
    )
    assert found.partition == 258
    with pytest.raises(ReplyRefused, match="four bytes"):
        ReplyAddress.of(raw(headers=(topic, ("kafka_replyPartition", b"3"))), ALLOWED)


@pytest.mark.parametrize("topic", [b"other", b"", b"\xff", b"replies\x00", b"REPLIES"])
def test_replies_go_to_allowed_topics_only(topic: bytes) -> None:
    """A request cannot make the worker write anywhere."""
    with pytest.raises(ReplyRefused):
        ReplyAddress.of(raw(headers=(("reply_to", topic),)), ALLOWED)


def test_without_an_address_the_default_is_used() -> None:
    """Correlation is echoed all the same, a bounded number of headers."""
    many = tuple(("correlation_id", b"%d" % n) for n in range(9))
    assert ReplyAddress.of(raw(headers=many), ALLOWED) == ReplyAddress(echo=many[:4])


def test_attributes_have_room() -> None:
    """An id of the longest kind passes."""
    longest = b"x" * cloudevents.MAX_ATTRIBUTE_CHARS
    assert decode(raw(headers=without("ce_id", ("ce_id", longest)))).id == longest.decode()
