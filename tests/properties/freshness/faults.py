"""Faults planted in the house: what finds nothing has to show that it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from sqlalchemy import select

from context_engine import invalidation, keys
from context_engine.adapters.sql import tables as t
from context_engine.changes import AnyChange, GrantChanged
from context_engine.flights import Flight
from context_engine.keys import Tag
from context_engine.liveness import Assumed
from context_engine.ports import Look, Moment, NewEntry, SessionWrite, Unpublished
from tests.properties import freshness_faults as faulty
from tests.properties.freshness.house import House, next_offsets
from tests.properties.freshness.stores import InMemory
from tests.properties.freshness.ways import Cache, Outbox
from tests.properties.freshness.world import World
from tests.support import planted
from workers.proving import Prover

Plant = Callable[[pytest.MonkeyPatch], None]


def in_cache(fault: type[faulty.Faulty]) -> Plant:
    """The store is of the faulty kind."""

    async def make_store(_: World) -> InMemory:
        return InMemory(fault.kind)

    return lambda patch: patch.setattr(World, "make_store", make_store)


def fills_with(change: Callable[[NewEntry], NewEntry]) -> Plant:
    real = Cache.fill

    async def fill(
        self: Cache, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        return await real(self, moment, [change(entry) for entry in entries], session)

    return lambda patch: patch.setattr(Cache, "fill", fill)


def _without_absence(entry: NewEntry) -> NewEntry:
    tags = (tag for tag in entry.tags if not tag.startswith(("access:", "teams-of:")))
    return replace(entry, tags=frozenset(tags))


def clock_after_the_database(patch: pytest.MonkeyPatch) -> None:
    real = Cache.fill

    async def fill(
        self: Cache, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        nothing, who = keys.marks_name("w"), keys.scope_of("w", "bob", None, None)
        found = (await self.inner.look(Look(who, nothing, nothing, skip_entries=True))).moment
        entries = [replace(one, clock=found.clock) for one in entries] if found else entries
        return await real(self, found or moment, entries, session)

    patch.setattr(Cache, "fill", fill)


def anybody_joins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flight, "serves", lambda *_: True)


def proof_by_skip_locked(patch: pytest.MonkeyPatch) -> None:
    async def unpublished(self: Outbox, _: int) -> Unpublished:
        query = select(t.outbox.c.id).where(t.outbox.c.published_at.is_(None))
        async with self._inner._database.connect() as connection:  # type: ignore[attr-defined]
            rows = await connection.execute(query.with_for_update(skip_locked=True))
            return Unpublished(frozenset(str(row.id) for row in rows), frozenset())

    patch.setattr(Outbox, "unpublished", unpublished)


def no_proof_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tests.properties.freshness.house.Lookout", lambda *_, **__: Assumed())


def position_before_apply(patch: pytest.MonkeyPatch) -> None:
    async def consume(self: House) -> None:
        if batch := self.unfinished or await self.pipe.poll(0.0):
            self.unfinished = batch
            await self.pipe.commit(next_offsets(batch))
            await self.consumer.apply(batch)
            self.unfinished = None

    patch.setattr(House, "consume", consume)


def position_by_an_answer(patch: pytest.MonkeyPatch) -> None:
    """The same where what was proven before is taken over whatever it covers, for either rule
    saves the change where the other is broken; an answer has to show it."""
    position_before_apply(patch)
    patch.setattr(Prover, "_go_back", lambda *_: None)
    patch.setattr(House, "_judge_position", lambda _: None)


def a_change_without_its_tag(patch: pytest.MonkeyPatch) -> None:
    real = invalidation.tags_touched

    def touched(change: AnyChange) -> frozenset[Tag]:
        return frozenset() if isinstance(change, GrantChanged) else real(change)

    for place in ("invalidation", "adapters.sql.services.marking"):
        patch.setattr(f"context_engine.{place}.tags_touched", touched)


FAULTS: dict[str, Plant] = {
    "stamp at fill": in_cache(faulty.StampsAtFill),
    "delete in place of mark": in_cache(faulty.DeletesInPlaceOfMarking),
    "no epoch": in_cache(faulty.HasNoEpoch),
    "no reign": in_cache(faulty.HasNoReign),
    "sliding expiry": in_cache(faulty.SlidesItsExpiry),
    "stamp without looking": in_cache(faulty.StampsWithoutLooking),
    "clock after the database": clock_after_the_database,
    "missing absence tag": fills_with(_without_absence),
    "anybody joins a flight": anybody_joins,
    "a change without its tag": a_change_without_its_tag,
    "no proof asked for": no_proof_asked_for,
    "proof of the last hop alone": planted.proof_of_the_last_hop_alone,
    "proof by SKIP LOCKED": proof_by_skip_locked,
    "position before apply": position_before_apply,
    "position before apply, proof inherited beyond it": position_by_an_answer,
    "led without a look": planted.led_without_a_look(Cache),
}
