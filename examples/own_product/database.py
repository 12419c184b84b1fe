"""The product's database: one SQLite file. Nothing in here knows of the engine's contracts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from context_engine.errors import Unavailable

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS companies (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS people (
    id TEXT NOT NULL, company_id TEXT NOT NULL REFERENCES companies, name TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('lead', 'agent', 'guest')),
    PRIMARY KEY (company_id, id));
CREATE TABLE IF NOT EXISTS queues (
    id TEXT PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS queue_people (
    queue_id TEXT NOT NULL REFERENCES queues, person_id TEXT NOT NULL,
    PRIMARY KEY (queue_id, person_id));
CREATE TABLE IF NOT EXISTS tickets (
    id TEXT PRIMARY KEY, queue_id TEXT NOT NULL REFERENCES queues, subject TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open', assignee_id TEXT, opened_by TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS threads (
    id TEXT PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies, title TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS thread_people (
    thread_id TEXT NOT NULL REFERENCES threads, person_id TEXT NOT NULL,
    PRIMARY KEY (thread_id, person_id));
CREATE TABLE IF NOT EXISTS posts (
    position INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL REFERENCES threads,
    author_id TEXT, text TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    position INTEGER PRIMARY KEY AUTOINCREMENT, change TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (
    context_id TEXT PRIMARY KEY, generated_at TEXT NOT NULL, record TEXT NOT NULL);
"""

BUSY_SECONDS = 5.0
"""How long a write waits for another."""

Value = str | int | None


@contextmanager
def _faults() -> Iterator[None]:
    """What SQLite says of a file that is locked or gone, as the ports' error."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable("database", str(error)) from error


class Database:
    """One file. Each transaction has a connection and a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def prepare(self) -> None:
        """Makes the tables that are missing. Raises `Unavailable` where the file cannot be had."""
        with _faults():
            await asyncio.to_thread(self._prepare)

    def _prepare(self) -> None:
        connection = self._connect()
        try:
            connection.executescript(SCHEMA)
        finally:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        # isolation_level None: BEGIN and COMMIT are ours. The thread is one at a time.
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        return connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """One state of the database, whatever others write meanwhile."""
        async with self._transaction("BEGIN") as opened:
            yield opened

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        """Committed at the end of the block, or not at all."""
        async with self._transaction("BEGIN IMMEDIATE") as opened:
            yield opened

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[Transaction]:
        with ThreadPoolExecutor(1) as thread:
            with _faults():
                connection = self._connect()
            opened = Transaction(thread, connection)
            try:
                await opened.execute(begin)
                yield opened
                await opened.execute("COMMIT")
            finally:
                await opened.close()  # what is not committed is rolled back


class Transaction:
    """Statements on one connection, one after the other."""

    def __init__(self, thread: ThreadPoolExecutor, connection: sqlite3.Connection) -> None:
        self._thread, self._connection = thread, connection

    async def execute(self, statement: str, *values: Value) -> list[sqlite3.Row]:
        """Every row. Raises `Unavailable` when the file is locked for too long, or gone."""
        loop = asyncio.get_running_loop()
        with _faults():
            return await loop.run_in_executor(self._thread, self._execute, statement, values)

    def _execute(self, statement: str, values: tuple[Value, ...]) -> list[sqlite3.Row]:
        return self._connection.execute(statement, values).fetchall()

    async def one(self, statement: str, *values: Value) -> sqlite3.Row | None:
        """The first row, or None."""
        return next(iter(await self.execute(statement, *values)), None)

    async def close(self) -> None:
        """Closes once nothing runs any more: a statement whose waiter was cancelled still does."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
