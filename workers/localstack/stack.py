"""The whole stack: three parts, started together, stopped and removed at the end."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.ending import to_the_end
from workers.localstack.errors import LocalStackError
from workers.localstack.kafka import SmallKafka
from workers.localstack.maven_kafka import MavenKafka
from workers.localstack.outside import OutsideKafka
from workers.localstack.part import Part, Progress, silent
from workers.localstack.postgres import Postgres
from workers.localstack.valkey import Valkey

SECRET_NAMES = ("postgres", "valkey", "tag")


@dataclass(frozen=True)
class LocalStack:
    """Addresses of a running stack, and its parts, each of which can be stopped and started."""

    directory: Path
    kafka: Part
    valkey: Valkey
    postgres: Postgres
    tag_secret: str

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        directory: Path | None = None,
        *,
        kafka: str = "small",
        on_progress: Progress = silent,
    ) -> AsyncIterator[LocalStack]:
        """Start every part; all of them answer when the block begins and are gone when it ends.

        `directory` keeps the database and the secrets for the next time; without one a temporary
        directory is used and removed. `kafka` is `small` (in memory, needs nothing), `maven`
        (Apache Kafka, needs Java and Maven) or the `host:port` of a broker that runs already.
        Raises `LocalStackError`: `PartFailed` or `UnsupportedPlatform`.
        """
        with stack_home(directory) as home:
            stack = cls._of_parts(home, directory is not None, kafka, on_progress)
            try:
                await _all(part.start for part in stack.parts)
                yield stack
            finally:
                await to_the_end(_all(part.stop for part in reversed(stack.parts)))

    @classmethod
    def _of_parts(cls, home: Path, keep: bool, kafka: str, say: Progress) -> LocalStack:
        secret = _secrets(home / "secrets.json")
        return cls(
            directory=home,
            kafka=_kafka(kafka, home / "kafka", say),
            valkey=Valkey(home / "valkey", secret["valkey"], on_progress=say),
            postgres=Postgres(home / "postgres", secret["postgres"], durable=keep, on_progress=say),
            tag_secret=secret["tag"],
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.postgres, self.valkey, self.kafka

    @property
    def kafka_bootstrap(self) -> str:
        """`host:port` of the broker."""
        return self.kafka.address

    @property
    def redis_url(self) -> str:
        """With its password: not for logs."""
        return self.valkey.url

    @property
    def database_url(self) -> str:
        """`postgresql+asyncpg://…` with its password: not for logs."""
        return self.postgres.url

    def env(self) -> dict[str, str]:
        """The settings that a process needs to use this stack, as environment variables."""
        return {
            "CONTEXT_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
            "CONTEXT_REDIS_URL": self.redis_url,
            "CONTEXT_DATABASE_URL": self.database_url,
            "CONTEXT_TAG_SECRET": self.tag_secret,
        }


def _kafka(choice: str, directory: Path, say: Progress) -> Part:
    if choice == "small":
        return SmallKafka(directory, on_progress=say)
    if choice == "maven":
        return MavenKafka(directory, on_progress=say)
    if ":" in choice:
        return OutsideKafka(directory, choice, on_progress=say)
    raise LocalStackError(f"kafka: {choice!r} is none of small, maven and host:port")


@contextmanager
def stack_home(directory: Path | None) -> Iterator[Path]:
    """The stack's directory: the one given, else a temporary one that goes away again."""
    home = directory or Path(tempfile.mkdtemp(prefix="context-engine-"))
    home = home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    # PostgreSQL, as another user than root, passes through; the parts below shut themselves.
    home.chmod(0o711)
    try:
        yield home
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


def _secrets(path: Path) -> dict[str, str]:
    """The stack's own secrets: made once, readable by the owner only."""
    if path.exists():
        stored = json.loads(path.read_text())
        return {name: str(stored[name]) for name in SECRET_NAMES}
    made = {name: secrets.token_urlsafe(24) for name in SECRET_NAMES}
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(made, file)
    return made


async def _all(steps: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run every step at once and each to its end, then raise the first failure."""
    results = await asyncio.gather(*(step() for step in steps), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
