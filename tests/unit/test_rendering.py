"""Contexts as JSON: what is written once says the same wherever it is put in."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from context_engine import keys, rendering
from context_engine.assembly import assemble
from context_engine.built import Built, Limits, Surfaced
from context_engine.coordinates import effective
from context_engine.models import (
    AgentContext,
    ContextBuildInput,
    TableSection,
    Unresolved,
    UserSection,
    WorkspaceSection,
)
from context_engine.models.sections import Count
from context_engine.rendering import Rendered, answered, content_hash
from context_engine.sections.surface import Surface
from tests.unit.test_conversation import said, visible_with

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def render(made: Surface, locale: str | None) -> Rendered:
    return rendering.render(made, locale, frozenset({keys.WORKSPACE, keys.schema("t0")}))


def surface(name: str = "Name", tables: int = 2) -> Surface:
    made = [
        TableSection(
            id=f"t{n}", name=name, permission="viewer", field_count=1, fields=(), view_count=0,
            views=(), record_count=Count.of(n),
        )
        for n in range(tables)
    ]  # fmt: skip
    return Surface(
        user=UserSection(id="u", name=name, role="viewer"),
        workspace=WorkspaceSection(id="w", name=name),
        organization=None, team=None, project=None, task=None, tables=tuple(made), relations=(),
        view=None, workflow=None, agent_stack=(), trace={},
        absent=(Unresolved(coordinate="taskId", id="k"),),
    )  # fmt: skip


def built(rendered: Rendered, *, age_ms: int = 0, **more: object) -> Built:
    asked = {"userId": "u", "workspaceId": "w", "conversationId": "c", "message": "Hi", **more}
    request = ContextBuildInput.model_validate(asked)
    known = Surfaced(
        surface=rendered, tags=frozenset(), unresolved=rendered.absent, source="surface",
        age_ms=age_ms, conversation=visible_with([said(n) for n in range(30)]),
    )  # fmt: skip
    return assemble(
        Limits(tag_secret="s"), request, effective(request, None), known, scope_key="k",
        context_id="id", last_hash="before", now=datetime(2026, 5, 1, 9, 30, tzinfo=UTC),
        remarks=("r",),
    )  # fmt: skip


def context_of(one: Built) -> dict[str, object]:
    made: dict[str, object] = json.loads(answered(one.payload, "surface", 7)[1])
    return made


@given(name=NAMES, tables=st.integers(0, 3), locale=st.sampled_from([None, "de", "zh-CN"]))
def test_a_surface_comes_back_as_it_was_cached(name: str, tables: int, locale: str | None) -> None:
    """Line ends and separators in names included: the texts are the same, so the contexts are."""
    written = render(surface(name, tables), locale)
    again = Rendered.loaded(written.payload)
    assert again == written
    assert built(again).payload == built(written).payload


def test_a_context_is_what_its_contract_says() -> None:
    """Parsed and written again by the model it is the same JSON, in the same order of fields."""
    found = context_of(built(render(surface(), None), metadata={"b": 1.5, "a": [None]}))
    again = AgentContext.model_validate(found).model_dump(mode="json")
    assert again == found
    front = ["source", "ageMs"]
    assert list(found) == front + [name for name in again if name not in front]


def test_the_hash_can_be_computed_from_the_json() -> None:
    """By whoever has the context; what identifies the build and not the content is left out."""
    one = built(render(surface(), None), metadata={"b": 1, "a": {"d": 1.25, "c": "ü"}})
    found = context_of(one)
    assert content_hash(found) == one.context_hash == found["contextHash"]  # type: ignore[arg-type]
    other = built(render(surface(), None), age_ms=99, metadata={"a": {"c": "ü", "d": 1.25}, "b": 1})
    assert other.context_hash == one.context_hash
    assert built(render(surface("Else"), None)).context_hash != one.context_hash


def test_the_first_table_is_the_one_that_was_asked_for_first() -> None:
    found = context_of(built(render(surface(), None)))
    assert found["table"] == found["tables"][0]  # type: ignore[index]
    assert context_of(built(render(surface(tables=0), None)))["table"] is None


def test_the_trace_tells_size_and_age_of_each_section() -> None:
    """The surface is as old as its reading; the dialogue is of now."""
    one = built(render(surface(), None), age_ms=40)
    found = AgentContext.model_validate(context_of(one))
    assert found.conversation is not None
    dialogue = found.trace.sections["conversation"]
    assert (dialogue.status, dialogue.reason) == ("trimmed", "20 messages kept, 10 compressed")
    assert dialogue.age_ms == 0
    assert dialogue.chars > 1_000
    assert found.trace.sections["metadata"].status == "absent"
    assert found.trace.sections["session"].status == "included"
    assert found.trace.remarks == ("r",)
