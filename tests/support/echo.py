"""A worker that answers requests without an engine, to test the client's side of the bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime

from context_engine.models import AgentContext
from context_engine.models.context import ContextWindow, Trace
from context_engine.models.sections import UserSection, WorkspaceSection
from context_engine.settings import Settings
from events import cloudevents, messages
from events.messages import BuildFailed, BuildRequest
from events.producer import Producer
from events.records import OutgoingRecord, RawMessage
from events.tail import Tail
from events.topics import Topics
from tests.support.schemas import validate_message

Answer = Callable[[BuildRequest], BuildFailed | bytes | None]
"""What to say: a failure, a reply's value, or nothing."""


def settings_for(bootstrap: str, prefix: str = "", **more: object) -> Settings:
    """Settings with topics of a test's own, where it gives a `prefix`."""
    names = {
        "topic_build_requests": f"{prefix}context.build-requests",
        "topic_ready": f"{prefix}context.ready",
        "topic_evictions": f"{prefix}context.evictions",
        "topic_domain_prefix": f"{prefix}domain.",
    }
    return Settings.model_validate(
        {"kafka_bootstrap": bootstrap, "tag_secret": "s" * 32, **names, **more}
    )


def agent_context(workspace_id: str = "w", user_id: str = "u") -> AgentContext:
    """The smallest context there is."""
    return AgentContext(
        context_id="c",
        context_hash="h",
        scope_key="s",
        source="build",
        generated_at=datetime(2026, 1, 1, tzinfo=UTC),
        user=UserSection(id=user_id, name=user_id, role="viewer"),
        workspace=WorkspaceSection(id=workspace_id, name=workspace_id),
        context_summary="",
        context_window=ContextWindow(used=0, limit=1, remaining=1),
        trace=Trace(sections={}),
    )


def echo(request: BuildRequest) -> bytes:
    """The request's user and workspace, as a context."""
    context = agent_context(request.input.workspace_id, request.input.user_id)
    return messages.ready_bytes(
        request.request_id, "c", "h", "build", context.model_dump_json().encode()
    )


@asynccontextmanager
async def worker(settings: Settings, answer: Answer = echo) -> AsyncIterator[list[RawMessage]]:
    """Answers what is asked from now on; the requests seen so far."""
    topics = Topics.of(settings)
    producer = Producer(settings.kafka_bootstrap, client_id="echo")
    requests = Tail(settings.kafka_bootstrap, [topics.build_requests.name], max_bytes=2**20)
    seen: list[RawMessage] = []

    async def one(raw: RawMessage) -> None:
        validate_message(raw)
        request = BuildRequest.model_validate_json(raw.value or b"")
        said = answer(request)
        if said is None:
            return
        failed = isinstance(said, BuildFailed)
        headers, value = cloudevents.encode(
            type=messages.BUILD_FAILED if failed else messages.READY,
            source="echo",
            id=request.request_id,
            data=said.model_dump_json().encode() if isinstance(said, BuildFailed) else said,
        )
        await producer.send(
            OutgoingRecord(topics.ready.name, request.request_id.encode(), value, headers)
        )

    async def serve() -> None:
        while True:
            batch = await requests.poll()
            seen.extend(batch)
            await asyncio.gather(*map(one, batch))

    async with AsyncExitStack() as exits:
        await producer.start()
        exits.push_async_callback(producer.stop)
        await requests.start()
        exits.push_async_callback(requests.stop)
        serving = asyncio.create_task(serve())
        exits.push_async_callback(_ended, serving)
        yield seen


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
