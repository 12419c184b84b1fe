"""The whole house on one machine: stack, schema, topics, seed, workers. For dev, demo and tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from context_engine import bootstrap
from context_engine.adapters.sql.migrate import upgrade
from context_engine.errors import Unavailable
from context_engine.liveness import LOOK_SECONDS
from context_engine.settings import Settings
from events.topics import Topics, ensure
from workers import supervisor
from workers.localstack import LocalStack, Part
from workers.seed import Seeded, seed
from workers.supervisor import WorkerProcess

LIVE_SECONDS = 30.0
"""How long the first heartbeats may take: a consumer joins its group and reads back first."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class House:
    """A running house: its addresses, its seeded workspace, its processes."""

    settings: Settings
    env: dict[str, str]
    seeded: Seeded
    workers: dict[str, WorkerProcess]
    parts: tuple[Part, ...] = ()
    """The servers below, where this process started them."""


@asynccontextmanager
async def house(
    *, say: Say, directory: Path | None = None, logs: Path | None = None, kafka: str = "small"
) -> AsyncIterator[House]:
    """Everything up when the block begins, everything gone when it ends."""
    say("starting PostgreSQL, Valkey and the broker")
    async with LocalStack.start(directory, kafka=kafka, on_progress=say) as stack:
        env = stack.env()
        settings = settings_of(env)
        async with furnished(settings, env, say=say, logs=logs) as up:
            yield replace(up, parts=stack.parts)


@asynccontextmanager
async def furnished(
    settings: Settings, env: dict[str, str], *, say: Say, logs: Path | None
) -> AsyncIterator[House]:
    """Schema, topics, seed and workers over a stack that runs already."""
    say("migrating the database")
    await upgrade(settings.database_url.get_secret_value())
    say("making the topics")
    await ensure(settings.kafka_bootstrap, Topics.of(settings))
    say("loading the workspace of a delivery team")
    async with bootstrap.domain_services(settings) as services:
        seeded = await seed(services)
    say("starting the workers")
    async with supervisor.workers(env=env, logs=logs, health_port=settings.health_port) as running:
        say("waiting for proof that changes are applied")
        await until_live(settings)
        yield House(settings, env, seeded, running)


async def until_live(settings: Settings, *, within: float = LIVE_SECONDS) -> None:
    """Waits until caches may be read. Raises `Unavailable` where that takes too long."""
    async with bootstrap.parts(settings) as parts:
        watch = bootstrap.lookout(settings, parts.liveness)
        try:
            async with asyncio.timeout(within):
                while await watch.proven() is None:  # noqa: ASYNC110 - a proof is told to nobody
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise Unavailable(
                "liveness",
                f"not proven within {within:g} s; do the relay and the invalidation consumer run?",
            ) from None


def settings_of(env: dict[str, str]) -> Settings:
    """Settings over this process's environment with `env` on top, without changing either."""
    given = {
        name.removeprefix("CONTEXT_").lower(): value
        for name, value in env.items()
        if name.startswith("CONTEXT_")
    }
    return Settings.model_validate({**given})


def write_env(path: Path, env: dict[str, str]) -> None:
    """Writes the addresses where other commands find them; readable by the owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    text = "".join(f"{name}={value}\n" for name, value in sorted(env.items()))
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
