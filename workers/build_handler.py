"""The build worker's handler: a request's bytes in, the records of its answer out.

Every request is answered. What is refused gets `context.build.failed`; what is malformed goes to
the dead letters too, and so does a request that met a fault of ours: it must not stop its
partition for ever.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from uuid import uuid4

import structlog
from pydantic import ValidationError
from structlog.contextvars import bind_contextvars

from context_engine import tracing
from context_engine.engine import ContextEngine, Options
from context_engine.errors import (
    ContextEngineError,
    Expired,
    InvalidRequest,
    RateLimited,
    ReplyRefused,
)
from context_engine.models import invalid
from context_engine.settings import Settings
from events import cloudevents, messages
from events.cloudevents import FASTSTREAM_REPLY, SPRING_PARTITION, SPRING_REPLY, ReplyAddress
from events.dead_letters import dead_letter
from events.messages import BuildFailed, BuildRequest, UnknownFields
from events.producer import RecordRefused
from events.records import OutgoingRecord, RawMessage
from events.topics import DEAD_LETTER_SUFFIX, Topics

log = structlog.get_logger(__name__)

SOURCE = "context-engine/build"
"""CloudEvents `source` of what this worker says."""


class BuildHandler:
    """Answers one request. Raises nothing that its request could cause."""

    def __init__(self, engine: ContextEngine, topics: Topics, settings: Settings) -> None:
        self._engine, self._topics = engine, topics
        self._allowed = frozenset({topics.ready.name, *settings.reply_topics})
        self._group = settings.build_group
        self._unknown = UnknownFields()

    async def __call__(self, raw: RawMessage) -> list[OutgoingRecord]:
        """The records to publish before the request is acknowledged."""
        try:
            event = cloudevents.decode(raw)
            request = self._request(event)
        except ContextEngineError as error:
            return self._refused(raw, error, _told_of(cloudevents.peek_request_id(raw)))
        _told_of(request.request_id)
        try:
            address = ReplyAddress.of(raw, self._allowed)
            return [await self._answer(request, address, _until(raw, request.options.ttl_ms))]
        except InvalidRequest as error:
            return self._refused(raw, error, request.request_id)
        except ContextEngineError as error:
            # Who is turned away by the hundred is counted (`/metrics`); a line for each costs more.
            say = log.debug if isinstance(error, RateLimited) else log.info
            say("request failed", code=error.code, retryable=error.retryable)
            return [self._failed(raw, error, request.request_id)]
        except Exception as error:
            log.exception("request met a fault", offset=raw.offset, partition=raw.partition)
            fault = Fault(f"the engine failed on this request ({type(error).__name__})")
            return self._refused(raw, fault, request.request_id)

    def _request(self, event: cloudevents.CloudEvent) -> BuildRequest:
        if event.type != messages.BUILD_REQUESTED:
            raise InvalidRequest(f"send {messages.BUILD_REQUESTED} on this topic", field="ce_type")
        try:
            request = BuildRequest.model_validate_json(event.data)
        except ValidationError as error:
            raise invalid(error) from error
        self._unknown.note(event.data)
        return request

    async def _answer(
        self, request: BuildRequest, address: ReplyAddress, until: float
    ) -> OutgoingRecord:
        messages.check_supported(request.options)
        options = Options(
            fresh=request.options.fresh,
            strict=request.options.strict,
            after=messages.tokens_of(request.options),
            max_age_ms=request.options.max_age_ms,
        )
        answer = await self._engine.build(
            request.input,
            options,
            request_id=request.request_id,
            trace_id=tracing.trace_id(),
            until=until,
        )
        data = messages.ready_bytes(
            request.request_id,
            answer.context_id,
            answer.context_hash,
            answer.source,
            answer.context,
        )
        return self._record(address, request.request_id, messages.READY, data)

    def _record(
        self, address: ReplyAddress, request_id: str, type: str, data: bytes
    ) -> OutgoingRecord:
        headers, value = cloudevents.encode(
            type=type, source=SOURCE, id=uuid4().hex, data=data, extra=address.echo
        )
        return OutgoingRecord(
            topic=address.topic or self._topics.ready.name,
            key=request_id.encode(),
            value=value,
            headers=headers,
            partition=address.partition,
        )

    def _failed(
        self, raw: RawMessage, error: ContextEngineError, request_id: str
    ) -> OutgoingRecord:
        """The failure, to the reply's address, or to the default topic where that is refused.

        What correlates it goes along in both cases: who waits there must know it for theirs.
        """
        failed = BuildFailed(
            request_id=request_id,
            code=error.code,
            message=error.message,
            retryable=error.retryable,
            field=getattr(error, "field", None),
            retry_after_ms=getattr(error, "retry_after_ms", None),
        )
        unaddressed = ReplyAddress.of(_without_address(raw), self._allowed)
        try:
            address = ReplyAddress.of(raw, self._allowed)
        except ReplyRefused:
            address = unaddressed
        if isinstance(error, ReplyRefused):
            address = unaddressed
        data = failed.model_dump_json().encode()
        return self._record(address, request_id, messages.BUILD_FAILED, data)

    def _refused(
        self, raw: RawMessage, error: ContextEngineError, request_id: str | None
    ) -> list[OutgoingRecord]:
        """A malformed request: to the dead letters, and answered where its id can be read."""
        log.warning(
            "request refused",
            code=error.code,
            reason=error.message,
            partition=raw.partition,
            offset=raw.offset,
        )
        records = [dead_letter(raw, error, self._group)]
        if request_id is not None:
            records.append(self._failed(raw, error, request_id))
        return records

    async def substitute(
        self, raw: RawMessage, refused: OutgoingRecord, refusal: RecordRefused
    ) -> list[OutgoingRecord]:
        """What to send where a topic does not take a reply: a typed failure, on the default topic.

        Raises the refusal itself for a dead letter: nothing can take its place.
        """
        if refused.key is None or refused.topic.endswith(DEAD_LETTER_SUFFIX):
            raise refusal
        error = ReplyRefused(f"the reply cannot be delivered: {refusal.message}")
        # A reply's key is its request's id, and stands where the message itself is hard to read.
        return [self._failed(raw, error, refused.key.decode())]


def _until(raw: RawMessage, ttl_ms: int | None) -> float:
    """When `raw` expires, by this process's monotonic clock. Raises `Expired` where it has.

    Its age is the time since the broker appended it, by this machine's clock: wrong by as much as
    the two clocks differ. A record that bears no time never expires.
    """
    if ttl_ms is None or raw.timestamp <= 0:
        return math.inf
    age_ms = max(0, time.time_ns() // 1_000_000 - raw.timestamp)
    if age_ms > ttl_ms:
        raise Expired(
            f"is {age_ms} ms old and was worth asking for {ttl_ms} ms (options.ttlMs);"
            " ask again if somebody still waits"
        )
    return time.monotonic() + (ttl_ms - age_ms) / 1_000


def _told_of(request_id: str | None) -> str | None:
    """`request_id`, which is in every line of the log from here on that its task writes."""
    bind_contextvars(request_id=request_id)
    return request_id


def _without_address(raw: RawMessage) -> RawMessage:
    named = (SPRING_REPLY, FASTSTREAM_REPLY, SPRING_PARTITION)
    return replace(raw, headers=tuple(one for one in raw.headers if one[0] not in named))


class Fault(ContextEngineError):
    """A fault of ours, answered so that nobody waits for ever."""

    code = "internal"
