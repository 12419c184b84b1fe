"""One request on its way through the engine, and the answer it gets."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from operator import itemgetter

from context_engine.coordinates import Effective
from context_engine.keys import Scope
from context_engine.models.context import Source
from context_engine.models.input import ContextBuildInput
from context_engine.repository import Names, Remarks
from context_engine.tokens import Token


@dataclass(frozen=True, slots=True)
class Options:
    """How one request wants to be answered.

    `fresh`: never from a cache, though it fills it. `strict`: every requested coordinate that
    is out of sight is an error. `after`: from a cache only if these writes are proven applied.
    `max_age_ms`: from a cache only if built within so many milliseconds, by the store's clock; it
    narrows, and never permits what is not proven.
    """

    fresh: bool = False
    strict: bool = False
    after: tuple[Token, ...] = ()
    max_age_ms: int | None = None


DEFAULTS = Options()

_plain = itemgetter(*(name for name in ContextBuildInput.model_fields if name != "metadata"))


def flight_name(request: ContextBuildInput, options: Options) -> Hashable:
    """What requests must share to share an answer: all that they say, and all that decides which
    answers will do. Cheaper than the names in the cache, and sooner there: it needs no session."""
    given, metadata = frozenset(request.model_fields_set), request.metadata
    # As JSON, in which true is not 1.
    return _plain(request.__dict__), given, json.dumps(metadata) if metadata else "", options


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered request. `context` is the `AgentContext` as JSON, ready for the wire."""

    context_id: str
    context_hash: str
    source: Source
    context: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, what it came to mean, and where its answer lies."""

    request: ContextBuildInput
    options: Options
    scope: Scope
    effective: Effective
    names: Names
    remarks: Remarks
    last_hash: str | None = None
    """Hash of the context that the session was answered with before."""
    request_id: str | None = None
    trace_id: str | None = None
