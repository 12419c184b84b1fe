"""One server of the stack as a child process: the shape that all parts share."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack import launch
from workers.localstack.errors import PartFailed, UnsupportedPlatform

HOST = "127.0.0.1"
PORT_TRIES = 3
POLL_SECONDS = 0.02
LOG_TAIL_LINES = 20

Progress = Callable[[str], None]


def silent(_message: str) -> None:
    """The progress callback of those who do not want to hear."""


def free_port() -> int:
    """A port that nobody listens on now. Another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class LeftEarly(PartFailed):
    """The server left before it answered: perhaps its port was taken."""


class Part(ABC):
    """A server under `directory`, on 127.0.0.1 and a port that stays the same over restarts.

    Start, stop and kill it as often as you like. The event loop should run in the main thread:
    on Linux a child goes with the thread that started it.
    """

    name: ClassVar[str]
    start_seconds: ClassVar[float] = 20.0
    stop_seconds: ClassVar[float] = 5.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: Path, *, on_progress: Progress = silent) -> None:
        self.directory = directory
        self._say = on_progress
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def port(self) -> int:
        """The port; 0 before the first start."""
        return self._port

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{HOST}:{self._port}"

    @property
    def log_path(self) -> Path:
        """Where the server's own words go, stdout and stderr together."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process id, or None while it is not running."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @abstractmethod
    async def prepare(self) -> None:
        """Whatever must exist before the server starts. Called before every start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line; the first word is an absolute path."""

    @abstractmethod
    async def answers(self) -> bool:
        """Whether the server serves, found out by its own protocol."""

    def run_as(self) -> tuple[int, int]:
        """User and group id to run as; (-1, -1) for our own."""
        return -1, -1

    async def start(self) -> None:
        """Start it and wait until it answers. Does nothing when it runs already.

        Raises `PartFailed` after `start_seconds`, or at once when the server leaves.
        """
        if self.running:
            return
        if sys.platform not in ("linux", "darwin"):
            raise UnsupportedPlatform(self.name, f"not made for {sys.platform}")
        self.directory.mkdir(parents=True, exist_ok=True)
        for try_number in range(1, PORT_TRIES + 1):
            pinned = self._port != 0
            self._port = self._port or free_port()
            try:
                await self._start_once()
            except LeftEarly:
                if pinned or try_number == PORT_TRIES:
                    raise
                self._port = 0  # someone may have taken the port in between
            else:
                self._say(f"{self.name} answers on {self.address}")
                return

    async def stop(self) -> None:
        """Ask it to leave; after `stop_seconds` make it. What it has stored stays."""
        if self.running:
            await self._end(self.stop_signal)
            self._say(f"{self.name} stopped")

    async def kill(self) -> None:
        """End it as a crash would."""
        if self.running:
            await self._end(signal.SIGKILL)
            self._say(f"{self.name} killed")

    async def ended(self) -> int:
        """Waits until it ends, whoever ended it; the exit code. For ever if it is not ours."""
        if self._process is None:
            await asyncio.Event().wait()
        assert self._process is not None
        return await self._process.wait()

    def log_tail(self) -> str:
        """The last lines of its log."""
        try:
            text = self.log_path.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])

    async def _start_once(self) -> None:
        await self.prepare()
        self._process = await self._spawn(self.command())
        try:
            async with asyncio.timeout(self.start_seconds):
                await self._until_it_answers(self._process)
        except BaseException as error:
            await self._end(signal.SIGKILL)
            if isinstance(error, TimeoutError):
                reason = f"did not answer on {self.address} within {self.start_seconds:.0f} s"
                raise PartFailed(self.name, reason, self.log_tail()) from error
            raise

    async def _spawn(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        uid, gid = self.run_as()
        words = [os.getpid(), int(self.stop_signal), uid, gid, *command]
        with self.log_path.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", launch.__file__),
                *(str(word) for word in words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C is ours to hear; we stop the parts in order
            )

    async def _until_it_answers(self, process: asyncio.subprocess.Process) -> None:
        while not await self.answers():
            if process.returncode is not None:
                reason = f"left with code {process.returncode} before it answered"
                raise LeftEarly(self.name, reason, self.log_tail())
            await asyncio.sleep(POLL_SECONDS)  # nothing announces "ready" but the answer itself
        if process.returncode is not None:
            raise LeftEarly(self.name, f"another server answers on {self.address}")

    async def _end(self, with_signal: signal.Signals) -> None:
        """Send the signal, wait, and insist. A process that left on its own is no error."""
        process = self._process
        if process is None:
            return
        for number in (with_signal, signal.SIGKILL):
            if process.returncode is None:
                _send(process.pid, number)
            try:
                async with asyncio.timeout(self.stop_seconds):
                    await process.wait()
                    return
            except TimeoutError:
                continue
        raise PartFailed(self.name, f"process {process.pid} does not leave, even when killed")


def _send(pid: int, number: signal.Signals) -> None:
    """A kill goes to the whole group: what stands in between cannot pass it on."""
    try:
        if number is signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just left, which is what was wanted
