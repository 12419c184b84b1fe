"""From coordinates to the visible scope: the readings that permission is decided on, in order."""

from __future__ import annotations

from datetime import datetime

from context_engine import access
from context_engine.access import VisibleScope
from context_engine.facts import Facts
from context_engine.keys import Coordinates
from context_engine.ports import DomainReads


async def visible(
    reads: DomainReads,
    at: Coordinates,
    *,
    tail: int = 0,
    inherited: frozenset[str] = frozenset(),
    strict: bool = False,
    now: datetime | None = None,
) -> VisibleScope:
    """What the user of `at` sees, by one snapshot of the domain, `now`: the database's time
    unless given. Raises as `access.resolve`."""
    facts, found = await read(reads, at, tail=tail)
    return access.resolve(facts, at, inherited=inherited, strict=strict, now=now, attributes=found)


async def read(
    reads: DomainReads, at: Coordinates, *, tail: int = 0
) -> tuple[Facts, access.Attributes]:
    """All that is decided on: who asks, then the tables that a right leads into; and what rules
    ask of the user, by a third reading where any does or a task is asked for."""
    facts = access.led_to(await reads.facts(at, tail=tail), at)
    reach = access.reach(facts, at)
    # A task that is missing takes the steps of one whose row is out of sight, whatever hides it.
    by_row = at.task_id is not None
    if reach or by_row:
        facts = facts.with_tables(await reads.tables(at, facts, reach))
    lookups = access.lookups(facts, at)
    found: access.Attributes = {}
    if (lookups or by_row) and facts.user is not None:
        found = await reads.attributes(at, facts.user, lookups)
    return facts, found
