"""`context-engine explain` through the command line, over the house with its workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from context_engine.bootstrap import Parts
from tests.e2e.test_evidence import Shell
from workers.seed import seed, shape

pytestmark = pytest.mark.any_broker

ASK = ("explain", "--user", "usr-chloe", "--table", "tbl-tasks")


@pytest.mark.timeout(180)
async def test_an_operator_is_told_why(tmp_path: Path, env: dict[str, str], parts: Parts) -> None:
    """For people with the notice on stderr, for programs as JSON; 0 whatever the verdict, and 65
    where something that was named is not there at all."""
    await seed(parts.services)
    shell = Shell(tmp_path, env)
    told, notice = await shell(*ASK, "--view", "viw-tasks-board")
    assert "For operators only" in notice
    lines = told.splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[0].split()[:3] == ["lets", "in", "membership"]
    assert "an active member with the role viewer; teams: " in " ".join(told.split())
    assert lines[-1].startswith("lets in    verdict: view viw-tasks-board")
    policy = next(n for n, line in enumerate(lines) if "policy 1 of 1 " in line)
    assert lines[policy].startswith("narrows ")
    assert "fld-task-assignee" in "".join(lines[policy:])

    found = await shell.json(*ASK, "--record", "rec-tasks-0001", "--field", "fld-task-title")
    assert found["notice"] in " ".join(notice.split())
    assert (found["userId"], found["recordId"]) == ("usr-chloe", "rec-tasks-0001")
    assert {"step", "outcome", "because", "rule"} == found["steps"][0].keys()
    assert [one["rule"] for one in found["steps"] if one["rule"]] == [
        shape.OWN_TASKS["policies"][0]["pred"]  # type: ignore[index,call-overload]
    ]
    assert found["missing"] == []
    verdict = found["steps"][-1]
    assert verdict["step"] == "verdict: cell rec-tasks-0001, fld-task-title"
    assert found["inSight"] is (verdict["outcome"] == "lets in")

    for words, said in (
        (("--user", "usr-chloe", "--table", "nowhere"), ["there is no table 'nowhere'"]),
        (("--user", "nobody", "--table", "tbl-tasks"), ["there is no user 'nobody'"]),
        ((*ASK[1:], "--record", "rec-x", "--agent", "agt-x"), ["there is no such agent"]),
        ((*ASK[1:], "--field", "f", "--record", "r"), ["no field 'f'", "no record 'r'"]),
    ):
        out, err = await shell("explain", *words, "--json", code=65)
        missing = json.loads(out)
        assert missing["inSight"] is False
        assert len(missing["missing"]) == len(said)
        for one, word in zip(missing["missing"], said, strict=True):
            assert word in one
            assert f"not_found {one}" in " ".join(err.split())
    barred = await shell.json("explain", "--user", "usr-eva", "--table", "tbl-incidents")
    assert (barred["inSight"], barred["missing"]) == (False, [])
