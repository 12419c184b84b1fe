"""Commands that start a whole house: told to stop or killed at any moment, they leave nothing."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.any_broker,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="asks Linux who is left"),
]

LEAVE_SECONDS = 40.0


class House:
    """A command in a folder of its own, and all the processes that came of it."""

    def __init__(self, process: Process, mark: str) -> None:
        self.process, self._mark = process, mark.encode()

    def left(self) -> list[str]:
        """The command lines of those that still run."""
        return [_command(home) for home in Path("/proc").glob("[0-9]*") if self._ours(home)]

    def _ours(self, home: Path) -> bool:
        try:
            return self._mark in (home / "environ").read_bytes() and bool(_command(home))
        except OSError:  # it has gone, or is another user's
            return False

    @staticmethod
    def rest(folder: Path) -> list[Path]:
        """Temporary folders that were not removed."""
        return list(folder.glob("context-engine-*"))

    async def says(self, text: str) -> None:
        """Waits for a line with `text`."""
        assert self.process.stdout is not None
        said = []
        async with asyncio.timeout(LEAVE_SECONDS):
            async for line in self.process.stdout:
                said.append(line.decode())
                if text in said[-1]:
                    return
        raise AssertionError(f"ended without saying {text!r}: {''.join(said)}")

    async def gone(self) -> None:
        async with asyncio.timeout(LEAVE_SECONDS):
            while self.left():  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.1)


def _command(home: Path) -> str:
    try:
        return (home / "cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


@asynccontextmanager
async def started(folder: Path, *words: str, **env: str) -> AsyncIterator[House]:
    mark = f"STOPPING_MARK={secrets.token_hex(8)}"
    name, value = mark.split("=")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers", *words),
        cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=STDOUT,
        start_new_session=True,
        env={**os.environ, **env, "PYTHONPATH": os.getcwd(), "TMPDIR": str(folder), name: value},
    )  # fmt: skip
    try:
        yield House(process, mark)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that PostgreSQL, as another user, may pass through."""
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == tmp_path.owner() and path.name.startswith(
            ("pytest-", "popen-", "test_")
        ):
            path.chmod(0o755)
    return tmp_path


MOMENTS = ("starting PostgreSQL", "migrating", "starting the workers", "A request becomes")


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_demo_that_is_told_to_stop_leaves_nothing(folder: Path, moment: str) -> None:
    """SIGTERM does what Ctrl-C does, at once, and a second one does not cut the clean-up short."""
    async with started(folder, "demo") as house:
        await house.says(moment)
        house.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        if house.process.returncode is None:
            house.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LEAVE_SECONDS):
            output, _ = await house.process.communicate()
        assert house.process.returncode == 130, output
        assert b"Traceback" not in output
        assert house.left() == []
        assert house.rest(folder) == []


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("starting PostgreSQL", signal.SIGTERM),
        ("loading the workspace", signal.SIGINT),
        ("Ready.", signal.SIGTERM),
        ("Ready.", signal.SIGINT),
    ],
)
async def test_dev_hears_the_signal_before_it_is_up(
    folder: Path, moment: str, number: signal.Signals
) -> None:
    async with started(folder, "dev") as house:
        await house.says(moment)
        house.process.send_signal(number)
        async with asyncio.timeout(LEAVE_SECONDS):
            output, _ = await house.process.communicate()
        assert house.process.returncode == 0, output
        assert b"Traceback" not in output
        assert house.left() == []
        assert not (folder / ".context-engine" / "dev.env").exists()


async def test_all_workers_hear_the_signal_before_they_are_up(folder: Path) -> None:
    """Here they never are: their broker is away."""
    away = {
        "CONTEXT_DATABASE_URL": "postgresql+asyncpg://u@127.0.0.1:1/d",
        "CONTEXT_TAG_SECRET": "s" * 32,
    }
    async with started(folder, "worker", "all", **away) as house:
        await house.says("waiting for a part")
        house.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await house.process.communicate()
        assert house.process.returncode == 0
        assert house.left() == []


async def test_who_is_killed_takes_the_children_along(folder: Path) -> None:
    """Servers and workers alike: nobody else would ever end them."""
    async with started(folder, "demo") as house:
        await house.says("A request becomes")
        house.process.kill()
        await house.process.wait()
        await house.gone()
