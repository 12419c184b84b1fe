"""A small house in which the cache serves a context until something changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import JsonValue
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine
from context_engine.errors import NotFound
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.models.sections import TableSection

ANA, BOB = "ana", "bob"
BELGIUM: JsonValue = {
    "cmp": {"ref": "field:country", "op": "eq", "operand": {"literal": "Belgium"}}
}


@dataclass(frozen=True)
class House:
    """Workspace `w` of ADMIN ana and VIEWER bob. Table `t`: ten records, five of Belgium."""

    database: AsyncEngine
    services: DomainServices
    engine: ContextEngine

    async def ask(self, who: str = BOB, **where: Any) -> tuple[AgentContext, str]:
        """A context of `t`, and where it came from."""
        given = {"userId": who, "workspaceId": "w", "tableIds": ["t"], **where}
        answer = await self.engine.build(ContextBuildInput.model_validate(given))
        return AgentContext.model_validate_json(answer.context), answer.source

    async def kept(self, who: str = BOB, **where: Any) -> AgentContext:
        """A context that the cache serves from now on."""
        await self.ask(who, **where)
        context, source = await self.ask(who, **where)
        assert source == "cache"
        return context

    async def now(self, who: str = BOB, **where: Any) -> AgentContext:
        """The context after a change: never the one that was kept."""
        context, source = await self.ask(who, **where)
        assert source != "cache"
        return context

    async def denied(self, who: str = BOB, **where: Any) -> None:
        with pytest.raises(NotFound):
            await self.ask(who, **where)

    async def grant(self, role: str, subject: str = "user:bob", scope: str = "table:t") -> None:
        kind, id = subject.split(":")
        type, on = scope.split(":")
        await self.services.grants.set(
            ANA, "w", subject_type=kind, subject_id=id, scope_type=type, scope_id=on, role=role
        )

    async def permit(self, field: str, level: str) -> None:
        await self.services.field_permissions.set(
            ANA, "w", "t", field, subject_type="user", subject_id=BOB, level=level
        )

    async def view(self, ownership: str = "collaborative", **more: Any) -> None:
        """The view `belgium` of `t`, by its country."""
        await self.services.views.create(
            ANA, "w", "t", id="belgium", name="By country", filter=BELGIUM, ownership=ownership,
            **more,
        )  # fmt: skip

    async def role(self, role: str, who: str = BOB) -> None:
        await self.services.members.set(ANA, "w", who, role=role)

    async def computed(self, table: str, field: str, type: str, *reads: tuple[str, str]) -> None:
        """A field that is computed from others, as an import makes it."""
        row = {"id": field, "name": field.title(), "type": type, "workspace_id": "w", "position": 9}
        async with self.database.begin() as connection:
            await connection.execute(
                insert(t.fields), {**row, "table_id": table, "reads": [list(one) for one in reads]}
            )


async def furnish(services: DomainServices) -> None:
    for user in (ANA, BOB):
        await services.users.create("op", name=user.title(), email=f"{user}@x.example", id=user)
    await services.workspaces.create("op", name="Work", maker_id=ANA, id="w")
    await services.members.add(ANA, "w", BOB, role="viewer")
    await services.tables.create(ANA, "w", name="Orders", id="t", primary_id="name")
    await services.fields.create(ANA, "w", "t", name="Country", type="text", id="country")
    for n in range(10):
        cells = {"name": f"Order {n}", "country": "France" if n % 2 else "Belgium"}
        await services.records.create(ANA, "w", "t", cells, id=f"r{n}")


def table_of(context: AgentContext) -> TableSection:
    (table,) = context.tables
    return table


def records(context: AgentContext) -> int | None:
    return table_of(context).record_count.value


def in_view(context: AgentContext) -> int | None:
    assert context.view is not None
    return context.view.record_count.value


def fields(context: AgentContext) -> list[str]:
    return [field.id for field in table_of(context).fields]
