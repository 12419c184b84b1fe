"""`context-engine watch`: a person sees changes, evictions and contexts as they happen."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from secrets import token_hex
from typing import Any

from context_engine.changes import WorkspaceChanged
from context_engine.models import ContextBuildInput
from context_engine.repository import BYPASSED
from context_engine.settings import Settings
from events.client import ContextClient
from tests.support.processes import running_command
from tests.support.world import World
from workers.house import until_live
from workers.supervisor import WorkerProcess


def watching(env: Mapping[str, str], *options: str) -> AbstractAsyncContextManager[Process]:
    """The command in a process of its own, once it sees what happens."""
    return running_command(env, "watch", *options, once=b"watching")


async def lines(process: Process) -> list[str]:
    """What it printed, after it has ended by itself."""
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().splitlines()


async def shown_until(
    process: Process, enough: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """The lines that it prints, as JSON, up to the one that makes it `enough`."""
    assert process.stdout is not None
    shown: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not enough(shown):
            shown.append(json.loads(await process.stdout.readline()))
    return shown


async def test_it_shows_each_as_a_line_of_json(client: ContextClient, env: dict[str, str]) -> None:
    """A context, the change that ends it, and its eviction; of the one workspace only.

    Others' changes there may be applied late, and are told when they are: those lines come along.
    """
    change = WorkspaceChanged(workspace_id="w", op="updated")
    async with watching(env, "--json", "--workspace", "w") as process:
        where = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))
        ready = await client.request(where)
        await client.emit(WorkspaceChanged(workspace_id="elsewhere", op="updated"))
        await client.emit(change)
        wanted = {("change", change.change_id), ("evicted", change.change_id)}
        wanted.add(("ready", ready.request_id))

        def names(shown: list[dict[str, Any]]) -> list[tuple[str, str]]:
            return [(one["seen"], one.get("changeId") or one["requestId"]) for one in shown]

        shown = await shown_until(process, lambda shown: wanted <= set(names(shown)))
        assert await ended_by(process, signal.SIGINT) == 128 + signal.SIGINT
    assert names(shown).count(("change", change.change_id)) == 1
    assert {one.get("workspaceId", "w") for one in shown} == {"w"}
    assert {one["bypassed"] for one in shown if one["seen"] == "ready"} <= {True, False}
    hashes = {one["contextHash"] for one in shown if one.get("requestId") == ready.request_id}
    assert hashes == {ready.context_hash}


async def ended_by(process: Process, number: signal.Signals) -> int | None:
    """Its exit code, after that signal, which is nothing to be alarmed about."""
    process.send_signal(number)
    async with asyncio.timeout(15):
        _, err = await process.communicate()
    assert b"Traceback" not in err
    return process.returncode


async def test_it_shows_each_as_a_line_for_people_and_stops_at_its_count(
    client: ContextClient, env: dict[str, str]
) -> None:
    """In a workspace of this test's own, where nobody else's changes are."""
    workspace = f"w-{token_hex(4)}"
    async with watching(env, "--count", "2", "--workspace", workspace) as process:
        await client.emit(WorkspaceChanged(workspace_id=workspace, op="updated"))
        shown = await lines(process)
    assert len(shown) == 2
    assert any("change" in line and "workspace.changed" in line for line in shown)
    assert any("evicted" in line for line in shown)


async def test_it_shows_what_goes_past_the_cache(
    house: dict[str, WorkerProcess],
    client: ContextClient,
    env: dict[str, str],
    settings: Settings,
    world: World,
) -> None:
    """While changes are not proven to be applied each answer is a bypass, for people and
    programs; before and after it is not."""
    where = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))

    async def bypassed(process: Process, wanted: bool) -> None:
        def told(shown: list[dict[str, Any]]) -> bool:
            return any(one.get("bypassed") is wanted for one in shown)

        async with asyncio.timeout(30):
            asked = (await client.request(where)).context
            while (BYPASSED in asked.trace.remarks) is not wanted:
                await asyncio.sleep(0.1)
                asked = (await client.request(where)).context
        await shown_until(process, told)

    await until_live(settings)
    async with (
        watching(env, "--json", "--workspace", "w") as programs,
        watching(env, "--workspace", "w") as people,
    ):
        await bypassed(programs, False)
        os.kill(house["relay"].pid, signal.SIGSTOP)
        try:
            await bypassed(programs, True)
        finally:
            os.kill(house["relay"].pid, signal.SIGCONT)
        await bypassed(programs, False)
        assert people.stdout is not None
        async with asyncio.timeout(30):
            while b" bypass " not in (line := await people.stdout.readline()):
                assert line
        assert b"build    user ana" in line
