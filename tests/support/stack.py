"""The stack under the tests: which broker `CONTEXT_TEST_KAFKA` asks for, and fresh databases."""

from __future__ import annotations

import os
import secrets
from urllib.parse import urlsplit

import asyncpg
import pytest

VARIABLE = "CONTEXT_TEST_KAFKA"
TEMPLATE = "context_template"


def kafka_choice() -> str:
    """What `LocalStack.start(kafka=…)` is given: `small`, `maven` or `host:port`."""
    choice = os.environ.get(VARIABLE, "").strip() or "small"
    if choice == "docker":
        # The place for testcontainers: a stack of the same shape as LocalStack, all in containers.
        raise pytest.UsageError(
            f"{VARIABLE}=docker does not exist yet; use maven, a host:port, or leave it out"
        )
    if choice not in ("small", "maven") and ":" not in choice:
        raise pytest.UsageError(
            f"{VARIABLE}={choice!r} is none of maven, docker and host:port; leave it out for the"
            f" small broker"
        )
    return choice


class Databases:
    """Makes databases on one server, each a copy of a template that was migrated once."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._migrated = False

    def url(self, name: str) -> str:
        """The SQLAlchemy URL of the database `name`."""
        return urlsplit(self._server_url)._replace(path=f"/{name}").geturl()

    async def create(self) -> str:
        """A fresh, migrated, empty database. Returns its SQLAlchemy URL."""
        if not self._migrated:
            from context_engine.adapters.sql import migrate  # heavy, and not every test needs it

            await self._execute(f"CREATE DATABASE {TEMPLATE}")
            await migrate.upgrade(self.url(TEMPLATE))
            self._migrated = True
        name = f"test_{secrets.token_hex(6)}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
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
