"""A standby of a PostgreSQL server, as far as it had come when it was copied."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from workers.localstack import Postgres
from workers.localstack.part import HOST


class Standby(Postgres):
    """What is committed on `primary` after `copy` is lost to it. It takes nobody's writes until it
    is promoted."""

    def __init__(self, directory: Path, password: str, primary: Postgres) -> None:
        super().__init__(directory, password)
        self._primary, self._word = primary, password

    async def copy(self) -> None:
        self.directory.mkdir()
        await self.prepare()

    async def _initdb(self, programs: Path, uid: int, gid: int) -> None:
        """In its place: the primary's cluster."""
        word = self.directory / "passfile"
        word.touch(mode=0o600)
        word.write_text(f"*:*:*:*:{self._word}\n")
        if uid >= 0:
            os.chown(word, uid, gid)
        source = f"host={HOST} port={self._primary.port} user=postgres passfile={word}"
        copy: Sequence[str] = ("-D", str(self._data), "-d", source, "-X", "stream", "-c", "fast")
        await self._run_initdb([str(programs / "bin" / "pg_basebackup"), *copy, "--no-sync"])
        signal = self._data / "standby.signal"
        signal.touch()
        if uid >= 0:
            os.chown(signal, uid, gid)

    async def promote(self) -> None:
        """From here on it takes writes, on a timeline of its own."""
        dsn = self.url.replace("postgresql+asyncpg", "postgresql", 1)
        connection = await asyncpg.connect(dsn, timeout=10)
        try:
            assert await connection.fetchval("SELECT pg_promote(true, 60)", timeout=70)
        finally:
            await connection.close(timeout=10)
