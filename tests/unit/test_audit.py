"""The audit's judgement: what explains a difference, and which answers are looked at."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from context_engine import keys
from context_engine.changes import AnyChange, MemberChanged, TableChanged
from context_engine.liveness import LIFE_MS
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.models.context import Trace, TraceSection
from events.messages import BuildRequest, ContextReady
from events.records import RawMessage
from tests.support.echo import agent_context
from workers.audit import Difference, settled
from workers.cli import audit as command
from workers.cli.terminal import people
from workers.sightings import MOST, Asked, Counts, Happened, Reading, Sightings

SECRET = "s" * 32
NOW = 1_700_000_000_000
REQUEST = BuildRequest(request_id="r", input=ContextBuildInput(user_id="u", workspace_id="w"))
RENAMED = TableChanged(workspace_id="w", table_id="t", op="renamed", change_id="c")


def context(*tags: keys.Tag, summary: str = "", workspace_id: str = "w") -> AgentContext:
    sealed = keys.seal(SECRET, workspace_id, tags)
    made = agent_context(workspace_id)
    return made.model_copy(update={"tags": sealed, "context_summary": summary})


def happened(change: AnyChange, at_ms: int = NOW) -> Happened:
    value = change.model_dump_json().encode()
    seen = Reading(SECRET, None).change(RawMessage("t", 0, 0, at_ms, b"w", value))
    assert seen is not None
    return seen


STALE = Difference(
    Asked(REQUEST, NOW), context(keys.schema("t"), summary="old"), context(summary="new")
)


@pytest.mark.parametrize(
    ("change", "at_ms", "explains"),
    [
        (RENAMED, NOW, True),
        (RENAMED, NOW - LIFE_MS, True),
        (RENAMED, NOW - LIFE_MS - 1, False),
        (TableChanged(workspace_id="w", table_id="other", op="renamed"), NOW, False),
        (TableChanged(workspace_id="v", table_id="t", op="renamed"), NOW, False),
    ],
    ids=["after", "just before", "long before", "another table", "another workspace"],
)
def test_a_change_explains_what_depends_on_it_and_came_after(
    change: AnyChange, at_ms: int, explains: bool
) -> None:
    """What was acknowledged before the request must be in the answer: it explains nothing."""
    found = STALE.explained(iter([happened(change, at_ms)]))
    assert bool(found) is explains


def test_what_only_the_new_one_depends_on_explains_it_too() -> None:
    """A grant that came in between shows in the tags of what it let in."""
    grown = Difference(Asked(REQUEST, NOW), context(), context(keys.schema("t"), summary="new"))
    assert grown.explained(iter([happened(RENAMED)])) == ("table.changed c",)
    refused = replace(STALE, built=None)
    assert refused.sections == ("not_found",)
    assert refused.explained(iter([happened(RENAMED)])) == ("table.changed c",)


def test_a_section_that_was_away_explains_it() -> None:
    away = Trace(sections={"view": TraceSection(status="unavailable", reason="too slow")})
    one = replace(STALE, served=STALE.served.model_copy(update={"trace": away}))
    assert one.explained(iter(())) == ("view was unavailable",)


def test_what_was_inherited_is_said_again() -> None:
    """The session may keep something else by now; what the request said itself stays."""
    asked = ContextBuildInput.model_validate({"userId": "u", "workspaceId": "w", "viewId": None})
    trace = Trace(sections={}, inherited=("tableIds", "projectId"))
    served = agent_context().model_copy(update={"trace": trace})
    again = settled(asked, served)
    assert again.model_fields_set == {"user_id", "workspace_id", "view_id", "table_ids"}
    assert again.table_ids == ()
    assert settled(asked, agent_context()) == asked


def test_each_answer_is_as_likely_as_the_others() -> None:
    seen, drawn = Sightings(), Counter[str]()
    for _ in range(2_000):
        for number in range(4):
            seen.saw(ready(str(number)))
        sample = seen.sample()
        assert sample is not None
        drawn[sample.request_id] += 1
    assert seen.sample() is None
    assert seen.counts.served == 8_000
    assert all(300 < drawn[str(number)] < 700 for number in range(4))


def ready(request_id: str) -> ContextReady:
    return ContextReady(
        request_id=request_id,
        context_id="c",
        context_hash="h",
        source="cache",
        context=agent_context(),
    )


def test_memory_is_bounded() -> None:
    seen, change = Sightings(), happened(RENAMED)
    for number in range(MOST + 5):
        request = BuildRequest(request_id=str(number), input=REQUEST.input)
        seen.saw(Asked(request, NOW))
        seen.saw(change)
    assert len(seen.asked) == len(seen.happened) == MOST
    assert "0" not in seen.asked


def test_only_the_workspace_is_read() -> None:
    value = MemberChanged(workspace_id="v", user_id="u", op="removed").model_dump_json().encode()
    raw = RawMessage("t", 0, 0, NOW, b"v", value)
    assert Reading(SECRET, "w").change(raw) is None
    assert Reading(SECRET, "v").change(raw) is not None
    assert Reading(SECRET, None).change(replace(raw, value=b"{")) is None


def test_people_and_programs_read_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 80 columns; a long list of changes is cut, and said to be."""
    monkeypatch.setattr(command, "console", people(width=80))
    because = [f"record.changed {number:032}" for number in range(5)]
    command._as_line(STALE, because)
    command._as_line(STALE, ())
    command._sum_up(Counts(served=1_000, rebuilt=2, explained=1, unexplained=1), False)
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines()), out
    assert "and 2 more" in out
    assert "unexplained  build, user u in w: contextSummary" in out
    command._as_json(STALE, ())
    command._sum_up(Counts(served=1_000, rebuilt=2), True)
    difference, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (difference["unexplained"], difference["requestId"]) == (True, "r")
    assert (summary["served"], summary["unexplained"]) == (1_000, 0)
