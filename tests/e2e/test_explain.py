"""`context-engine explain` through the command line, over the house with its workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.bootstrap import Parts
from tests.e2e.test_evidence import Shell
from workers.seed import seed

ASK = ("explain", "--user", "usr-chloe", "--table", "tbl-tasks")


@pytest.mark.timeout(180)
async def test_an_operator_is_told_why(tmp_path: Path, env: dict[str, str], parts: Parts) -> None:
    """For people with the notice on stderr, for programs as JSON; 0 whatever the verdict."""
    await seed(parts.services)
    shell = Shell(tmp_path, env)
    told, notice = await shell(*ASK, "--view", "viw-tasks-board")
    assert "For operators only" in notice
    lines = told.splitlines()
    assert lines[0].split() == [
        "lets", "in", "membership", "an", "active", "member", "with", "the", "role", "viewer;",
        "teams:", *lines[0].split()[11:],
    ]  # fmt: skip
    assert lines[-1].startswith("lets in    verdict: view viw-tasks-board")
    policy = next(line for line in lines if "role viewer: " in line)
    assert policy.startswith("narrows ")
    assert "fld-task-assignee" in policy

    found = await shell.json(*ASK, "--record", "rec-tasks-0001", "--field", "fld-task-title")
    assert found["notice"] in notice
    assert (found["userId"], found["recordId"]) == ("usr-chloe", "rec-tasks-0001")
    assert {"step", "outcome", "because"} == found["steps"][0].keys()
    verdict = found["steps"][-1]
    assert verdict["step"] == "verdict: cell rec-tasks-0001, fld-task-title"
    assert found["inSight"] is (verdict["outcome"] == "lets in")

    gone = await shell.json("explain", "--user", "usr-chloe", "--table", "nowhere")
    assert gone["inSight"] is False
    assert gone["steps"][-1]["because"] == "there is no table 'nowhere'"
    stranger = await shell.json("explain", "--user", "nobody", "--table", "tbl-tasks")
    assert [one["because"] for one in stranger["steps"]] == ["there is no user 'nobody'"] * 2
