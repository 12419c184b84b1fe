"""Dead letters: the message as it came, with Spring's headers that say from where and why."""

from __future__ import annotations

from context_engine.errors import ContextEngineError
from events.records import Headers, OutgoingRecord, RawMessage
from events.topics import DEAD_LETTER_ROOM, DEAD_LETTER_SUFFIX, MIB

REASON_BYTES = 2_048
"""Longest reason, in bytes."""

ORIGINAL_HEADERS_BYTES = DEAD_LETTER_ROOM // 2
"""How much headers may grow by being escaped; what is over is left out."""

HEADER_FRAMING_BYTES = 4
"""What a header takes on the wire beside its name and value."""

LARGEST_SOURCE = MIB
"""Largest message of the topics that are read, in bytes."""

PREFIX = "kafka_dlt-"
FQCN = f"{PREFIX}exception-fqcn"

_PARTITION, _OFFSET = f"{PREFIX}original-partition", f"{PREFIX}original-offset"
_TIMESTAMP = f"{PREFIX}original-timestamp"

NUMBERS = {_PARTITION: 4, _OFFSET: 8, _TIMESTAMP: 8}
"""Headers that hold a signed big endian number, each with its length in bytes."""

REPLAY_COUNT = "context-replay-count"
"""Header of a message that comes out of the dead letters: how often it did, in decimal digits."""


def dead_letter(raw: RawMessage, error: ContextEngineError, group: str) -> OutgoingRecord:
    """The record that buries `raw`: same partition, same key and value, bounded headers.

    It always fits its topic: that takes 64 KiB more than the source. A message larger than its
    source takes, which only a broker that holds no limits lets in, is cut, and a header says so.
    """
    key = raw.key[:LARGEST_SOURCE] if raw.key is not None else None
    value = raw.value[: LARGEST_SOURCE - len(key or b"")] if raw.value is not None else None
    cut = (key, value) != (raw.key, raw.value)
    why: Headers = (
        (f"{PREFIX}original-topic", raw.topic.encode()),
        (_PARTITION, raw.partition.to_bytes(NUMBERS[_PARTITION], "big", signed=True)),
        (_OFFSET, raw.offset.to_bytes(NUMBERS[_OFFSET], "big", signed=True)),
        (_TIMESTAMP, raw.timestamp.to_bytes(NUMBERS[_TIMESTAMP], "big", signed=True)),
        (f"{PREFIX}original-consumer-group", group.encode()),
        (FQCN, _name(error).encode()),
        (f"{PREFIX}exception-message", _reason(error)),
        (f"{PREFIX}exception-stacktrace", b""),
        *(((f"{PREFIX}truncated", b"true"),) if cut else ()),
    )
    return OutgoingRecord(
        topic=raw.topic + DEAD_LETTER_SUFFIX,
        key=key,
        value=value,
        headers=(*_bounded(raw), *why),
        partition=raw.partition,
    )


def replayed(letter: RawMessage, count: int) -> OutgoingRecord:
    """`letter` as it came at first, to the topic that it came from: same partition, key, value and
    headers, and `count` in front of them, where it survives another burial."""
    kept = (one for one in letter.headers if not one[0].startswith((PREFIX, REPLAY_COUNT)))
    return OutgoingRecord(
        topic=letter.topic.removesuffix(DEAD_LETTER_SUFFIX),
        key=letter.key,
        value=letter.value,
        headers=((REPLAY_COUNT, str(count).encode()), *kept),
        partition=letter.partition,
    )


def reason_of(record: OutgoingRecord) -> str | None:
    """The class of the error that `record`, a dead letter, was buried for; None for others."""
    for name, value in record.headers:
        if name == FQCN and value is not None and record.topic.endswith(DEAD_LETTER_SUFFIX):
            return value.decode().rpartition(".")[2]
    return None


def _name(error: ContextEngineError) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _reason(error: ContextEngineError) -> bytes:
    cut = error.message.encode(errors="replace")[:REASON_BYTES]
    return cut.decode(errors="ignore").encode()


def _bounded(raw: RawMessage) -> Headers:
    """The message's own headers, without those of an earlier burial, while they fit.

    They came within the source's limit, but a name that is not UTF-8 grows when it is escaped.
    """
    left = LARGEST_SOURCE + ORIGINAL_HEADERS_BYTES - len(raw.key or b"") - len(raw.value or b"")
    kept: list[tuple[str, bytes | None]] = []
    for name, value in raw.headers:
        left -= len(name.encode()) + len(value or b"") + HEADER_FRAMING_BYTES
        if left < 0:
            break
        if not name.startswith(PREFIX):
            kept.append((name, value))
    return tuple(kept)
