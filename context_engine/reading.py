"""From coordinates to the visible scope: the readings that permission is decided on, in order."""

from __future__ import annotations

from datetime import datetime

from context_engine import access
from context_engine.access import VisibleScope
from context_engine.keys import Coordinates
from context_engine.ports import DomainReads


async def visible(
    reads: DomainReads,
    at: Coordinates,
    *,
    tail: int = 0,
    inherited: frozenset[str] = frozenset(),
    strict: bool = False,
    settled: bool = True,
    now: datetime | None = None,
) -> VisibleScope:
    """What the user of `at` sees, by one snapshot of the domain. Raises as `access.resolve`.

    Two readings: who asks, and the tables that a right leads into; a third where a rule asks for
    attributes of the user. `now`: the database's time unless given.
    """
    facts = await reads.facts(at, tail=tail)
    if reach := access.reach(facts, at.workspace_id):
        tables = tuple(await reads.tables(at, facts, reach))
        facts = facts.model_copy(update={"tables": tables})
    lookups = access.lookups(facts, at)
    attributes = {}
    if lookups and facts.user is not None:
        attributes = dict(await reads.attributes(at, facts.user, lookups))
    return access.resolve(
        facts, at, inherited=inherited, strict=strict, now=now, attributes=attributes
    )
