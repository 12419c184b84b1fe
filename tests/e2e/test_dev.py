"""`context-engine dev`: one in a folder, and it never stands there without a part of its house."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from workers.localstack import LocalStackError
from workers.localstack.sole import sole

pytestmark = pytest.mark.any_broker

ROOT = Path(__file__).parents[2]
START_SECONDS = 120
LEAVE_SECONDS = 20


@asynccontextmanager
async def dev(folder: Path) -> AsyncIterator[Process]:
    """The command in `folder`; it goes with its stack when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "dev",
        cwd=folder, stdout=PIPE, stderr=STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def told(process: Process, seconds: float) -> str:
    """What it says until it ends."""
    async with asyncio.timeout(seconds):
        out, _ = await process.communicate()
    return " ".join(out.decode().split())


def child(parent: int, program: str) -> int:
    """The id of the child of `parent` that runs `program`."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                mother = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it has just left
                continue
            if mother == parent and words[0].endswith(program.encode()):
                return int(entry.name)
    raise AssertionError(f"no {program} below {parent}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux for its children")
@pytest.mark.timeout(START_SECONDS + 2 * LEAVE_SECONDS)
async def test_a_second_one_is_refused_and_a_lost_broker_ends_the_first(tmp_path: Path) -> None:
    """The second leaves the addresses of the first alone; the first says what it lost, and fails.

    The log of what was lost is kept, and the workers' logs hold no complaint of their own end.
    """
    addresses = tmp_path / ".context-engine" / "dev.env"
    async with dev(tmp_path) as first:
        assert first.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            while b"Ready" not in await first.stdout.readline():
                assert first.returncode is None
        written = addresses.read_text()
        async with dev(tmp_path) as second:
            said = await told(second, LEAVE_SECONDS)
        assert f"dev is running here already, pid {first.pid}" in said
        assert second.returncode == 1
        assert addresses.read_text() == written
        os.kill(child(first.pid, "tansu"), signal.SIGKILL)
        said = await told(first, LEAVE_SECONDS)
    assert "kafka ended with code -9; see .context-engine/logs/kafka.log" in said
    assert first.returncode == 1
    assert not addresses.exists()
    logs = addresses.with_name("logs")
    assert (logs / "kafka.log").exists()
    assert all("Task was destroyed" not in log.read_text() for log in logs.iterdir())


def test_a_lock_goes_with_its_holder(tmp_path: Path) -> None:
    """Held while its block runs; a file that a dead process left behind is in nobody's way."""
    lock = tmp_path / "deep" / "dev.lock"
    for _ in range(2):
        with sole(lock), pytest.raises(LocalStackError, match=f"pid {os.getpid()}"), sole(lock):
            pass
    lock.write_text("123456789\n")
    with sole(lock):
        assert lock.read_text() == f"{os.getpid()}\n"
