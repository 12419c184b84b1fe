"""Coordinates → facts → visible scope → sections, with their tags; `assembly` makes the context.

The surface is read, cached and reloaded as one piece; the dialogue is read for every answer that
is not cached whole. Two reading statements make a cold build, whatever the number of tables:
facts with the dialogue, and counts. Counts come last, since a slow one ends its transaction.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from context_engine import access
from context_engine.access import VisibleScope
from context_engine.built import Limits, Surfaced
from context_engine.keys import Coordinates, Tag
from context_engine.ports import Counts, Domain, DomainReads, Entry
from context_engine.reading import visible
from context_engine.rendering import Rendered, render
from context_engine.sections.surface import build_surface

__all__ = ["Builder", "Limits"]


class Builder:
    """Reads what contexts within `limits`. Holds no state and does no I/O of its own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    async def read_all(
        self,
        reads: DomainReads,
        at: Coordinates,
        inherited: frozenset[str],
        *,
        locale: str | None,
        now: datetime | None,
        context_id: str,
    ) -> Surfaced:
        """The reading of a cold build. Raises `NotFound` as `access.resolve` does, but for tables.

        What is out of sight is for `settled`, after the counts, which decide on a task's row. A
        surface without a requested table is made and kept as any other.
        """
        scope = await visible(
            reads, at, tail=self.limits.messages, inherited=inherited | {"table_ids"}, now=now
        )
        counts = await reads.counts(scope)
        surface = build_surface(scope, counts, at)
        return Surfaced(
            surface=render(surface, locale, _told(scope, counts), context_id),
            tags=scope.tags,
            source="build",
            passing=counts.passing or scope.passing,
            until=scope.until,
            conversation=scope.conversation,
            dialogue_tags=scope.dialogue_tags,
            dialogue_told=scope.dialogue_told,
            denials=scope.denials,
            faults=scope.faults,
            timeline=scope.timeline,
        )

    def reload(self, cached: Entry, now_ms: int) -> Surfaced | None:
        """A proven surface out of the cache; None where its text is damaged."""
        try:
            surface = Rendered.loaded(cached.payload)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return Surfaced(
            surface=surface,
            tags=cached.tags,
            source="surface",
            over=cached,
            age_ms=max(0, now_ms - cached.built_ms),
        )

    def settled(self, known: Surfaced, inherited: frozenset[str], *, strict: bool) -> Surfaced:
        """With what the answer lists as unresolved. Raises `Denied` as `access.settle` does."""
        unresolved = access.settle(known.surface.absent, inherited, tags=known.tags, strict=strict)
        return replace(known, unresolved=unresolved)

    async def read_dialogue(
        self, domain: Domain, at: Coordinates, inherited: frozenset[str], known: Surfaced
    ) -> Surfaced:
        """The dialogue over a cached surface. Who takes part is decided anew."""
        here = Coordinates(
            at.workspace_id,
            at.user_id,
            conversation_id=at.conversation_id,
            agent_stack=at.agent_stack,
        )
        scope = await self._talk(domain, here, inherited)
        return replace(
            known,
            conversation=scope.conversation,
            dialogue_passing=scope.passing,
            dialogue_tags=scope.dialogue_tags,
            dialogue_told=scope.dialogue_told,
            denials=scope.denials,
            faults=scope.faults,
            timeline=scope.timeline,
        )

    async def _talk(
        self, domain: Domain, here: Coordinates, inherited: frozenset[str]
    ) -> VisibleScope:
        """One reading does where no tool ran over a table; else it takes a snapshot of its own."""
        facts = await domain.facts(here, tail=self.limits.messages)
        if not access.led_to(facts, here).named:
            return access.resolve(facts, here, inherited=inherited)
        async with domain.snapshot() as reads:
            return await visible(reads, here, tail=self.limits.messages, inherited=inherited)


def _told(scope: VisibleScope, counts: Counts) -> frozenset[Tag]:
    """A task whose row the count found out of sight tells no more than one that is missing."""
    if scope.task is None or not counts.task_row_visible:
        return scope.told
    return scope.told | scope.task.told
