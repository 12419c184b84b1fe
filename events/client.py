"""`ContextClient`: the three uses from outside. Ask for a context, subscribe, emit a change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self
from uuid import uuid4

from pydantic import ValidationError

from context_engine import keys, tracing
from context_engine.changes import AnyChange, domain_change
from context_engine.errors import InvalidRequest, Unavailable
from context_engine.models import ContextBuildInput, invalid
from context_engine.settings import Settings
from events import cloudevents, messages
from events.answers import ReplyTimeout, Stage, context_in, ready_in, timed_out
from events.messages import BuildOptions, BuildRequest, ContextEvicted, ContextReady
from events.producer import Producer, RecordTooLarge
from events.records import OutgoingRecord, Position, RawMessage
from events.subscription import Subscription, evictions_of, of_workspace
from events.tail import Tail
from events.topics import Topics

SOURCE = "context-engine/client"

CLOSE_SECONDS = 3.0
"""How long closing waits for the broker to take what was sent; with a broker that is away the
whole takes five seconds at most."""


class ContextClient:
    """A product's side of the bus.

    ```python
    async with ContextClient(settings) as client:
        ready = await client.request(ContextBuildInput(user_id="u", workspace_id="w"))
    ```

    At most `settings.max_in_flight` requests at once; more wait for their turn. Closing fails
    what still waits with `Unavailable`, requests and changes alike.
    """

    def __init__(self, settings: Settings) -> None:
        self._topics = Topics.of(settings)
        self._bootstrap = settings.kafka_bootstrap
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._waiting: dict[bytes, asyncio.Future[RawMessage]] = {}
        self._most = settings.max_in_flight
        self._producer = Producer(
            settings.kafka_bootstrap,
            client_id="context-client",
            max_record_bytes={t.name: t.max_message_bytes for t in self._topics.all()},
        )
        self._replies: Tail | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self._fail_waiting(Unavailable("client", "closed while a reply was awaited"))
        await asyncio.gather(self._stop_reading(), self._producer.stop(patience=CLOSE_SECONDS))

    async def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError, Unavailable):
                await self._reading
        if self._replies is not None:
            await self._replies.stop()

    # -- asking ------------------------------------------------------------------------------

    async def request(
        self,
        input: ContextBuildInput,
        *,
        options: BuildOptions | None = None,
        timeout: float = 15.0,
        request_id: str | None = None,
    ) -> ContextReady:
        """The context of `input`, within `timeout` seconds (waiting for a turn included).

        Raises `NotFound` and the other kinds of `Rejected` as the engine answered, `Unavailable`
        and the kinds of `NotNow` for its passing reasons, `ReplyTimeout` when no answer came,
        `InvalidRequest` for a request that the topic cannot take, before it is sent.
        """
        try:
            request = BuildRequest(
                request_id=uuid4().hex if request_id is None else request_id,
                input=input,
                options=options or BuildOptions(),
            )
        except ValidationError as error:
            raise invalid(error) from error
        stage = Stage.TURN
        try:
            async with asyncio.timeout(timeout), self._slots:
                stage = Stage.SENDING
                await self._listen()
                with tracing.span("request context"):
                    async with self._expecting(request) as reply:
                        await self._send(self._record(request))
                        stage = Stage.REPLY
                        return context_in(await reply)
        except TimeoutError:
            raise self._timed_out(stage, timeout) from None

    def _timed_out(self, stage: Stage, seconds: float) -> ReplyTimeout:
        if self._replies is None or not self._replies.connected:
            stage = Stage.SENDING
        return timed_out(stage, seconds, self._bootstrap, self._most)

    @asynccontextmanager
    async def _expecting(self, request: BuildRequest) -> AsyncIterator[asyncio.Future[RawMessage]]:
        """The reply to `request`, for as long as somebody waits for it."""
        key = request.request_id.encode()
        if key in self._waiting:
            raise InvalidRequest("is already in flight; use another", field="requestId")
        reply: asyncio.Future[RawMessage] = asyncio.get_running_loop().create_future()
        self._waiting[key] = reply
        try:
            yield reply
        finally:
            del self._waiting[key]
            if reply.done() and not reply.cancelled():
                reply.exception()  # it may have come while the request was still being sent

    def _record(self, request: BuildRequest) -> OutgoingRecord:
        where = request.input
        scope = keys.scope_of(
            where.workspace_id, where.user_id, where.session_id, where.conversation_id
        )
        # exclude_unset: a coordinate left out inherits, and null would clear it.
        data = request.model_dump_json(exclude_unset=True).encode()
        headers, value = cloudevents.encode(
            type=messages.BUILD_REQUESTED, source=SOURCE, id=request.request_id, data=data
        )
        topic = self._topics.build_requests.name
        return OutgoingRecord(topic=topic, key=scope.key.encode(), value=value, headers=headers)

    async def _send(self, record: OutgoingRecord) -> Position:
        try:
            return await self._producer.send(record)
        except RecordTooLarge as error:
            raise InvalidRequest(error.message, field="message") from error

    async def _listen(self) -> None:
        """Reads replies, from before the first request was sent."""
        async with self._opening:
            self._check_open()
            if self._reading is not None and not self._reading.done():
                return
            if self._replies is not None:
                await self._replies.stop()
            ready = self._topics.ready
            replies = Tail(self._bootstrap, [ready.name], max_bytes=ready.max_message_bytes)
            await replies.start()
            try:
                self._check_open()
            except Unavailable:
                await replies.stop()
                raise
            self._replies = replies
            self._reading = asyncio.create_task(self._read(replies))

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("client", "closed before the request was sent")

    async def _read(self, replies: Tail) -> None:
        try:
            async for raw in replies.messages():
                waiting = self._waiting.get(raw.key or b"")
                if waiting is not None and not waiting.done():
                    waiting.set_result(raw)
        except Unavailable as error:
            self._fail_waiting(error)

    def _fail_waiting(self, error: Unavailable) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    # -- emitting ----------------------------------------------------------------------------

    async def emit(self, change: AnyChange) -> Position:
        """Publishes a domain change, after one's own commit; where the broker put it.

        Raises `InvalidRequest` when the topic cannot take it, `Unavailable` without an
        acknowledgement: emit it again, twice does no harm.
        """
        headers, value = cloudevents.encode(
            type=messages.change_type(change),
            source=SOURCE,
            id=change.change_id,
            data=change.model_dump_json().encode(),
        )
        topic = self._topics.topic_for(change).name
        key = change.workspace_id.encode()
        with tracing.span("emit change"):
            return await self._send(
                OutgoingRecord(topic=topic, key=key, value=value, headers=headers)
            )

    # -- subscribing -------------------------------------------------------------------------

    def subscribe_ready(self, workspace_id: str | None = None) -> Subscription[ContextReady]:
        """Contexts as they become ready, from now on; of one workspace, or of all."""

        def read(raw: RawMessage) -> ContextReady | None:
            message = ready_in(raw)
            if message is None or workspace_id in (None, message.context.workspace.id):
                return message
            return None

        ready = self._topics.ready
        tail = Tail(self._bootstrap, [ready.name], max_bytes=ready.max_message_bytes)
        return Subscription(tail, read)

    def subscribe_evictions(
        self, workspace_id: str | None = None, *, since: Sequence[Position] = ()
    ) -> Subscription[ContextEvicted]:
        """What was taken back: whoever holds a context that it concerns drops it.

        From now on, or `since` the `positions` of an earlier subscription, as far as the topic
        keeps them (a day). Each is given at least once. What was missed is told by `Missed`, also
        where an announcement cannot be read.
        """
        topic = self._topics.evictions
        tail = Tail(self._bootstrap, [topic.name], max_bytes=topic.max_message_bytes, since=since)
        return Subscription(tail, evictions_of(workspace_id))

    def subscribe_changes(self, workspace_id: str | None = None) -> Subscription[AnyChange]:
        """Domain changes as they are published, from now on."""
        read = of_workspace(workspace_id, domain_change.validate_json)
        topics = self._topics.changes()
        largest = max(topic.max_message_bytes for topic in topics)
        return Subscription(
            Tail(self._bootstrap, [topic.name for topic in topics], max_bytes=largest), read
        )
