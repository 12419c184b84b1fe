"""Commands whose broker is away: one line of ours, the code of its kind, nothing of a library's."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from pathlib import Path

import pytest

from events.topics import Topics, ensure
from tests.support.echo import settings_for
from workers.localstack import LocalStack, SmallKafka

pytestmark = pytest.mark.any_broker

ROOT = Path(__file__).parents[2]
NOWHERE = "127.0.0.1:1"
LIBRARYS = ("AddressFamily", "Unable", "Unclosed", "Traceback", "Task was destroyed")


async def told(
    folder: Path, env: Mapping[str, str], *words: str, ready: asyncio.Event | None = None
) -> tuple[int | None, list[str]]:
    """Exit code and lines on stderr of a command in `folder`; `ready` at its first line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", *words,
        cwd=folder, stdout=PIPE, stderr=PIPE,
        env={**os.environ, **env, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )  # fmt: skip
    lines: list[str] = []
    assert process.stderr is not None
    try:
        async with asyncio.timeout(50):
            async for line in process.stderr:
                lines.append(line.decode().rstrip())
                if ready is not None:
                    ready.set()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
    return process.returncode, lines


@pytest.mark.parametrize(
    "words",
    [("build", "--user", "u", "--workspace", "w"), ("watch",), ("topics",)],
)
async def test_a_broker_that_is_away_is_one_line_and_a_hint(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    env = {"CONTEXT_KAFKA_BOOTSTRAP": NOWHERE, "CONTEXT_TAG_SECRET": "s" * 32}
    code, lines = await told(tmp_path, env, *words)
    assert code == 69
    assert len(lines) == 2, lines
    assert lines[0].startswith(f"unavailable broker: {NOWHERE} ")
    assert not any(word in line for word in LIBRARYS for line in lines)


async def test_a_worker_without_its_broker_leaves_nothing_open(
    stack: LocalStack, tmp_path: Path
) -> None:
    env = stack.env() | {"CONTEXT_KAFKA_BOOTSTRAP": NOWHERE}
    code, lines = await told(tmp_path, env, "worker", "invalidate")
    assert code == 69
    assert lines[-1].startswith(f"cannot start: broker: {NOWHERE} ")
    assert not any("Unclosed" in line or "AddressFamily" in line for line in lines)


@pytest.mark.timeout(100)
async def test_watch_ends_when_its_broker_does(tmp_path: Path) -> None:
    """Within its bound, with the code of its kind, and silent until then."""
    broker = SmallKafka(tmp_path / "kafka")
    await broker.start()
    try:
        settings = settings_for(broker.address)
        await ensure(broker.address, Topics.of(settings))
        env = {"CONTEXT_KAFKA_BOOTSTRAP": broker.address, "CONTEXT_TAG_SECRET": "s" * 32}
        watching = asyncio.Event()
        watch = asyncio.create_task(told(tmp_path, env, "watch", ready=watching))
        async with asyncio.timeout(40):
            await watching.wait()
    finally:
        await broker.kill()
    code, lines = await watch
    assert code == 69
    assert len(lines) == 3, lines
    assert f"broker: {broker.address} did not answer for" in lines[1]
