"""What all changes are made of."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import uuid4

from pydantic import AwareDatetime, Field

from context_engine.models.base import Contract, Id

MAX_IDS = 1_000
"""Most ids of one kind in one change; a writer with more sends several changes."""

Ids = Annotated[tuple[Id, ...], Field(max_length=MAX_IDS)]
Op = Literal["created", "updated", "deleted"]


class Subject(Contract):
    """Whom a grant or permission names."""

    type: Literal["user", "team", "role"]
    id: Id


class GrantScope(Contract):
    """Where a grant holds; `id` is the workspace's, the table's or the view's."""

    type: Literal["workspace", "table", "view"]
    id: Id


class Change(Contract):
    """What all changes carry. `change_id` makes redelivery visible; order is not promised."""

    change_id: Id = Field(default_factory=lambda: str(uuid4()))
    workspace_id: Id
    actor_id: Id | None = None
    at: AwareDatetime | None = None
