"""The stack under the tests: what `CONTEXT_TEST_KAFKA` asks for, parts alone, fresh databases."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from workers.localstack import LocalStack, MavenKafka, Part, Postgres, SmallKafka, Valkey

VARIABLE = "CONTEXT_TEST_KAFKA"
TEMPLATE = "context_template"


def kafka_choice() -> str:
    """`docker` for all parts in containers; else what `LocalStack.start(kafka=…)` is given."""
    choice = os.environ.get(VARIABLE, "").strip() or "small"
    if choice not in ("small", "maven", "docker") and ":" not in choice:
        raise pytest.UsageError(
            f"{VARIABLE}={choice!r} is none of maven, docker and host:port; leave it out for the"
            f" small broker"
        )
    return choice


def in_containers() -> bool:
    """Whether the parts run in containers."""
    return kafka_choice() == "docker"


def running_stack() -> AbstractAsyncContextManager[LocalStack]:
    """The three parts, as chosen."""
    if in_containers():
        from tests.support.containers import containers  # needs the Docker SDK

        return containers()
    return LocalStack.start(kafka=kafka_choice())


def kafka_part(directory: Path) -> Part:
    """A broker of one's own, as chosen."""
    if in_containers():
        from tests.support.containers import ContainerKafka

        return ContainerKafka(directory)
    return MavenKafka(directory) if kafka_choice() == "maven" else SmallKafka(directory)


def valkey_part(directory: Path, password: str = "secret") -> Valkey:
    """A Valkey of one's own, as chosen."""
    if in_containers():
        from tests.support.containers import ContainerValkey

        return ContainerValkey(directory, password)
    return Valkey(directory, password)


def postgres_part(directory: Path, password: str = "secret") -> Postgres:
    """A PostgreSQL of one's own, as chosen."""
    if in_containers():
        from tests.support.containers import ContainerPostgres

        return ContainerPostgres(directory, password)
    return Postgres(directory, password)


PARTS: dict[str, Callable[[Path], Part]] = {
    "kafka": kafka_part,
    "valkey": valkey_part,
    "postgres": postgres_part,
}


def address_between_parts(part: Part) -> tuple[str, int]:
    """Host and port where another part reaches this one."""
    if in_containers():
        from tests.support.containers import InContainer

        assert isinstance(part, InContainer)
        return part.inner_address
    host, _, port = part.address.rpartition(":")
    return host, int(port)


def stand_by(server: Postgres) -> None:
    """The next start of a running server is in recovery, as a replica's."""
    if in_containers():
        from tests.support.containers import ContainerPostgres

        assert isinstance(server, ContainerPostgres)
        server.stand_by()
        return
    signal = server.directory / "data" / "standby.signal"
    signal.touch()
    os.chown(signal, *server.run_as())


Furnish = Callable[[str], Awaitable[object]]
"""Fills the database of that SQLAlchemy URL, and leaves no connection to it open."""


class Databases:
    """Makes databases on one server, each a copy of a template that was made once."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._templates: set[str] = set()

    def url(self, name: str) -> str:
        """The SQLAlchemy URL of the database `name`."""
        return urlsplit(self._server_url)._replace(path=f"/{name}").geturl()

    async def create(self) -> str:
        """A fresh, migrated, empty database. Returns its SQLAlchemy URL."""
        return await self._copy(await self._migrated())

    async def furnished(self, name: str, furnish: Furnish) -> str:
        """A fresh database as `furnish` leaves an empty one; it is called once for each `name`."""
        template = f"{TEMPLATE}_{name}"
        if template not in self._templates:
            await self._execute(f"CREATE DATABASE {template} TEMPLATE {await self._migrated()}")
            await furnish(self.url(template))
            self._templates.add(template)
        return await self._copy(template)

    async def _migrated(self) -> str:
        if TEMPLATE not in self._templates:
            from context_engine.adapters.sql import migrate  # heavy, and not every test needs it

            await self._execute(f"CREATE DATABASE {TEMPLATE}")
            await migrate.upgrade(self.url(TEMPLATE))
            self._templates.add(TEMPLATE)
        return TEMPLATE

    async def _copy(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    async def drop(self, url: str) -> None:
        """Remove it, and end whatever is still connected to it."""
        name = urlsplit(url).path.removeprefix("/")
        await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        dsn = self._server_url.replace("postgresql+asyncpg", "postgresql", 1)
        connection = await asyncpg.connect(dsn, timeout=10)
        try:
            await connection.execute(statement, timeout=30)
        finally:
            await connection.close(timeout=10)
