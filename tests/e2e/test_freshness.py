"""`context-engine freshness`: a person sees which partition stands still, and what it costs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from typing import Any

import pytest

from context_engine.changes import WorkspaceChanged
from context_engine.liveness import LIFE_MS
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events.client import ContextClient
from tests.support.world import World
from workers.house import until_live
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(240)

REQUEST = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))
WAIT_SECONDS = 60.0


async def freshness(env: Mapping[str, str], *options: str, columns: int = 80) -> tuple[int, str]:
    """Exit code and output of the command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "freshness", *options,
        stdout=PIPE, stderr=PIPE, env={**os.environ, **env, "COLUMNS": str(columns)},
    )  # fmt: skip
    async with asyncio.timeout(WAIT_SECONDS):
        out, err = await process.communicate()
    assert b"Traceback" not in err, err.decode()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def found(env: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    code, out = await freshness(env, "--json")
    return code, json.loads(out)


async def test_a_house_that_works_is_live(
    house: dict[str, WorkerProcess],
    client: ContextClient,
    env: dict[str, str],
    settings: Settings,
    world: World,
) -> None:
    """Every partition of every change topic, its applied position, and what was answered."""
    await until_live(settings)
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            for _ in range(3):
                await client.request(REQUEST)
            code, seen = await found(env)
            if code == 0 and seen["answers"] >= 3:
                break
    assert seen["live"]
    assert len(seen["partitions"]) == 30
    for one in seen["partitions"]:
        assert one["why"] is None
        assert 0 < one["liveMs"] <= LIFE_MS
        assert one["applied"] > 0
        assert one["lag"] < 5
    assert 0 <= seen["bypassRate"] <= 1


async def test_a_consumer_that_stands_still_shows_where_and_what_waits(
    house: dict[str, WorkerProcess],
    client: ContextClient,
    env: dict[str, str],
    settings: Settings,
    world: World,
) -> None:
    """Not live, by name and since when; the changes that wait and how old they are; the answers
    that went past the cache. It comes back by itself."""
    await until_live(settings)
    os.kill(house["invalidate"].pid, signal.SIGSTOP)
    try:
        sent = await client.emit(WorkspaceChanged(workspace_id="w", op="updated"))
        async with asyncio.timeout(WAIT_SECONDS):
            while (await client.request(REQUEST)).context.source != "build":  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            while not (seen := (await found(env))[1])["bypasses"]:
                await client.request(REQUEST)
        code, seen = await found(env)
        assert code == 1
        assert not seen["live"]
        [one] = [
            one
            for one in seen["partitions"]
            if (one["topic"], one["partition"]) == (sent.topic, sent.partition)
        ]
        assert (one["live"], one["why"]) == (False, "ended")
        assert one["liveMs"] < 0
        assert one["lag"] > 0
        assert one["oldestMs"] > 0
        assert one["applied"] <= sent.offset
        assert seen["bypassRate"] > 0

        code, out = await freshness(env)
        assert code == 1
        lines = out.splitlines()
        assert all(len(line) <= 80 for line in lines), out
        assert "not for" in out
        assert "not live: " in out
        assert "past the cache" in out
    finally:
        os.kill(house["invalidate"].pid, signal.SIGCONT)
    async with asyncio.timeout(WAIT_SECONDS):
        while (await found(env))[0] != 0:
            pass


@pytest.mark.any_broker
async def test_it_goes_on_looking_until_it_is_interrupted(
    house: dict[str, WorkerProcess], env: dict[str, str]
) -> None:
    """One line of JSON a look."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "freshness", "--watch", "--json",
        stdout=PIPE, stderr=PIPE, env={**os.environ, **env},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            looks = [json.loads(await process.stdout.readline()) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert all(len(one["partitions"]) == 30 for one in looks)
    assert process.returncode == 128 + signal.SIGINT
    assert b"Traceback" not in err
