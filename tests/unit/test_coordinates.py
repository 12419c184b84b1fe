"""Effective coordinates: what inherits, what clears, what belongs together."""

from __future__ import annotations

import pytest

from context_engine.coordinates import effective, kept
from context_engine.keys import Coordinates
from context_engine.models import ContextBuildInput

BEFORE = Coordinates(
    "w",
    "u",
    session_id="s",
    conversation_id="c",
    project_id="p",
    table_ids=("t", "x"),
    view_id="v",
    task_id="k",
)


def request(**fields: object) -> ContextBuildInput:
    return ContextBuildInput.model_validate({"userId": "u", "workspaceId": "w", **fields})


def test_what_is_left_out_inherits() -> None:
    """Every coordinate of the session, in the words of the trace."""
    found = effective(request(sessionId="s"), kept(BEFORE))
    assert found.at == BEFORE
    assert set(found.inherited) == {
        "conversation_id",
        "project_id",
        "table_ids",
        "view_id",
        "task_id",
    }


def test_null_and_the_empty_list_clear() -> None:
    """None and [] say "none"; what belongs to a cleared coordinate goes with it."""
    found = effective(request(sessionId="s", projectId=None, tableIds=[]), kept(BEFORE))
    assert found.at == Coordinates("w", "u", session_id="s", conversation_id="c")


def test_a_view_is_inherited_only_with_its_table() -> None:
    """Other tables drop it, the same tables keep it; so a task with its project."""
    assert effective(request(tableIds=["t"]), kept(BEFORE)).at.view_id is None
    assert effective(request(tableIds=["t", "x"]), kept(BEFORE)).at.view_id == "v"
    assert effective(request(projectId="q"), kept(BEFORE)).at.task_id is None
    assert effective(request(projectId="p"), kept(BEFORE)).at.task_id == "k"


def test_tables_replace_as_a_whole() -> None:
    """No merging of lists."""
    assert effective(request(tableIds=["y"]), kept(BEFORE)).at.table_ids == ("y",)


def test_the_agent_stack_is_never_inherited() -> None:
    """A request without one acts with the user's own rights."""
    acted = effective(request(agentStack=["a"]), None).at
    assert acted.agent_stack == ("a",)
    assert effective(request(), kept(acted)).at.agent_stack == ()


def test_a_new_session_inherits_nothing() -> None:
    """Without a record, what is left out is none."""
    found = effective(request(sessionId="new"), None)
    assert found.at == Coordinates("w", "u", session_id="new")
    assert found.inherited == ()


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"\xff", b"[]", b"null", b'"t"', b'{"table_ids":"t","view_id":["v"]}',
     b'{"table_ids":[1,null],"project_id":{}}'],
)  # fmt: skip
def test_a_damaged_session_keeps_nothing(damaged: bytes) -> None:
    """It is never trusted: not to be right, and not to be what was written."""
    found = effective(request(sessionId="s"), damaged)
    assert found == effective(request(sessionId="s"), None)
