"""Spans: off they are nothing, on they belong together, and they tell nothing of anybody."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from context_engine import tracing
from context_engine.adapters.otel import NoExporter, exported
from context_engine.settings import Settings, SettingsError, load
from events.records import RawMessage, carrier_of, headers_of
from tests.support.spans import seen_here, told

pytestmark = pytest.mark.unit

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RAW = RawMessage("t", 0, 0, 0, None, None, ((tracing.HEADERS[0], PARENT.encode()),))


def test_off_nothing_is_made_nor_imported() -> None:
    """One span for all, no carrier, and no tracer (redis-py looks for the API by itself)."""
    assert tracing.span("a") is tracing.span("b", "consumer", {"traceparent": PARENT})
    with tracing.span("a") as span:
        span.say("name", 1)
    assert not tracing.carrier()
    assert tracing.trace_id() is None
    assert carrier_of(RAW.headers) is None
    modules = ("opentelemetry.sdk.trace", "context_engine.adapters.otel")
    code = (
        "import sys, context_engine.bootstrap, workers.build, events.client;"
        f"print([name for name in {modules} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_done_belongs_to_what_it_is_done_for() -> None:
    """A message's trace goes on here; what is inside is below it; what goes out carries it."""
    with seen_here() as kept:
        with tracing.span("outer", "consumer", carrier_of(RAW.headers)):
            assert tracing.trace_id() == PARENT.split("-")[1]
            with tracing.span("inner", "client") as inner:
                inner.say("context_engine.hit", True)
            carried = tracing.carrier()["traceparent"]
        inner_, outer = map(told, kept.get_finished_spans())
    assert (inner_.name, inner_.parent, inner_.trace) == ("inner", outer.span, outer.trace)
    assert inner_.attributes == {"context_engine.hit": "True"}
    assert outer.parent == PARENT.split("-")[2]
    assert carried == f"00-{outer.trace}-{outer.span}-01"


def test_what_belongs_to_nothing_begins_no_trace() -> None:
    """A statement of a background task, a heartbeat that is sent."""
    with seen_here() as kept:
        with tracing.span("sql", "client"), tracing.span("send", "producer"):
            assert not tracing.carrier()
        assert kept.get_finished_spans() == ()
        with tracing.span("write"):
            pass
        assert len(kept.get_finished_spans()) == 1


@pytest.mark.parametrize("kind", ["internal", "consumer"])
def test_what_is_not_kept_has_no_parts_and_says_so_to_others(kind: tracing.Kind) -> None:
    """Sampled out here, a write is sampled out everywhere; whoever reads a reply has its own."""
    with seen_here(ALWAYS_OFF) as kept:
        with tracing.span("outer", kind):
            with tracing.span("inner"), tracing.span("leaf", "client") as leaf:
                leaf.say("name", 1)
            carrier = tracing.carrier()
            assert tracing.trace_id() is None
        with tracing.span("outer", parent=carrier):
            assert tracing.carrier() or kind == "consumer"
        assert not tracing.carrier()
        assert kept.get_finished_spans() == ()
    if kind == "internal":
        assert not int(carrier["traceparent"].rpartition("-")[2], 16) & 1
    else:
        assert not carrier


@pytest.mark.parametrize("flags", ["00 01", "01 00", "00 01 00"])
def test_of_changes_that_are_marked_together_those_are_told_that_are_kept(flags: str) -> None:
    """Whichever is the first; what is done for all of them is in the trace of one that is kept."""
    traces = [f"{number:032x}" for number, _ in enumerate(flags.split(), 1)]
    with seen_here(ParentBased(ALWAYS_OFF)) as kept:
        with ExitStack() as spans:
            for trace, flag in zip(traces, flags.split(), strict=True):
                parent = {"traceparent": f"00-{trace}-b7ad6b7169203331-{flag}"}
                spans.enter_context(tracing.span("mark change", "consumer", parent))
            with tracing.span("redis mark", "client"):
                pass
        found = [(one.name, one.trace) for one in map(told, kept.get_finished_spans())]
        with tracing.span("later"):
            assert tracing.trace_id() is None
    one = traces[flags.split().index("01")]
    assert found == [("redis mark", one), ("mark change", one)]


def test_a_failure_is_told_by_its_kind_alone() -> None:
    """Its text may have what users wrote."""
    with seen_here() as kept:
        with pytest.raises(ValueError, match="secret"), tracing.span("outer"):
            raise ValueError("secret")
        [span] = kept.get_finished_spans()
    assert span.status.description == "ValueError"
    assert span.events == ()
    assert "secret" not in span.to_json()


@pytest.mark.parametrize(
    "value", [b"\xff\xfe", b"", b"00-zz", b"x" * 600, None, b"00-" + b"0" * 32 + b"-1-01"]
)
def test_a_broken_header_begins_a_trace_of_its_own(value: bytes | None) -> None:
    """Whoever sent it: the request is answered all the same."""
    raw = replace(RAW, headers=(("traceparent", value), ("TraceState", value)))
    with seen_here() as kept:
        with tracing.span("outer", "consumer", carrier_of(raw.headers)):
            pass
        [span] = kept.get_finished_spans()
    assert span.parent is None


@pytest.mark.parametrize(
    "state",
    [
        *(
            b"zanzi bar",
            b"zanzibar=1,zanzibar=2",
            b"a=1,\xffzanzibar=2",
            b"Zanzibar=1",
            b"zanzibar",
        ),
        ",".join(f"zanzibar{n}=1" for n in range(33)).encode(),
    ],
)
def test_what_a_sender_put_in_place_of_a_state_is_in_no_log(
    state: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenTelemetry tells of each word that it does not take. The trace goes on all the same."""
    raw = replace(RAW, headers=(*RAW.headers, ("tracestate", state)))
    with seen_here() as kept:
        with tracing.span("outer", "consumer", carrier_of(raw.headers)):
            assert "tracestate" not in tracing.carrier()
        [span] = kept.get_finished_spans()
    assert told(span).parent == PARENT.split("-")[2]
    assert caplog.text == ""


def test_a_state_goes_along() -> None:
    """As it came, members in their order."""
    state = b"vendor=a b!~,0tenant-1@x*/=2 ,, k=3"
    raw = replace(RAW, headers=(*RAW.headers, ("tracestate", state)))
    with seen_here(), tracing.span("outer", "consumer", carrier_of(raw.headers)):
        assert tracing.carrier()["tracestate"] == "vendor=a b!~,0tenant-1@x*/=2,k=3"


def test_an_exporter_that_is_not_there_is_named_with_those_that_are() -> None:
    with (
        pytest.raises(NoExporter, match=r"no exporter 'jaeger', only console, otlp_proto_http"),
        exported("x", {"OTEL_TRACES_EXPORTER": "jaeger"}),
    ):
        pass


def test_without_the_extra_the_setting_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTEXT_TAG_SECRET", "s" * 32)
    monkeypatch.setenv("CONTEXT_TRACING", "true")
    assert load().tracing
    monkeypatch.setattr("context_engine.settings.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"CONTEXT_TRACING: needs .*context-engine\[otel\]"):
        load()
    assert not Settings.model_fields["tracing"].default


def test_what_is_longer_than_others_read_is_not_sent_on() -> None:
    """A record would have no room for it, or its topic none for the record."""
    carrier = {"traceparent": PARENT, "tracestate": "a=" + "x" * 600}
    assert headers_of(carrier) == (("traceparent", PARENT.encode()),)
