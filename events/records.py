"""Kafka records as they come and as they go: bytes only, no meaning yet."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class RawMessage:
    """One record as the broker delivered it. `timestamp` is in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """One record to publish. Without a `partition` the key chooses it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where the broker put a record."""

    topic: str
    partition: int
    offset: int
