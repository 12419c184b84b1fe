"""A right is taken back, and asked for at once by a process that did not take it.

Whoever serves is another process than whoever revokes: what one knows, the other has to be told
by the store. Each try is a grant, a context that is served out of the cache, requests that are
under way all through the revocation, and after its acknowledgement two more: one that the whole
context would answer, one that the surface would. Neither may be answered.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from events.client import ContextClient
from tests.support.world import World

UNDER_WAY = 2
"""Requests that are on their way while a right is taken back."""

ASKED = 8
"""Most requests before it, until one is served out of the cache."""


@dataclass(slots=True)
class Tries:
    """What came of them."""

    tries: int = 0
    cached: int = 0
    """How often the context was served out of the cache just before."""
    served: int = 0
    """Answered, though the request was sent after the acknowledgement."""


@dataclass(frozen=True, slots=True)
class Revocations:
    """A workspace of its own, with one table that each of its users sees by a grant alone."""

    services: DomainServices
    client: ContextClient
    workspace: str
    users: tuple[str, ...]

    @property
    def table(self) -> str:
        return f"{self.workspace}-t"

    @property
    def admin(self) -> str:
        return f"{self.workspace}-admin"

    async def tried(self, tries: int) -> Tries:
        """That many, by all users at once."""
        found, left = Tries(), iter(range(tries))

        async def lane(user: str) -> None:
            for _ in left:
                await self._try(user, found)

        async with asyncio.TaskGroup() as lanes:
            for user in self.users:
                lanes.create_task(lane(user))
        return found

    async def _try(self, user: str, found: Tries) -> None:
        await self._grant(user, "viewer")
        cached = await self._is_cached(user)
        under_way = [asyncio.create_task(self._source(user, "?")) for _ in range(UNDER_WAY)]
        await self._grant(user, "none")
        after = await asyncio.gather(self._source(user, "?"), self._source(user, uuid4().hex))
        found.served += any(source is not None for source in after)
        found.cached += cached
        found.tries += 1
        await asyncio.gather(*under_way)

    async def _is_cached(self, user: str) -> bool:
        """Once it is, or not for a while: the consumer repeats the mark of the grant, which ends
        what was built before that."""
        for _ in range(ASKED):
            if await self._source(user, "?") == "cache":
                return True
        return False

    async def _grant(self, user: str, role: str) -> None:
        """Enforced once this returns: what is not is `NotYetEnforced`."""
        await self.services.grants.set(
            self.admin,
            self.workspace,
            subject_type="user",
            subject_id=user,
            scope_id=self.table,
            role=role,
        )

    async def _source(self, user: str, message: str) -> str | None:
        """Where the answer came from; None for a refusal."""
        request = ContextBuildInput(
            user_id=user, workspace_id=self.workspace, table_ids=(self.table,), message=message
        )
        with suppress(NotFound):
            return (await self.client.request(request, timeout=30.0)).source
        return None


async def revocations(
    world: World, services: DomainServices, client: ContextClient, *, users: int
) -> Revocations:
    """With so many users, whose role in the workspace lets them see nothing."""
    name = f"rev{uuid4().hex[:8]}"
    made = Revocations(services, client, name, tuple(f"{name}-u{n}" for n in range(users)))
    here = {"workspace_id": name}
    roles = {made.admin: "admin", **dict.fromkeys(made.users, "none")}
    await world.add(t.workspaces, {"id": name, "name": "Revocations"})
    await world.add(t.users, *({"id": id, "name": id} for id in roles))
    await world.add(
        t.members, *({"user_id": id, "role": role, **here} for id, role in roles.items())
    )
    await world.add(t.tables, {"id": made.table, "name": "Orders", **here})
    of = {"table_id": made.table, **here}
    await world.add(
        t.fields,
        {"id": f"{made.table}.f", "name": "Name", "type": "text", "primary": True, "position": 0}
        | of,
    )
    return made
