"""Kafka records as they come and as they go: bytes only, no meaning yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from context_engine import tracing
from context_engine.ports import Place
from context_engine.tokens import Published, text_of

Headers = tuple[tuple[str, bytes | None], ...]


MAX_CARRIED = 512
"""Characters of one W3C header: `traceparent` has 55, and `tracestate` is cut no shorter."""
MEMBERS = 32
"""Of a `tracestate`."""
MEMBER = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
)


def carrier_of(headers: Headers) -> tracing.Carrier | None:
    """The trace that a message belongs to, where this process looks at spans; None without one."""
    if not tracing.on():
        return None
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower().removeprefix("ce_")
        if key in tracing.HEADERS and value is not None and len(value) <= MAX_CARRIED:
            text = value.decode("ascii", errors="replace")
            if key != "tracestate" or _is_state(text):
                found.setdefault(key, text)
    return found or None


def headers_of(carrier: tracing.Carrier) -> Headers:
    """A trace as a message has it; what is longer than others read of one is left out."""
    return tuple(
        (name, text.encode()) for name, text in carrier.items() if len(text) <= MAX_CARRIED
    )


def _is_state(text: str) -> bool:
    """Whether W3C takes it. OpenTelemetry leaves out what it does not, and logs the words of it:
    whatever a sender put there, a line for each message."""
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    names = {member.partition("=")[0] for member in members}
    return len(names) == len(members) <= MEMBERS and all(map(MEMBER.fullmatch, members))


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

    @property
    def token(self) -> str:
        """Names the record to a later request (`options.after`), which is answered after it."""
        return text_of(Published(Place(self.topic, self.partition), self.offset))
