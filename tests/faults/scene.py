"""A house of the suite's own whose processes are broken, and come back as under a supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from context_engine import bootstrap
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.bootstrap import Parts
from context_engine.errors import Unavailable
from context_engine.settings import Settings
from events.topics import Topics, ensure
from tests.support.stack import Databases
from tests.support.world import World
from workers.house import settings_of, until_live
from workers.localstack import LocalStack
from workers.supervisor import WorkerProcess

REDIS_DATABASE = 2
"""0 is of the house of other tests, 1 is emptied by them."""

START_SECONDS = 150.0
"""A bound only: how long a start takes is measured where nothing else runs."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
USERS = ("ana", "bob")
HOUSE = ("build", "build", "invalidate", "relay")


@dataclass(frozen=True, slots=True)
class Left:
    """How a worker ended: negative codes are signals."""

    code: int
    at: float
    """`time.monotonic()`."""


@dataclass(slots=True)
class Kept:
    """A worker that is started again whenever it ends by itself or is killed."""

    label: str
    worker: WorkerProcess
    left: list[Left] = field(default_factory=list)
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ready when it returns; on a machine at its limit that may take more than one try."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                await self.worker.start(timeout=START_SECONDS)
                break
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
        self._up.set()
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self.left.append(Left(await self.worker.ended(), time.monotonic()))
            self._up.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                await self.worker.start(timeout=START_SECONDS)
            except Unavailable:
                continue  # its end is noted above
            self._up.set()
            pause = FIRST_PAUSE

    async def up(self, within: float = START_SECONDS) -> None:
        """Until it is ready."""
        async with asyncio.timeout(within):
            await self._up.wait()

    def send(self, number: signal.Signals) -> None:
        """To the process itself; the group of one that stands still is killed all the same."""
        os.kill(self.worker.pid, number)

    async def stop(self) -> int | None:
        """SIGTERM, and nobody starts it again; the exit code."""
        await self._alone()
        return await self.worker.stop()

    async def kill(self) -> None:
        """SIGKILL, and nobody starts it again."""
        await self._alone()
        await self.worker.kill()

    async def _alone(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._up.clear()

    def said(self) -> list[str]:
        """The lines of its log."""
        log = self.worker.log
        there = log is not None and log.exists()
        return log.read_text(errors="replace").splitlines() if log is not None and there else []


@dataclass(slots=True)
class Scene:
    """Topics, groups, a cache and a database of its own over the stack, and workers over them."""

    stack: LocalStack
    env: dict[str, str]
    parts: Parts
    logs: Path
    workers: dict[str, Kept] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        return self.parts.settings

    @property
    def topics(self) -> Topics:
        return Topics.of(self.settings)

    async def hire(self, name: str, env: Mapping[str, str] | None = None) -> Kept:
        """One more worker of that kind, ready."""
        label = f"{name}-{token_hex(2)}"
        log = self.logs / f"{label}.log"
        made = Kept(label, WorkerProcess(name, {**self.env, **(env or {})}, log))
        await made.start()
        self.workers[label] = made
        return made

    async def dismiss(self, one: Kept) -> int | None:
        """It stops for good; its exit code."""
        del self.workers[one.label]
        return await one.stop()

    def of(self, *names: str) -> list[Kept]:
        """The workers of these kinds, of all without one."""
        return [one for one in self.workers.values() if not names or one.worker.name in names]

    async def whole(self) -> None:
        """All parts answer, the usual workers are there and ready, caches may be read."""
        for part in self.stack.parts:
            await part.start()
        for one in self.of():
            await one.up()
        missing = list(HOUSE)
        for one in self.of():
            if one.worker.name in missing:
                missing.remove(one.worker.name)
            else:
                await self.dismiss(one)
        await asyncio.gather(*(self.hire(name) for name in missing))
        await until_live(self.settings, within=START_SECONDS)


def own_env(stack: LocalStack, database_url: str) -> dict[str, str]:
    """Settings over the stack that share no topic, group, database or cache with others."""
    name = f"f{token_hex(3)}"
    return stack.env() | {
        "CONTEXT_DATABASE_URL": database_url,
        "CONTEXT_REDIS_URL": stack.redis_url.removesuffix("/0") + f"/{REDIS_DATABASE}",
        "CONTEXT_TOPIC_BUILD_REQUESTS": f"{name}.build-requests",
        "CONTEXT_TOPIC_READY": f"{name}.ready",
        "CONTEXT_TOPIC_EVICTIONS": f"{name}.evictions",
        "CONTEXT_TOPIC_DOMAIN_PREFIX": f"{name}.domain.",
        "CONTEXT_REPLY_TOPICS": f'["{name}.ready"]',
        "CONTEXT_BUILD_GROUP": f"{name}.build",
        "CONTEXT_INVALIDATION_GROUP": f"{name}.invalidation",
        # Everything here is one workspace: what it may have of a worker is a test of its own.
        "CONTEXT_WORKSPACE_BUILDS": "256",
    }


@asynccontextmanager
async def scene_over(stack: LocalStack, databases: Databases, logs: Path) -> AsyncIterator[Scene]:
    """A small workspace `w` with `ana` and `bob`; no worker runs yet."""
    url = await databases.create()
    env = own_env(stack, url)
    settings = settings_of(env)
    await ensure(settings.kafka_bootstrap, Topics.of(settings))
    database = create_engine(settings)
    world = World(database)
    await world.furnish(tables=2)
    await world.add(t.workspaces, {"id": "v", "name": "Beside"})
    await world.add(
        t.members, *({"workspace_id": "v", "user_id": one, "role": "admin"} for one in USERS)
    )
    await database.dispose()
    async with bootstrap.parts(settings) as parts:
        made = Scene(stack, env, parts, logs)
        try:
            yield made
        finally:
            await asyncio.gather(*(one.stop() for one in made.of()))
    await databases.drop(url)
