"""Services under test: over a database of the test's own, with a marker that remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import Unavailable
from context_engine.keys import Tag
from context_engine.ports import Epoch, Marked, Reign

ANA, BEN, COM, VIC, BUD, NED, OUT = "ana", "ben", "com", "vic", "bud", "ned", "out"
ROLES = {ANA: "admin", BEN: "editor", COM: "commenter", VIC: "viewer", BUD: "builder", NED: "none"}
"""The members of workspace `w`, by role; `out` is a user outside of it."""


@dataclass
class RecordingMarker:
    """Keeps what was marked and how many outbox rows were committed by then."""

    database: AsyncEngine
    away: bool = False
    waits_ms: list[int] = field(default_factory=list)
    """How long the next marks are not settled; then they are."""
    calls: list[tuple[str, frozenset[Tag], bool]] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        if self.away:
            raise Unavailable("redis", "is away")
        async with self.database.connect() as connection:
            rows = (await connection.execute(select(t.outbox.c.id))).all()
        self.committed.append(len(rows))
        self.calls.append((workspace_id, tags, create))
        wait_ms = self.waits_ms.pop(0) if self.waits_ms else 0
        return Marked(workspace_id, Epoch("e"), Reign("r"), len(self.calls), wait_ms)


async def furnish(services: DomainServices) -> None:
    """Workspace `w` with a member of each role and the table `tbl`, of three records."""
    for user in (*ROLES, OUT):
        await services.users.create("op", name=user.title(), email=f"{user}@x.example", id=user)
    await services.workspaces.create("op", name="Work", maker_id=ANA, id="w")
    for user, role in ROLES.items():
        if user != ANA:
            await services.members.add(ANA, "w", user, role=role)
    await services.tables.create(ANA, "w", name="Things", id="tbl", primary_id="name")
    for id, type, options in (
        ("n", "number", {}),
        ("ok", "boolean", {}),
        ("day", "date", {}),
        ("state", "select", {"choices": ["open", "done"]}),
        ("labels", "multi_select", {"choices": ["a", "b"]}),
        ("owner", "user", {}),
        ("team", "user", {"multiple": True}),
    ):
        await services.fields.create(
            ANA, "w", "tbl", name=id.title(), type=type, options=options, id=id
        )
    for number in (1, 2, 3):
        await services.records.create(ANA, "w", "tbl", {"name": f"Thing {number}"}, id=f"r{number}")


async def outbox(database: AsyncEngine) -> Sequence[Any]:
    """Every row of the outbox, in order."""
    async with database.connect() as connection:
        return (await connection.execute(select(t.outbox).order_by(t.outbox.c.seq))).all()


async def row(database: AsyncEngine, table: Any, id: str) -> Any:
    """One row by its id, or None."""
    async with database.connect() as connection:
        return (await connection.execute(select(table).where(table.c.id == id))).first()
