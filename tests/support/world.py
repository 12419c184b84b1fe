"""A small workspace in PostgreSQL, written row by row, and an engine over it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from pydantic import JsonValue
from sqlalchemy import event, insert
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.builder import Builder, Limits
from context_engine.engine import ContextEngine
from context_engine.liveness import Assumed
from context_engine.ports import ContextCache
from context_engine.repository import ContextRepository, Lifetimes

SECRET = "a secret of the tests only"
OWN_ROWS: JsonValue = {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}}
"""A condition of row policies: created by whoever asks."""


def engine_over(database: AsyncEngine, cache: ContextCache, **more: Any) -> ContextEngine:
    repository = ContextRepository(cache, SqlSnapshots(database), Lifetimes())
    return ContextEngine(
        SqlDomain(database),
        repository,
        Builder(Limits(tag_secret=SECRET)),
        **{"liveness": Assumed(), **more},
    )


@dataclass(slots=True)
class World:
    """Writes rows as they are, past every service: for what the domain holds, not how it came."""

    database: AsyncEngine
    workspace: str = "w"
    rows: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    async def add(self, table: Any, *rows: dict[str, Any]) -> None:
        async with self.database.begin() as connection:
            for _, alike in groupby(rows, key=tuple):  # by their columns: one statement for many
                await connection.execute(insert(table), list(alike))

    async def furnish(self, tables: int = 1, records: int = 10, fields: int = 3) -> None:
        """A workspace `w` with ADMIN `ana` and VIEWER `bob`, and tables `t0`, `t1` ..."""
        await self.add(t.organizations, {"id": "o", "name": "Org"})
        await self.add(
            t.users,
            *(
                {"id": id, "name": id.title(), "email_norm": f"{id}@example.org"}
                for id in ("ana", "bob", "eve")
            ),
        )
        await self.add(
            t.organization_members, {"organization_id": "o", "user_id": "ana", "role": "owner"}
        )
        await self.add(t.workspaces, {"id": "w", "name": "Work", "organization_id": "o"})
        await self.add(
            t.members,
            {"workspace_id": "w", "user_id": "ana", "role": "admin"},
            {"workspace_id": "w", "user_id": "bob", "role": "viewer"},
        )
        for number in range(tables):
            await self.table(f"t{number}", records=records, fields=fields)

    async def table(self, id: str, *, records: int = 10, fields: int = 3) -> None:
        here = {"workspace_id": "w", "table_id": id}
        await self.add(t.tables, {"id": id, "workspace_id": "w", "name": f"Table {id}"})
        await self.add(
            t.fields,
            *(
                {
                    "id": f"{id}.f{n}",
                    "name": f"Field {n}",
                    "type": "text",
                    "primary": n == 0,
                    "position": n,
                    **here,
                }
                for n in range(fields)
            ),
        )
        await self.add(
            t.views,
            {
                "id": f"{id}.v0",
                "name": "Mine",
                "type": "grid",
                "filter": {
                    "cmp": {
                        "ref": f"field:{id}.f1",
                        "op": "eq",
                        "operand": {"literal": "even"},
                    }
                },
                "hidden": [f"{id}.f1"],
                "field_order": [f"{id}.f2", f"{id}.f1", f"{id}.f0"],
                **here,
            },
        )
        await self.add(
            t.records,
            *(
                {
                    "id": f"{id}.r{n}",
                    "cells": {f"{id}.f0": str(n), f"{id}.f1": "odd" if n % 2 else "even"},
                    "created_by": "bob" if n % 5 == 0 else "ana",
                    **here,
                }
                for n in range(records)
            ),
        )

    async def own_rows(self, table: str, subject_type: str, subject_id: str) -> None:
        """A policy of `table`: these see only the records that they created."""
        await self.add(
            t.row_policies,
            {
                "id": "p",
                "workspace_id": "w",
                "table_id": table,
                "subjects": [{"type": subject_type, "id": subject_id}],
                "pred": OWN_ROWS,
                "mode": "restrictive",
            },
        )

    async def conversation(self, id: str, *users: str, messages: int = 30) -> None:
        texts = [f"Message number {n} of the dialogue." for n in range(messages)]
        await self.add(
            t.conversations,
            {
                "id": id,
                "workspace_id": "w",
                "title": "Talk",
                "message_count": messages,
                "total_chars": sum(map(len, texts)),
            },
        )
        await self.add(
            t.participants,
            *({"conversation_id": id, "user_id": u, "workspace_id": "w"} for u in users),
        )
        now = datetime.now(UTC)
        said = (
            # Each at a time of its own, though one statement writes them.
            _message(
                id, n + 1, text, author=users[n % len(users)],
                created_at=now - timedelta(milliseconds=messages - n),
            )
            for n, text in enumerate(texts)
        )  # fmt: skip
        await self.add(t.messages, *said)

    async def say(self, conversation: str, position: int, text: str, **more: Any) -> None:
        await self.add(t.messages, _message(conversation, position, text, **more))


def _message(conversation: str, position: int, text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{conversation}.m{position}",
        "workspace_id": "w",
        "conversation_id": conversation,
        "position": position,
        "role": more.pop("role", "user"),
        "author_id": more.pop("author", None),
        "content": text,
        "chars": len(text),
        **more,
    }


class Statements:
    """The statements that a database's connections execute while they are watched.

    Some go through SQLAlchemy, some to the driver itself; BEGIN and COMMIT are left out.
    """

    def __init__(self, database: AsyncEngine) -> None:
        self._engine = database.sync_engine
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    async def __aenter__(self) -> Statements:
        event.listen(self._engine, "before_cursor_execute", self._note)
        event.listen(self._engine, "checkout", self._watch)
        event.listen(self._engine, "checkin", self._leave)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # the driver tells of a statement in the loop's next turn
        event.remove(self._engine, "before_cursor_execute", self._note)
        event.remove(self._engine, "checkout", self._watch)
        event.remove(self._engine, "checkin", self._leave)

    def _note(self, _c: Any, _k: Any, statement: str, values: Any, *_: Any) -> None:
        self.asked.append((statement, tuple(values)))

    def _watch(self, connection: Any, *_: object) -> None:
        connection.driver_connection.add_query_logger(self._told)

    def _leave(self, connection: Any, *_: object) -> None:
        if connection is not None:
            connection.driver_connection.remove_query_logger(self._told)

    def _told(self, one: Any) -> None:
        if not one.query.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
            self.asked.append((one.query, tuple(one.args)))

    @property
    def seen(self) -> list[str]:
        return [statement for statement, _ in self.asked]

    @property
    def reading(self) -> list[str]:
        return [s for s in self.seen if s.lstrip().upper().startswith(("SELECT", "WITH"))]
