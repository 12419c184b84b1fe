"""Spans by OpenTelemetry: the extra `otel`. Nothing else imports it.

Exporter, sampler, name and limits are those of OpenTelemetry's own variables (`OTEL_…`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from types import TracebackType
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from context_engine.errors import Rejected
from context_engine.tracing import BEGINS, UNSEEN, Carrier, Kind, Span

KINDS: Final[dict[Kind, trace.SpanKind]] = {
    "internal": trace.SpanKind.INTERNAL,
    "client": trace.SpanKind.CLIENT,
    "producer": trace.SpanKind.PRODUCER,
    "consumer": trace.SpanKind.CONSUMER,
}
W3C = TraceContextTextMapPropagator()
LEAVE_SECONDS = 2.0
"""How long a process that leaves waits for its exporter: what that does not take is not told."""
EXPORTERS = "opentelemetry_traces_exporter"
"""The entry points of packages that bring one."""


class NoExporter(Rejected):
    """`OTEL_TRACES_EXPORTER` or the protocol names an exporter that is not installed."""

    code = "settings"


class _Seen:
    """A span that is recorded."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def say(self, name: str, value: str | int | bool) -> None:
        self._span.set_attribute(name, value)


class _Unkept:
    """The beginning of a trace that is not kept: nothing below it is made. The SDK's own way to
    remember that costs a request a twentieth of its time."""

    within: Final = ContextVar[Carrier | None]("within", default=None)
    """What others are told of it; None outside of any."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def __enter__(self) -> Span:
        self._outside = self.within.set(self._carrier)
        return UNSEEN

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.within.reset(self._outside)


class OpenTelemetry:
    """`Tracer` over a provider of OpenTelemetry's."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("context-engine")

    def span(self, name: str, kind: Kind, parent: Carrier | None) -> AbstractContextManager[Span]:
        if _Unkept.within.get() is not None and not parent:
            return UNSEEN
        here = trace.get_current_span()
        if parent:
            context = W3C.extract(dict(parent))
        elif not here.get_span_context().is_valid:
            if kind not in BEGINS:
                return UNSEEN
            context = None
        elif here.is_recording():
            context = None
        else:
            return UNSEEN
        begun = self._tracer.start_span(name, context, KINDS[kind])
        if begun.is_recording():
            return _recorded(begun)
        if here.is_recording():
            return UNSEEN  # of several changes that are marked together one is kept
        # Who reads a reply or an announcement has its own trace, or begins one.
        return _Unkept({} if kind == "consumer" else _carrier(trace.set_span_in_context(begun)))

    def carrier(self) -> Carrier:
        unkept = _Unkept.within.get()
        return _carrier() if unkept is None else unkept

    def trace_id(self) -> str | None:
        here = trace.get_current_span().get_span_context()
        kept = _Unkept.within.get() is None and here.trace_flags.sampled
        return trace.format_trace_id(here.trace_id) if kept else None


@contextmanager
def _recorded(begun: trace.Span) -> Iterator[Span]:
    outside = _Unkept.within.set(None)
    try:
        with _current(begun) as seen:
            yield seen
    finally:
        _Unkept.within.reset(outside)


@contextmanager
def _current(begun: trace.Span) -> Iterator[Span]:
    with trace.use_span(
        begun,
        end_on_exit=True,
        record_exception=False,  # its text may have what users wrote
        set_status_on_exception=False,
    ):
        try:
            yield _Seen(begun)
        except BaseException as error:
            begun.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise


def _carrier(context: Context | None = None) -> Carrier:
    found: dict[str, str] = {}
    W3C.inject(found, context)
    return found


@contextmanager
def exported(service: str, environ: Mapping[str, str]) -> Iterator[OpenTelemetry]:
    """A tracer for `service`, whose last spans are sent at the end.

    Over the provider that this process has already, if it has one: its product exports them then.
    Raises `NoExporter`.
    """
    there = trace.get_tracer_provider()
    if isinstance(there, TracerProvider):
        yield OpenTelemetry(there)
        return
    named = {} if environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    if (exporter := _exporter(environ)) is not None:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    try:
        yield OpenTelemetry(provider)
    finally:
        # A thread, since the exporter tries again for as long as it likes.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(LEAVE_SECONDS)


def _exporter(environ: Mapping[str, str]) -> SpanExporter | None:
    name = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "none":
        return None
    if name == "otlp":
        of_all = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or of_all
        name = f"otlp_proto_{protocol.partition('/')[0]}"
    found = entry_points(group=EXPORTERS, name=name)
    if not found:
        there = ", ".join(sorted(one.name for one in entry_points(group=EXPORTERS)))
        raise NoExporter(f"OTEL_TRACES_EXPORTER: there is no exporter {name!r}, only {there}, none")
    exporter: SpanExporter = found[name].load()()
    return exporter
