"""Passwords stay out of logs and messages: refused, away, or misread, through real processes."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT
from os import environ
from pathlib import Path

import pytest

from context_engine.errors import Unavailable
from workers.localstack import LocalStack
from workers.runner import ExitCode
from workers.supervisor import WorkerProcess

pytestmark = [pytest.mark.any_broker, pytest.mark.timeout(120)]

SECRET = "an-unlikely-password"
NOWHERE = "127.0.0.1:1"


def wrong(stack: LocalStack) -> list[tuple[str, str, str]]:
    """A worker, a setting, and an address whose password is refused or whose server is away."""
    redis = stack.redis_url.rpartition("@")[2]
    database = stack.database_url.rpartition("@")[2]
    return [
        ("invalidate", "CONTEXT_REDIS_URL", f"redis://:{SECRET}@{redis}"),
        ("invalidate", "CONTEXT_REDIS_URL", f"redis://:{SECRET}@{NOWHERE}/0"),
        ("build", "CONTEXT_REDIS_URL", f"redis://someone:{SECRET}@{redis}"),
        ("relay", "CONTEXT_DATABASE_URL", f"postgresql+asyncpg://context:{SECRET}@{database}"),
        ("relay", "CONTEXT_DATABASE_URL", f"postgresql+asyncpg://context:{SECRET}@{NOWHERE}/d"),
    ]


async def test_a_worker_that_is_refused_or_finds_nobody_tells_no_password(
    stack: LocalStack, tmp_path: Path
) -> None:
    """Which part and where, exit code 69; in everything it wrote, its password is not."""

    async def left(number: int, name: str, setting: str, url: str) -> str:
        log = tmp_path / f"{number}.log"
        how = {"CONTEXT_LOG_FORMAT": ("text", "json")[number % 2], "CONTEXT_LOG_LEVEL": "debug"}
        worker = WorkerProcess(name, stack.env() | how | {setting: url}, log)
        with pytest.raises(Unavailable, match=f"exit code {int(ExitCode.UNAVAILABLE)}"):
            await worker.start(timeout=100.0)
        return await asyncio.to_thread(log.read_text)

    for said in await asyncio.gather(*(left(n, *one) for n, one in enumerate(wrong(stack)))):
        assert "cannot start: " in said
        assert SECRET not in said


@pytest.mark.parametrize(
    ("command", "setting", "url"),
    [
        (("worker", "build"), "CONTEXT_REDIS_URL", f"redis://:12/{SECRET}@h:6379/0"),
        (("migrate",), "CONTEXT_DATABASE_URL", f"postgresql+asyncpg://u:{SECRET}@{SECRET}@h/d"),
    ],
)
async def test_a_password_that_was_not_escaped_is_told_of_without_it(
    stack: LocalStack, command: tuple[str, ...], setting: str, url: str
) -> None:
    """One line that names the setting and the remedy; no traceback, no address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", *command,
        stdout=PIPE, stderr=STDOUT, env={**environ, **stack.env(), setting: url},
    )  # fmt: skip
    async with asyncio.timeout(30):
        said, _ = await process.communicate()
    assert process.returncode == 78, said.decode()
    assert setting in said.decode()
    assert "Traceback" not in said.decode()
    assert SECRET not in said.decode()
