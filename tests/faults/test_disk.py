"""The disk of the database full: refused clearly, nothing broken, well again with room."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from context_engine.errors import ContextEngineError
from tests.faults.run import Run, faults
from tests.faults.scene import Scene, scene_over
from tests.support.stack import Databases
from workers.localstack import LocalStack, Postgres

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk"
    ),
]

DISK_MIB = 400
BACK_SECONDS = 30.0


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small file as a disk, mounted; skipped where this machine does not let us."""
    home = tmp_path_factory.mktemp("disk")
    file, place = home / "disk.img", home / "disk"
    place.mkdir()
    with file.open("wb") as made:
        made.truncate(DISK_MIB * 2**20)
    try:
        _do("mkfs.ext4", "-q", "-m", "0", str(file))
        _do("mount", "-o", "loop", str(file), str(place))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small disk can be mounted here ({error})")
    place.chmod(0o755)
    yield place
    _do("umount", str(place))


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
async def small(
    stack: LocalStack, disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    """A house whose database is on the small disk."""
    for path in (disk, *disk.parents):
        if path.name.startswith(("pytest-", "disk")):
            path.chmod(0o755)
    server = Postgres(disk / "postgres", "secret", durable=True)
    await server.start()
    try:
        logs = tmp_path_factory.mktemp("disk-logs")
        async with scene_over(stack, Databases(server.url), logs) as made:
            await made.whole()
            yield made
    finally:
        await server.stop()


def fill(disk: Path) -> Path:
    """Takes all the room there is."""
    file = disk / "full"
    with file.open("wb", buffering=0) as written:
        for size in (2**20, 4096):
            try:
                while True:
                    written.write(b"\0" * size)
            except OSError:
                continue
    return file


async def test_disk_full(small: Scene, disk: Path) -> None:
    """Writes are refused with a typed error; what is committed is there after; answers go on or
    are refused as `unavailable`; with room all is as before."""
    async with faults(small, "disk of the database full", writes=0, fresh=2) as run:
        await asyncio.sleep(2)
        full = fill(disk)
        refused = await _write_until_refused(run, small)
        run.note(f"{refused} writes were refused")
        await asyncio.sleep(5)
        full.unlink()
        await run.recovers(time.monotonic(), within=BACK_SECONDS)
        written = await small.parts.services.members.set("ana", "w", "bob", role="editor")
        run.check(written is not None, "no write after there is room")
        codes = set(run.ledger.refusals)
        run.check(codes <= {"unavailable", "rate_limited"}, f"refused with {codes}")
        for one in small.of():
            await one.up()


async def _write_until_refused(run: Run, scene: Scene) -> int:
    """Big names, until the disk takes no more; how often it was refused in ten seconds then."""
    refused, ends = 0, time.monotonic() + 30
    for number in range(100_000):
        if time.monotonic() > ends or refused > 20:
            break
        role = ("viewer", "editor")[number % 2]
        try:
            await scene.parts.services.members.set("ana", "w", "bob", role=role)
        except ContextEngineError as error:
            refused += 1
            run.check(error.retryable, f"refused with {error.code}: {error.message}")
            await asyncio.sleep(0.2)
    run.check(refused > 0, "the disk never was full")
    return refused
