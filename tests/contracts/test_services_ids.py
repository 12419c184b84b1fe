"""Ids that are given for what is made: they tell nobody what is taken out of sight."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.services import DomainServices, Written
from context_engine.errors import Conflict
from tests.support.services import ANA, BUD, RecordingMarker

Create = Callable[[DomainServices, str, str], Awaitable[Written]]
CREATES: dict[str, Create] = {
    "team": lambda s, a, id: s.teams.create(a, "w", name="T", id=id),
    "agent": lambda s, a, id: s.agents.create(a, "w", name="A", max_role="viewer", id=id),
    "table": lambda s, a, id: s.tables.create(a, "w", name="T", id=id),
    "primary field": lambda s, a, id: s.tables.create(a, "w", name="T", primary_id=id),
    "field": lambda s, a, id: s.fields.create(a, "w", "tbl", name="F", type="text", id=id),
    "link": lambda s, a, id: s.links.create(a, "w", "tbl", name="L", linked_table_id="tbl", id=id),
    "link back": lambda s, a, id: s.links.create(
        a, "w", "tbl", name="L", linked_table_id="tbl", back_name="B", back_id=id
    ),
    "view": lambda s, a, id: s.views.create(a, "w", "tbl", name="V", id=id),
    "record": lambda s, a, id: s.records.create(a, "w", "tbl", {}, id=id),
    "project": lambda s, a, id: s.projects.create(a, "w", name="P", id=id),
    "task": lambda s, a, id: s.tasks.create(a, "w", title="T", id=id),
    "workflow": lambda s, a, id: s.workflows.create(a, "w", name="F", id=id),
    "conversation": lambda s, a, id: s.conversations.open(a, "w", title="C", id=id),
    "message": lambda s, a, id: s.messages.add(a, "w", "talk", "Hello", id=id),
}
BY_ITSELF = {"primary field", "link back"}
"""Whose answer names another thing."""


@pytest.fixture
async def chosen(services: DomainServices, database: AsyncEngine) -> DomainServices:
    """Services as a product has them, whose users may choose ids; BUD is an ADMIN."""
    await services.members.set(ANA, "w", BUD, role="admin")
    await services.conversations.open(ANA, "w", title="C", participant_ids=[BUD], id="talk")
    return DomainServices(database, RecordingMarker(database), enforce_seconds=0.3)


async def test_an_id_is_taken_by_nobody_else(
    services: DomainServices, chosen: DomainServices
) -> None:
    """What has it under that very id, and what another made by it, is in nobody's way."""
    for kind, create in CREATES.items():
        id = f"the {kind}"
        await create(services, ANA, id)
        made = {(await create(chosen, who, id)).id for who in (ANA, BUD)}
        assert len(made) == 2, kind
        assert id not in made, kind


async def test_an_id_makes_one_thing_however_often_it_is_tried(chosen: DomainServices) -> None:
    """By one actor in one place: who lost the answer tries again and makes nothing twice."""
    for kind, create in CREATES.items():
        if kind == "primary field":  # of another table each time
            continue
        await create(chosen, ANA, f"my {kind}")
        with pytest.raises(Conflict, match="is taken"):
            await create(chosen, ANA, f"my {kind}")
    first = await chosen.tables.create(ANA, "w", name="T", id="a")
    other = await chosen.tables.create(ANA, "w", name="T", id="b")
    made: list[Any] = [
        await chosen.records.create(ANA, "w", table.id, {}, id="mine") for table in (first, other)
    ]
    assert made[0].id != made[1].id


async def test_without_an_id_each_is_another(chosen: DomainServices) -> None:
    for kind, create in CREATES.items():
        if kind not in BY_ITSELF:
            assert (await create(chosen, ANA, None)).id != (  # type: ignore[arg-type]
                await create(chosen, ANA, None)  # type: ignore[arg-type]
            ).id, kind


async def test_no_link_takes_the_place_of_a_field_that_was_removed(chosen: DomainServices) -> None:
    """Its cells stay, and would be shown to people whom a permission kept from them; on either
    side of the link."""
    made = await chosen.fields.create(ANA, "w", "tbl", name="Pay", type="text", id="pay")
    await chosen.records.create(ANA, "w", "tbl", {made.id: "a lot"})
    await chosen.fields.delete(ANA, "w", "tbl", made.id)
    link: dict[str, Any] = {"name": "L", "linked_table_id": "tbl"}
    for more in ({"id": "pay"}, {"back_name": "B", "back_id": "pay"}):
        with pytest.raises(Conflict, match="was another field's here"):
            await chosen.links.create(ANA, "w", "tbl", **link, **more)
    listed = await chosen.records.list(ANA, "w", "tbl")
    assert all("a lot" not in one.cells.values() for one in listed)
