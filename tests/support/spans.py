"""Spans as they leave a process: in memory for this one, over OTLP for workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from context_engine import tracing
from context_engine.adapters.otel import OpenTelemetry


@dataclass(frozen=True)
class Told:
    """A span as an exporter got it."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, str] = field(default_factory=dict)


@contextmanager
def seen_here(sampler: Sampler = ALWAYS_ON) -> Iterator[InMemorySpanExporter]:
    """This process's spans."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(
        sampler=sampler, resource=Resource({"service.name": "product"}), shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing.use(OpenTelemetry(provider))
    try:
        yield kept
    finally:
        tracing.use(None)
        provider.shutdown()


def told(span: ReadableSpan) -> Told:
    context = span.context
    assert context is not None
    return Told(
        "product",
        span.name,
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
        f"{span.parent.span_id:016x}" if span.parent else "",
        {name: str(value) for name, value in (span.attributes or {}).items()},
    )


@dataclass
class Receiver:
    """Where workers export to."""

    endpoint: str
    spans: list[Told] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, *wanted: tuple[str, str], trace: str) -> list[Told]:
        """The spans of a trace, once there is one of each (service, name)."""
        while True:
            found = [one for one in self.spans if one.trace == trace]
            if not (missing := set(wanted) - {(one.service, one.name) for one in found}):
                return found
            self._more.clear()
            try:
                await self._more.wait()
            except asyncio.CancelledError as ended:
                ended.add_note(f"missing: {sorted(missing)}, of {self.spans}")
                raise

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.spans += [
                Told(
                    named["service.name"],
                    one.name,
                    one.trace_id.hex(),
                    one.span_id.hex(),
                    one.parent_span_id.hex(),
                    {attribute.key: str(attribute.value) for attribute in one.attributes},
                )
                for scope in resource.scope_spans
                for one in scope.spans
            ]
        self._more.set()


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    """A collector of its own, on a free port of this machine."""
    made = Receiver("")

    async def take(request: web.Request) -> web.Response:
        made.take(await request.read())
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(),
            content_type="application/x-protobuf",
        )

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.endpoint = f"http://{host}:{port}"
    try:
        yield made
    finally:
        await runner.cleanup()
