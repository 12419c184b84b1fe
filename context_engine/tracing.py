"""Spans, for who looks at them: next to nothing is done and nothing imported until `use`.

A span tells what was done, how long it took and what came of it; never whose it was, what was asked
or what was said. `docs/tracing.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Protocol

Carrier = Mapping[str, str]
"""The W3C headers `traceparent` and `tracestate`, as far as they are there."""
HEADERS = ("traceparent", "tracestate")

Kind = Literal["internal", "client", "producer", "consumer"]
BEGINS: frozenset[Kind] = frozenset({"internal", "consumer"})
"""What may begin a trace. A statement or a record that belongs to nothing, such as a heartbeat, is
not told."""


class Span(Protocol):
    """What is under way."""

    def say(self, name: str, value: str | int | bool) -> None:
        """Notes an attribute."""


class Tracer(Protocol):
    """What makes spans; `adapters/otel.py` has one."""

    def span(
        self, name: str, kind: Kind, parent: Carrier | None
    ) -> AbstractContextManager[Span]: ...

    def carrier(self) -> Carrier: ...

    def trace_id(self) -> str | None: ...


class _Nobody:
    """A span that nobody looks at; one for all."""

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def say(self, name: str, value: str | int | bool) -> None:
        """Nobody hears it."""


UNSEEN = _Nobody()
_tracer: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """Has this process's spans made by `tracer`; None: by nobody."""
    global _tracer  # noqa: PLW0603 - one for a process, as its log is
    _tracer = tracer


def on() -> bool:
    """Whether anybody looks at spans."""
    return _tracer is not None


def span(
    name: str, kind: Kind = "internal", parent: Carrier | None = None
) -> AbstractContextManager[Span]:
    """What is done inside its block, as part of what is under way here, or at `parent`. What is
    neither begins a trace, if its kind is one that `BEGINS`."""
    return UNSEEN if _tracer is None else _tracer.span(name, kind, parent)


def carrier() -> Carrier:
    """What another process needs to go on with this trace; empty where there is none."""
    return {} if _tracer is None else _tracer.carrier()


def trace_id() -> str | None:
    """Of the trace under way here, 32 hex digits, where it is kept."""
    return None if _tracer is None else _tracer.trace_id()
