"""CloudEvents 1.0 over Kafka: both modes in, binary out; and where a reply goes.

A codec of our own, since the SDK invents a time, turns broken JSON into a string and refuses
keys that are not UTF-8.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue, TypeAdapter, ValidationError

from context_engine.errors import InvalidRequest, ReplyRefused
from context_engine.models import Id
from events.records import Headers, RawMessage

SPECVERSION = "1.0"
JSON = b"application/json"
STRUCTURED = "application/cloudevents"
JSON_ENDINGS = ("/json", "+json")
MAX_ATTRIBUTE_CHARS = 1_024

SPRING_CORRELATION, FASTSTREAM_CORRELATION = "kafka_correlationId", "correlation_id"
SPRING_REPLY, FASTSTREAM_REPLY = "kafka_replyTopic", "reply_to"
SPRING_PARTITION = "kafka_replyPartition"
PARTITION_BYTES = 4
"""Spring's reply partition: four bytes, big endian."""

_id: TypeAdapter[str] = TypeAdapter(Id)


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """An event's attributes and its data, JSON bytes that are not parsed yet."""

    id: str
    source: str
    type: str
    data: bytes
    time: str | None = None


def decode(raw: RawMessage) -> CloudEvent:
    """The event in `raw`, in binary or structured mode.

    Raises `InvalidRequest`, naming the header or attribute: no value, no or several ids or content
    types, another version, text that is not UTF-8, data that is not JSON by its content type.
    """
    if raw.value is None:
        raise InvalidRequest("a message without a value says nothing; send an event", field="value")
    headers = _headers(raw.headers)
    content_type = _text(headers, "content-type") or "application/json"
    if content_type.lower().startswith(STRUCTURED):
        return _structured(raw.value)
    _check_json(content_type, "content-type")
    if _text(headers, "ce_specversion") != SPECVERSION:
        raise InvalidRequest(f"must be {SPECVERSION}", field="ce_specversion")
    return CloudEvent(
        id=_required(headers, "ce_id"),
        source=_required(headers, "ce_source"),
        type=_required(headers, "ce_type"),
        time=_text(headers, "ce_time"),
        data=raw.value,
    )


def _check_json(content_type: str, field: str) -> None:
    if not content_type.partition(";")[0].rstrip().lower().endswith(JSON_ENDINGS):
        raise InvalidRequest("only JSON is read; send application/json", field=field)


def _headers(headers: Headers) -> dict[str, bytes | None]:
    """Headers by lower-case name. The same one twice must say the same."""
    found: dict[str, bytes | None] = {}
    for name, value in headers:
        key = name.lower()
        told = key.startswith("ce_") or key == "content-type"
        if told and key in found and found[key] != value:
            raise InvalidRequest("is there twice with two values; send one", field=key)
        found.setdefault(key, value)
    return found


def _text(headers: Mapping[str, bytes | None], name: str) -> str | None:
    value = headers.get(name)
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("is not UTF-8", field=name) from None
    if len(text) > MAX_ATTRIBUTE_CHARS:
        raise InvalidRequest(f"longer than {MAX_ATTRIBUTE_CHARS} characters", field=name)
    return text


def _required(headers: Mapping[str, bytes | None], name: str) -> str:
    value = _text(headers, name)
    if not value:
        raise InvalidRequest("is missing; CloudEvents needs it", field=name)
    return value


def _structured(value: bytes) -> CloudEvent:
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):
        raise InvalidRequest("not JSON in UTF-8", field="value") from None
    if not isinstance(event, dict):
        raise InvalidRequest("not a CloudEvent; send a JSON object", field="value")
    if event.get("specversion") != SPECVERSION:
        raise InvalidRequest(f"must be {SPECVERSION}", field="specversion")
    if event.get("datacontenttype") is not None:
        _check_json(_attribute(event, "datacontenttype"), "datacontenttype")
    time = event.get("time")
    return CloudEvent(
        id=_attribute(event, "id"),
        source=_attribute(event, "source"),
        type=_attribute(event, "type"),
        time=time if isinstance(time, str) else None,
        data=_structured_data(event),
    )


def _structured_data(event: Mapping[str, JsonValue]) -> bytes:
    """The data as JSON bytes; the SDK writes data that it was given as bytes in base 64."""
    try:
        if isinstance(encoded := event.get("data_base64"), str):
            return base64.b64decode(encoded, validate=True)
        if "data" in event:
            return json.dumps(event["data"], ensure_ascii=False).encode(errors="surrogatepass")
    except ValueError:
        raise InvalidRequest("is not base 64", field="data_base64") from None
    except RecursionError:
        raise InvalidRequest("is nested too deeply; flatten it", field="data") from None
    raise InvalidRequest("is missing; send the request as JSON", field="data")


def _attribute(event: Mapping[str, JsonValue], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value or len(value) > MAX_ATTRIBUTE_CHARS:
        raise InvalidRequest(f"must be a text of 1 to {MAX_ATTRIBUTE_CHARS} characters", field=name)
    return value


def encode(
    *,
    type: str,
    source: str,
    id: str,
    data: bytes,
    extra: Headers = (),
    time: datetime | None = None,
) -> tuple[Headers, bytes]:
    """Headers and value of an event in binary mode; `data` is JSON. `extra` headers come last."""
    at = (time or datetime.now(UTC)).isoformat().replace("+00:00", "Z")
    headers = (
        ("ce_specversion", b"1.0"),
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        ("ce_type", type.encode()),
        ("ce_time", at.encode()),
        ("content-type", JSON),
        *extra,
    )
    return headers, data


def peek_request_id(raw: RawMessage) -> str | None:
    """The requestId of a message that could not be read as a request, where there is one."""
    for part in peek(raw.value):
        name = "requestId" if "requestId" in part else "request_id"
        if name in part:
            return usable_id(part[name])
    return None


def peek(value: bytes | None) -> Iterator[Mapping[str, JsonValue]]:
    """The objects in a message that could not be read: itself, and in structured mode its data."""
    message = _parsed(value or b"")
    if not isinstance(message, dict):
        return
    yield message
    data = message.get("data")
    if isinstance(encoded := message.get("data_base64"), str):
        try:
            data = _parsed(base64.b64decode(encoded, validate=True))
        except ValueError:
            return
    if isinstance(data, dict):
        yield data


def _parsed(value: bytes) -> JsonValue:
    try:
        found: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found


def usable_id(value: JsonValue) -> str | None:
    """`value` if it is an `Id`: what a contract accepts, and can be written as UTF-8."""
    try:
        return _id.validate_python(value)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class ReplyAddress:
    """Where a reply goes, and the correlation headers that it echoes byte for byte."""

    topic: str | None = None
    """None for the default topic."""
    partition: int | None = None
    echo: Headers = ()

    @classmethod
    def of(cls, raw: RawMessage, allowed: frozenset[str]) -> ReplyAddress:
        """The address in the request's headers: Spring's or FastStream's.

        Raises `ReplyRefused` for a topic outside `allowed` or a partition that is no number.
        """
        echo: list[tuple[str, bytes | None]] = []
        topic: bytes | None = None
        partition: bytes | None = None
        for name, value in raw.headers:
            if name in (SPRING_CORRELATION, FASTSTREAM_CORRELATION):
                echo.append((name, value))
            elif name in (SPRING_REPLY, FASTSTREAM_REPLY) and topic is None:
                topic = value
            elif name == SPRING_PARTITION:
                partition = value
        if topic is None:
            return cls(echo=tuple(echo[:4]))
        name = topic.decode(errors="replace")
        if name not in allowed:
            raise ReplyRefused(
                f"replies do not go to topic {name[:120]!r}; ask for it in CONTEXT_REPLY_TOPICS"
            )
        return cls(name, _partition(partition), tuple(echo[:4]))


def _partition(value: bytes | None) -> int | None:
    if value is None:
        return None
    if len(value) != PARTITION_BYTES:
        raise ReplyRefused(f"{SPRING_PARTITION} must be four bytes, big endian")
    return int.from_bytes(value, "big", signed=True)
