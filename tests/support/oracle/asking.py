"""What users ask, drawn: often what is there, now and then what is not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.support.oracle import draws as d
from tests.support.oracle import model as m
from tests.support.oracle.request import COORDINATES, Request
from tests.support.oracle.rules import NoMember, access

STACKS: list[tuple[str, ...]] = [(), (), (), ("a0",), ("a0", "a1")]


@st.composite
def requests(draw: st.DrawFn, workspace: m.Workspace, user_id: str) -> Request:
    """A request of a user. In a session it leaves out some of what it could say."""
    asked = draw(coordinates(workspace, user_id))
    session = draw(st.sampled_from([None, None, None, "s", "s", "c"]))
    said = [one for talk in workspace.conversations for one in talk.messages[-1:]]
    messages = [None, None, "what is new?", *(one.content for one in said)]
    asked = replace(
        asked,
        session_id=session,
        message=draw(st.sampled_from(messages)),
        timezone=draw(st.sampled_from([None, *d.ZONES])),
        strict=draw(st.sampled_from([False] * 4 + [True])),
    )
    if session is None:
        return asked
    nothing: dict[str, Any] = {}
    cleared = []
    for name in COORDINATES:
        how = draw(st.sampled_from(["said", "said", "said", "left out", "left out", "cleared"]))
        if how != "said":
            nothing[name] = () if name == "table_ids" else None
        if how == "cleared":
            cleared.append(name)
    return replace(asked, **nothing, cleared=tuple(cleared))


@st.composite
def coordinates(
    draw: st.DrawFn, workspace: m.Workspace, user_id: str, *, in_sight: bool = True
) -> Request:
    """The coordinates of a request; tables are most often those `in_sight`, since one refusal
    ends all."""

    def one_of(ids: list[str]) -> str | None:
        return draw(st.sampled_from([None, *ids, *ids, "nowhere"]))

    w = workspace
    known = [table.id for table in w.tables]
    agents = draw(st.sampled_from(STACKS))
    if in_sight and draw(st.sampled_from([1, 1, 1, 1, 1, 0])):
        with suppress(NoMember):
            known = list(access(w, user_id, agents, d.NOW).ways)
    talks = any(user_id in one.user_ids for one in w.conversations)
    return Request(
        user_id,
        table_ids=tuple(d.some(draw, known, 3) or d.some(draw, known, 3)),
        view_id=one_of([v.id for table in w.tables for v in table.views]),
        project_id=one_of(["p0", "p1"]),
        task_id=one_of([task.id for task in w.tasks]),
        team_id=one_of([team.id for team in w.teams]),
        organization_id=one_of(["o"]),
        workflow_id=one_of(["f"]),
        conversation_id=draw(st.sampled_from([*["c" if talks else None] * 6, None, "c"])),
        agent_stack=agents,
    )
