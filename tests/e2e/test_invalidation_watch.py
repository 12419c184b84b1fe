"""`context-engine watch`: a person sees changes, evictions and contexts as they happen."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from context_engine.changes import WorkspaceChanged
from context_engine.models import ContextBuildInput
from events.client import ContextClient


@asynccontextmanager
async def watching(env: dict[str, str], *options: str) -> AsyncIterator[Process]:
    """The command in a process of its own, once it sees what happens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "watch", *options,
        stdout=PIPE, stderr=PIPE, env={**os.environ, **env},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            assert b"watching" in await process.stderr.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines(process: Process) -> list[str]:
    """What it printed, after it has ended by itself."""
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().splitlines()


async def test_it_shows_each_as_a_line_of_json(client: ContextClient, env: dict[str, str]) -> None:
    """A context, the change that ends it, and the eviction; of the one workspace only."""
    async with watching(env, "--json", "--count", "3", "--workspace", "w") as process:
        where = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))
        ready = await client.request(where)
        await client.emit(WorkspaceChanged(workspace_id="elsewhere", op="updated"))
        change = WorkspaceChanged(workspace_id="w", op="updated")
        await client.emit(change)
        shown = [json.loads(line) for line in await lines(process)]
    assert {one["seen"] for one in shown} == {"ready", "change", "evicted"}
    by_kind = {one["seen"]: one for one in shown}
    assert by_kind["ready"]["contextHash"] == ready.context_hash
    assert by_kind["change"]["changeId"] == by_kind["evicted"]["changeId"] == change.change_id


async def test_it_shows_each_as_a_line_for_people(
    client: ContextClient, env: dict[str, str]
) -> None:
    async with watching(env, "--count", "2", "--workspace", "w") as process:
        await client.emit(WorkspaceChanged(workspace_id="w", op="updated"))
        shown = await lines(process)
    assert any("change" in line and "workspace.changed" in line for line in shown)
    assert any("evicted" in line for line in shown)
