"""Runs workers as child processes: started together, ready together, ended together."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from context_engine.errors import Unavailable
from workers.ending import cut_short, to_the_end
from workers.localstack import launch

KEEP_USER = ("-1", "-1")
WORKERS = ("build", "invalidate", "relay")
STOP_SECONDS = 25.0
"""A worker's own bound for leaving is 20 s; past this it is killed."""


@dataclass(slots=True)
class WorkerProcess:
    """One worker as a child process; its log goes to a file or to this process's stderr.

    It is told to stop when this process goes, however it goes.
    """

    name: str
    env: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    process: asyncio.subprocess.Process | None = None
    options: Sequence[str] = ()
    """Of its command line."""
    stop_seconds: float = STOP_SECONDS
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while there is a process that nobody can be told of yet."""

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self.process.pid

    async def start(self, *, timeout: float = 60.0) -> None:
        """Starts it and waits for its line `<name> ready`. Raises `Unavailable` with its log."""
        log = self.log.open("ab") if self.log is not None else None
        try:
            async with self._making:
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", launch.__file__),
                    *(str(os.getpid()), str(int(signal.SIGTERM)), *KEEP_USER),
                    *self._command(),
                    start_new_session=True,  # Ctrl-C is ours to hear; we stop them in order
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **self.env},
                )  # fmt: skip
        finally:
            if log is not None:
                log.close()
        try:
            async with asyncio.timeout(timeout):
                await self._ready()
        except TimeoutError:
            await self.kill()
            raise Unavailable(self.name, f"not ready within {timeout:g} s{self._tail()}") from None

    def _command(self) -> Sequence[str]:
        return (sys.executable, "-m", "workers", "worker", self.name, *self.options)

    async def _ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if line.decode(errors="replace").strip() == f"{self.name} ready":
                return
        code = await self.process.wait()
        raise Unavailable(self.name, f"left with exit code {code} at the start{self._tail()}")

    def _tail(self) -> str:
        if self.log is None or not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return ":\n" + "\n".join(lines) if lines else ""

    async def stop(self) -> int | None:
        """SIGTERM, then SIGKILL past its bound; the exit code."""
        async with self._making:
            process = self.process
        if process is None:
            return None
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self.stop_seconds):
                    await process.wait()
            except TimeoutError:
                await self.kill()
        return process.returncode

    async def ended(self) -> int:
        """Waits until it ends by itself; the exit code."""
        assert self.process is not None
        return await self.process.wait()

    async def kill(self) -> None:
        """SIGKILL, at once."""
        async with self._making:
            process = self.process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@asynccontextmanager
async def workers(
    names: Sequence[str] = WORKERS,
    *,
    env: Mapping[str, str] | None = None,
    logs: Path | None = None,
    health_port: int | None = None,
) -> AsyncIterator[dict[str, WorkerProcess]]:
    """These workers, all ready when the block begins and all gone when it ends.

    The first serves its health on `health_port`, the second on the one after it, and so on.
    """
    made = {
        name: WorkerProcess(
            name,
            {**(env or {}), **_health(health_port, number)},
            logs / f"{name}.log" if logs else None,
        )
        for number, name in enumerate(names)
    }
    try:
        async with asyncio.TaskGroup() as starting:
            for worker in made.values():
                starting.create_task(worker.start())
        yield made
    except* Unavailable as group:
        raise group.exceptions[0] from None
    finally:
        await to_the_end(asyncio.gather(*(worker.stop() for worker in made.values())))


def _health(first: int | None, number: int) -> dict[str, str]:
    return {} if first is None else {"CONTEXT_HEALTH_PORT": str(first + number)}


class Child(Protocol):
    """A process that this one started: a worker, or a part of the local stack."""

    @property
    def name(self) -> str: ...

    async def ended(self) -> int: ...


async def first_exit(children: Iterable[Child]) -> tuple[str, int]:
    """Waits until one of them ends: its name and exit code."""

    async def ended(child: Child) -> tuple[str, int]:
        return child.name, await child.ended()

    tasks = [asyncio.create_task(ended(child)) for child in children]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_all(*, say: Callable[[str], object], health_port: int | None = None) -> int:
    """The three workers until a signal, or until one of them ends: then the rest end too."""
    return await cut_short(_all(say, health_port), told=0)


async def _all(say: Callable[[str], object], health_port: int | None) -> int:
    async with workers(health_port=health_port) as made:
        say("workers ready")
        name, code = await first_exit(made.values())
        say(f"{name} ended with exit code {code}: stopping the others")
        return code or 1
