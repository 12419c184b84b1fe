"""Evidence through the command line: built, changed, built again, compared."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from context_engine.bootstrap import Parts
from events.client import ContextClient
from tests.support.world import World

pytestmark = pytest.mark.any_broker

ROOT = Path(__file__).parents[2]


class Shell:
    """Runs commands as a person does, in a folder of its own."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env

    async def __call__(self, *words: str, code: int = 0) -> tuple[str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "workers", *words, cwd=self._folder, stdout=PIPE, stderr=PIPE,
            env={**self._env, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        )  # fmt: skip
        async with asyncio.timeout(40):
            out, err = await process.communicate()
        assert process.returncode == code, out.decode() + err.decode()
        return out.decode(), err.decode()

    async def json(self, *words: str, code: int = 0) -> Any:
        return json.loads((await self(*words, "--json", code=code))[0])


@pytest.fixture
def shell(tmp_path: Path, env: dict[str, str]) -> Shell:
    return Shell(tmp_path, env)


@pytest.mark.timeout(180)
async def test_a_revoked_table_is_seen_to_have_gone(
    shell: Shell, client: ContextClient, world: World, parts: Parts
) -> None:
    """Listed, shown and compared; the rule is told with --operator and nowhere else."""
    kept, lost, session = (f"t-{token_hex(4)}" for _ in range(3))
    await world.table(kept)
    await world.table(lost)
    ask = ("build", "--user", "bob", "--workspace", "w", "--session", session, "--fresh")
    first = (await shell.json(*ask, "--table", kept, "--table", lost))["contextId"]
    await parts.services.grants.set(
        "ana", "w", subject_type="user", subject_id="bob", scope_id=lost, role="none"
    )
    second = (await shell.json(*ask))["contextId"]

    listed = await shell.json("snapshot", "list", "--workspace", "w", "--user", "bob")
    assert [one["contextId"] for one in listed[:2]] == [second, first]
    (older,) = await shell.json("snapshot", "list", "--before", second, "--limit", "1")
    assert older["contextId"] == first
    table = (await shell("snapshot", "list", "--since", "1h", "--limit", "2"))[0]
    assert first in table
    assert f"--before {first}" in table

    shown = await shell.json("snapshot", "show", second)
    assert shown["versions"].keys() >= {"schema", "build", "clock"}
    assert not {"operator", "denials", "rule"} & _names(shown)
    told, notice = await shell("snapshot", "show", "latest", "--operator")
    assert lost in told
    assert "role none" in told
    assert "For operators only" in notice

    differs = await shell.json("snapshot", "diff", first, second)
    (tables,) = [one for one in differs["sections"] if one["section"] == "tables"]
    assert [(one["path"], one["kind"]) for one in tables["changes"]] == [(f"[{lost}]", "went")]
    assert not {"operator", "denials", "rule"} & _names(differs)
    plain = (await shell("snapshot", "diff", "latest~1", "latest"))[0]
    assert f"- [{lost}]" in plain
    assert "role none" not in plain
    assert (
        f"table {lost} denied now: role none"
        in ((await shell("snapshot", "diff", first, second, "--operator"))[0])
    )
    same = await shell.json("snapshot", "diff", second, second)
    assert (same["same"], same["sections"]) == (True, [])


@pytest.mark.timeout(180)
async def test_a_dialogue_is_shown_beside_what_was_told_of_it(
    shell: Shell, client: ContextClient, world: World
) -> None:
    """To a participant, without what could steer a terminal; a stranger finds nothing."""
    talk = f"c-{token_hex(4)}"
    await world.conversation(talk, "ana", "bob", messages=30)
    await world.say(talk, 31, "Red \x1b[31m[bold]words[/bold]\nand a second line", author="ana")
    built = ("build", "--user", "ana", "--workspace", "w", "--conversation", talk, "--fresh")
    context_id = (await shell.json(*built))["contextId"]
    where = ("conversation", "show", talk)
    shown = (await shell(*where, "--workspace", "w", "--actor", "bob"))[0]
    assert "Red [31m[bold]words[/bold]" in shown
    assert "\x1b" not in shown
    out, notice = await shell(*where, "--at", context_id)
    assert "[told whole]" in out
    assert "[in the summary]" in out
    assert "operator's view of evidence" in notice
    found = await shell.json(*where, "--at", context_id, "--limit", "25")
    assert found["at"]["contextId"] == context_id
    assert {one["told"] for one in found["messages"]} == {"turn", "summary"}
    refused = await shell.json(*where, "--at", context_id, "--actor", "eve", code=65)
    assert refused["code"] == "not_found"


@pytest.mark.timeout(120)
async def test_what_is_not_there_is_refused_with_its_remedy(
    shell: Shell, client: ContextClient
) -> None:
    for words, code, part in (
        (("snapshot", "show", "no-such"), "not_found", "snapshot list"),
        (("snapshot", "diff", "no-such", "latest"), "not_found", "kept for 30 days"),
        (("snapshot", "list", "--before", "no-such"), "not_found", "snapshot list"),
        (("snapshot", "list", "--since", "soon"), "usage", "2d"),
        (
            ("conversation", "show", "no-such", "--workspace", "w", "--actor", "ana"),
            "not_found",
            "conversation list",
        ),
    ):
        refused = await shell.json(*words, code=2 if code == "usage" else 65)
        assert refused["code"] == code
        assert part in refused["message"]


@pytest.mark.timeout(120)
async def test_damaged_evidence_is_refused_by_its_id(
    shell: Shell, client: ContextClient, world: World, parts: Parts
) -> None:
    """By every command that reads it, with exit code 65."""
    talk = f"c-{token_hex(4)}"
    await world.conversation(talk, "ana", "bob", messages=3)
    built = ("build", "--user", "ana", "--workspace", "w", "--conversation", talk, "--fresh")
    whole = (await shell.json(*built))["contextId"]
    record = await parts.snapshots.get(whole)
    assert record is not None
    array, trace = f"{whole}-array", f"{whole}-trace"
    await parts.snapshots.save(replace(record, context_id=array, context=b"[]"))
    damaged: Any = []
    await parts.snapshots.save(replace(record, context_id=trace, operator_trace=damaged))
    for words, id in (
        (("snapshot", "show", array), array),
        (("snapshot", "diff", array, whole), array),
        (("conversation", "show", talk, "--at", array), array),
        (("snapshot", "show", trace, "--operator"), trace),
        (("snapshot", "diff", whole, trace), trace),
    ):
        refused = await shell.json(*words, code=65)
        assert refused["code"] == "invalid_request"
        assert f"{id} is damaged" in refused["message"]


def _names(value: Any) -> set[str]:
    """Every name in a JSON value."""
    if isinstance(value, list):
        return {name for one in value for name in _names(one)}
    if isinstance(value, dict):
        return set(value) | {name for one in value.values() for name in _names(one)}
    return set()
