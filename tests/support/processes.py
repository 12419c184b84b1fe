"""Commands that go on by themselves, as processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager


@asynccontextmanager
async def running_command(
    env: Mapping[str, str], *words: str, once: bytes
) -> AsyncIterator[Process]:
    """`context-engine` with these words, from its first line on stderr, which has `once` in it;
    killed at the end of the block where it has not ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers", *words),
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, **env, "COLUMNS": "80"},
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            assert once in await process.stderr.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
