"""Facts for tests that name their tables only: the rest is as a reading would tell it."""

from __future__ import annotations

from typing import Any

from context_engine import access
from context_engine.access import VisibleScope
from context_engine.facts import Facts, ViewHead
from context_engine.keys import Coordinates


def read(facts: Facts, at: Coordinates) -> Facts:
    """`facts` with the tables of the first reading, and the requested view's."""
    heads = [
        ViewHead(id=view.id, table_id=table.id, ownership=view.ownership, owner_id=view.owner_id)
        for table in facts.tables
        for view in table.views
        if view.id == at.view_id
    ]
    named = tuple(table.id for table in facts.tables)
    return facts.model_copy(update={"named": named, "view": heads[0] if heads else None})


def resolve(facts: Facts, at: Coordinates, **more: Any) -> VisibleScope:
    return access.resolve(read(facts, at), at, **more)
