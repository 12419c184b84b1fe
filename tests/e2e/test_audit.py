"""`context-engine audit` beside the running house: what it explains, and what it does not."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from sqlalchemy import update

from context_engine.adapters.sql import tables as t
from context_engine.bootstrap import Parts
from context_engine.changes import TableChanged
from context_engine.models import ContextBuildInput
from context_engine.repository import BYPASSED
from context_engine.settings import Settings
from events.client import ContextClient
from tests.support.applied import until_applied
from tests.support.processes import running_command
from tests.support.world import World
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(120)

REQUEST = ContextBuildInput(
    user_id="ana", workspace_id="w", table_ids=("t1",), session_id="audited"
)
TURN = ContextBuildInput(user_id="ana", workspace_id="w", session_id="audited", message="and now?")
RENAMED = {"workspace_id": "w", "table_id": "t1", "op": "renamed"}


def auditing(env: Mapping[str, str], *options: str) -> AbstractAsyncContextManager[Process]:
    """The command, once it sees what passes."""
    return running_command(env, "audit", "--every", "0.1", *options, once=b"auditing")


def reading(process: Process) -> asyncio.Task[tuple[bytes, bytes]]:
    """All that it prints, read from now on: a pipe that nobody reads stops it once it is full."""
    return asyncio.create_task(process.communicate())


async def found(
    process: Process, printed: asyncio.Task[tuple[bytes, bytes]]
) -> tuple[int | None, list[dict[str, Any]], dict[str, Any]]:
    """Exit code, differences and counts."""
    async with asyncio.timeout(40):
        out, err = await printed
    assert b"Traceback" not in err, err.decode()
    *differences, summary = map(json.loads, out.decode().splitlines())
    return process.returncode, differences, summary


async def rename(parts: Parts, name: str) -> None:
    """Past every service: nobody is told."""
    async with parts.database.begin() as connection:
        await connection.execute(update(t.tables).where(t.tables.c.id == "t1").values(name=name))


@pytest.fixture
async def settled(
    house: dict[str, WorkerProcess], client: ContextClient, parts: Parts, settings: Settings
) -> AsyncIterator[None]:
    """The house is live, nothing travels in it, and t1 has its name again at the end."""
    await until_applied(settings, parts)
    yield
    await rename(parts, "Table 1")
    await client.emit(TableChanged.model_validate(RENAMED))


async def test_what_changes_is_explained_and_all_else_is_the_same(
    settled: None, client: ContextClient, parts: Parts, env: dict[str, str], world: World
) -> None:
    """Turns of a dialogue that inherit, hits and builds, while the table is renamed again and
    again: each difference names the change; nothing is unexplained."""
    async with auditing(env, "--seconds", "5", "--workspace", "w", "--json") as process:
        ended = reading(process)
        number = 0
        while not ended.done():
            number += 1
            for one in (REQUEST, TURN, TURN):
                await client.request(one)
            if number % 5 == 0:
                await rename(parts, f"Table {number}")
                await client.emit(TableChanged.model_validate(RENAMED))
        code, differences, summary = await found(process, ended)
    assert (code, summary["unexplained"]) == (0, 0), differences
    assert summary["rebuilt"] >= 5
    assert summary["rebuilt"] == summary["same"] + summary["explained"]
    assert summary["served"] > summary["rebuilt"]
    for one in differences:
        assert any("table.changed" in because for because in one["explained"])
        assert len(one["explained"]) == min(one["explainedCount"], 20)


async def test_a_write_past_the_services_is_unexplained(
    settled: None, client: ContextClient, parts: Parts, env: dict[str, str], world: World
) -> None:
    """The cache cannot know of it: its answers are not what the database says. The audit does
    not mend what it finds, and says where to look."""
    async with asyncio.timeout(30):
        while (before := (await client.request(REQUEST)).context).source != "cache":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    async with auditing(env, "--seconds", "3", "--json") as process:
        await rename(parts, "Renamed by hand")
        ended, held, number = reading(process), before.table, 1
        while not ended.done():
            served = (await client.request(REQUEST)).context
            if BYPASSED in served.trace.remarks:  # a heartbeat was late: it is the truth, and kept
                held, number = served.table, number + 1
                await rename(parts, f"Renamed by hand {number}")
            else:
                assert (served.source, served.table) == ("cache", held)
            await asyncio.sleep(0.02)
        code, differences, summary = await found(process, ended)
    assert code == 1
    assert summary["unexplained"] >= 1
    one = differences[0]
    assert (one["unexplained"], one["explained"], one["source"]) == (True, [], "cache")
    assert "tables" in one["sections"]
