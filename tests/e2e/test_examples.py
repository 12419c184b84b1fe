"""The examples, run against the real house."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from context_engine.adapters.sql import tables as t
from context_engine.bootstrap import Parts
from context_engine.errors import NotFound
from events.client import ContextClient
from examples.chat import Chat
from examples.pm_agent import PmAgent
from examples.router import ToolRouter, list_records
from tests.support.world import World

pytestmark = pytest.mark.any_broker

ROOT = Path(__file__).parents[2]


@pytest.fixture
def router(parts: Parts) -> ToolRouter:
    return ToolRouter({"list_records": list_records(parts.services)})


async def test_a_chat_takes_coordinates_from_body_and_headers(
    client: ContextClient, router: ToolRouter
) -> None:
    """Body before header; the tool acts at the injected table, under the user's rights."""
    headers = {"X-Workspace-Id": "w", "X-Table-Ids": "nowhere", "X-User-Id": "eve"}
    body = {"tableIds": ["t0"], "message": "What is in here?", "userId": "eve"}
    reply = await Chat(client, router).post(headers, body, user_id="ana")
    assert "Table t0" in reply.text
    assert isinstance(reply.tool_result, dict)
    assert reply.tool_result["table"] == "t0"
    assert len(reply.tool_result["records"]) == 3  # type: ignore[arg-type]


async def test_a_chat_is_refused_what_its_user_may_not_see(
    client: ContextClient, router: ToolRouter
) -> None:
    """No context, no tool call."""
    with pytest.raises(NotFound):
        await Chat(client, router).post({"X-Workspace-Id": "w"}, {}, user_id="eve")


async def test_a_pm_agent_acts_within_its_stack(
    client: ContextClient, router: ToolRouter, world: World
) -> None:
    """The agent's own bound narrows its user, and the workflow's state carries the coordinates."""
    await world.add(
        t.agents,
        {"id": "pm", "workspace_id": "w", "name": "PM", "max_role": "viewer", "table_ids": ["t0"]},
    )
    await world.add(t.projects, {"id": "p", "workspace_id": "w", "name": "Harbour"})
    await world.add(t.tasks, {"id": "k", "workspace_id": "w", "project_id": "p", "title": "Dig"})
    agent = PmAgent(client, router, "pm")
    where = {"workspaceId": "w", "projectId": "p", "tableIds": ["t0"]}
    plan = await agent.review({}, where, user_id="ana")
    assert (plan.project, plan.open_tasks) == ("Harbour", 1)
    assert plan.state.project_id == "p"
    assert plan.state.context_snapshot is not None
    assert plan.state.context_snapshot.user.role == "viewer"
    with pytest.raises(NotFound):
        await agent.review({}, {**where, "tableIds": ["t1"]}, user_id="ana")
    unseen = {**where, "projectId": "nowhere", "agentStack": []}
    with pytest.raises(NotFound, match="project 'nowhere'"):
        await agent.review({}, unseen, user_id="ana")


async def test_the_chat_runs_by_hand(
    client: ContextClient, env: dict[str, str], tmp_path: Path
) -> None:
    """As its README says: an answer for who sees the table, one line for who does not."""
    places = ("--workspace", "w", "--table", "t0", "--project", "", "--conversation", "c")
    where = ("-m", "examples.chat", *places)
    code, out, err = await ran(*where, "--user", "ana", env=env, at=tmp_path)
    assert code == 0, err
    assert "Table t0" in out
    assert '"table": "t0"' in out
    code, _, err = await ran(*where, "--user", "eve", env=env, at=tmp_path)
    assert code == 1
    assert err.startswith("not_found: ")
    assert "Traceback" not in err


async def ran(*arguments: str, env: dict[str, str], at: Path) -> tuple[int | None, str, str]:
    """Exit code and output of a Python program over this house, within 40 seconds."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=at,
    )
    async with asyncio.timeout(40):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()
