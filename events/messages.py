"""The messages of the request, reply and eviction topics, and their CloudEvents types."""

from __future__ import annotations

import json
import logging
from typing import Annotated

from pydantic import Field
from pydantic_core import from_json

from context_engine import tokens
from context_engine.changes import AnyChange
from context_engine.errors import UnsupportedOption
from context_engine.models import AgentContext, ContextBuildInput, Contract, Id, Source
from context_engine.tokens import MAX_TOKENS, Token

log = logging.getLogger(__name__)

BUILD_REQUESTED = "context.build.requested"
READY = "context.ready"
BUILD_FAILED = "context.build.failed"
EVICTED = "context.evicted"
HEARTBEAT = "context.heartbeat"

MAX_SCOPE_KEYS = 1_000

MAX_TOKEN_CHARS = 1_024

MAX_TTL_MS = 24 * 3_600_000
"""As long as the topic keeps a request, in milliseconds."""

MAX_REIGNS = 1_000
"""Primaries of one cluster that a heartbeat names: more than any has."""


def change_type(change: AnyChange) -> str:
    """The CloudEvents type of a domain change, such as `domain.grant.changed`."""
    return type_of(change.type)


def type_of(name: str) -> str:
    """The CloudEvents type of the domain change of that name."""
    return f"domain.{name}"


TokenText = Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARS)]


class BuildOptions(Contract):
    """How a request wants to be answered. What this version lacks is refused, never ignored.

    `fresh`: never from a cache, though it fills it. `strict`: every requested coordinate that
    cannot be seen is an error. `after`: tokens of writes that the answer must have in it.
    `maxAgeMs`: a cached answer only if built within it. `ttlMs`: no answer any more, but
    `expired`, once the request is older; counted from when the broker appended it.
    """

    fresh: bool = False
    strict: bool = False
    max_age_ms: Annotated[int, Field(ge=0)] | None = None
    after: Annotated[tuple[TokenText, ...], Field(max_length=MAX_TOKENS)] = ()
    ttl_ms: Annotated[int, Field(ge=1, le=MAX_TTL_MS)] | None = None
    model: str | None = None
    budget: Annotated[int, Field(ge=0)] | None = None


_NOT_YET = {
    "model": "model",
    "budget": "budget",
}


def check_supported(options: BuildOptions) -> None:
    """Raises `UnsupportedOption` for the first option that this version does not have."""
    for name, wire in _NOT_YET.items():
        if getattr(options, name) not in (None, ()):
            raise UnsupportedOption(f"options.{wire} is not supported yet; leave it out")


def tokens_of(options: BuildOptions) -> tuple[Token, ...]:
    """The writes that a request names. Raises `InvalidRequest` for what is no token."""
    return tuple(map(tokens.parse, options.after))


class BuildRequest(Contract):
    """`context.build.requested`. The same `request_id` may be answered more than once."""

    request_id: Id
    input: ContextBuildInput
    options: BuildOptions = BuildOptions()


class ContextReady(Contract):
    """`context.ready`: the answer to a request."""

    request_id: Id
    context_id: Id
    context_hash: str
    source: Source
    context: AgentContext


class BuildFailed(Contract):
    """`context.build.failed`: why there is no answer, and whether to ask again.

    `retryAfterMs`: not before that; only where the engine can tell.
    """

    request_id: Id
    code: str
    message: str
    retryable: bool
    field: str | None = None
    retry_after_ms: Annotated[int, Field(ge=0)] | None = None


class ContextEvicted(Contract):
    """`context.evicted`: after the fact, what was taken back and by which event.

    `tags` are sealed as those of a context are: one in common, and the context is concerned.
    `clock` is the workspace's after the mark; None where nothing of it was cached. Without a
    `workspace_id` nobody could tell whose the change was: every context is concerned. `count` and
    `scope_keys` tell of what was still there: less where it is announced again after a fault.
    """

    workspace_id: Id | None
    change_id: Id
    change_type: str
    topic: str
    partition: int
    offset: int
    tags: tuple[str, ...]
    clock: int | None
    count: int
    scope_keys: tuple[str, ...] = Field(default=(), max_length=MAX_SCOPE_KEYS)
    truncated: bool = False

    def concerns(self, context: AgentContext) -> bool:
        """Whether `context`, if it was made before the change, may not be true any more.

        It says so of one that was made after it too, where it comes late or twice: asking again
        then costs a hit.
        """
        return self.workspace_id is None or not set(self.tags).isdisjoint(context.tags)


class Heartbeat(Contract):
    """`context.heartbeat`: all that was committed before its pulse was published before it.

    A relay sends one through every partition of every change topic, behind the changes. Whoever
    reads the topics for the changes leaves it out.
    """

    at_ms: Annotated[int, Field(ge=0)]
    """The store's time when the pulse was taken, milliseconds since 1970."""
    reigns: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_REIGNS)]
    """Who reigned in the store then: opaque, one for each primary."""
    partitions: Annotated[int, Field(ge=1)]
    """How many partitions this topic has."""
    timeline: Annotated[str, Field(max_length=64)] | None = None
    """The database's whose outbox is vouched for: opaque, another one after a failover."""


def ready_bytes(
    request_id: str, context_id: str, context_hash: str, source: Source, context: bytes
) -> bytes:
    """A `ContextReady` around a context that is JSON already: nothing is parsed."""
    head = (
        f'{{"requestId":{json.dumps(request_id)},"contextId":"{context_id}",'
        f'"contextHash":"{context_hash}","source":"{source}","context":'
    )
    return head.encode() + context + b"}"


_SOURCE = b'"source":"'


def outcome_of(reply: bytes) -> str:
    """The source of a `ready_bytes`, or the code of a `BuildFailed`'s JSON.

    What stands before it is not parsed: within a JSON text its quotes would be escaped.
    """
    at = reply.find(_SOURCE)
    if at < 0:
        return str(json.loads(reply)["code"])
    at += len(_SOURCE)
    return reply[at : reply.index(b'"', at)].decode()


class UnknownFields:
    """Reports fields that a contract does not have, once each: producers may move first."""

    LIMIT = 100
    """Names remembered at most: they come from outside."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._known = {
            "": _names(BuildRequest),
            "input": _names(ContextBuildInput),
            "options": _names(BuildOptions),
        }

    def note(self, data: bytes) -> None:
        """Logs what is in `data`, a request that was read, and not in its contract."""
        if len(self._seen) >= self.LIMIT:
            return
        parsed = from_json(data)
        for place, known in self._known.items():
            part = parsed.get(place, {}) if place else parsed
            for name in part if isinstance(part, dict) else ():
                if name not in known:
                    self._report(f"{place}.{name}" if place else name)

    def _report(self, name: str) -> None:
        shown = name[:80]
        if shown not in self._seen and len(self._seen) < self.LIMIT:
            self._seen.add(shown)
            log.warning("unknown field ignored: %r", shown)


def _names(contract: type[Contract]) -> frozenset[str]:
    """A contract's field names, in both spellings."""
    fields = contract.model_fields
    return frozenset(fields) | {info.alias for info in fields.values() if info.alias}
