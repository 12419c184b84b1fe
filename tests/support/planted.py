"""Faults planted in the cache and around it: the races have to show that they find them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha1
from typing import Any

import pytest
from sqlalchemy import select

from context_engine import keys
from context_engine.adapters.redis import cache as redis_cache
from context_engine.adapters.redis import link, packs
from context_engine.adapters.sql import outbox
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services.writing import Transaction, Writer
from context_engine.flights import Flight
from context_engine.ports import Entry, Look, Moment, NewEntry, Seen, SessionWrite, Unpublished
from events.records import RawMessage
from tests.support.barriers import HeldCache, HeldOutbox
from tests.support.kept import BOB
from tests.support.pipe import Pipe
from workers.consumption import Consumption, next_offsets
from workers.heartbeat import Heart
from workers.proving import Prover

Fault = Callable[[pytest.MonkeyPatch], None]


# -- faults in the scripts -----------------------------------------------------------------------


def in_scripts(right: str, wrong: str) -> Fault:
    """Every script that says `right` says `wrong`."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = link.scripts()
        assert any(right in text for _, text in real.values())
        texts = {name: text.replace(right, wrong) for name, (_, text) in real.items()}
        planted = {name: (sha1(text.encode()).hexdigest(), text) for name, text in texts.items()}
        for module in (link, packs):
            patch.setattr(module, "scripts", lambda: planted)

    return plant


HISTORY = "string.sub(info, history, history + 39)"
no_reign = in_scripts("return string.sub(info, process, process + 39) .. " + HISTORY, "return '0'")
run_id_alone = in_scripts(HISTORY, "''")
unchecked_fill = in_scripts("if mark > clock[entry] then", "if false then")
stamp_without_looking = in_scripts(
    "if marked_after(marks, redis.call('HGET', name, 't'), stamp) then", "if false then"
)
unread_timeline_of_a_mark = in_scripts("if noted and noted ~= timeline then", "if false then")
unread_timeline_of_a_fill = in_scripts("if timeline ~= '' and timeline ~= stood[2]", "if false")
delete_in_place_of_mark = in_scripts("for first = 5, #ARGV, SLICE do", "for first = 5, 0 do")
no_waiting_out = in_scripts(
    "return {server, now, latest + ARGV[1], timeline}", "return {server, now, 0, timeline}"
)
sliding_expiry = in_scripts(
    "redis.call('HSET', name, 'c', clock)",
    "redis.call('HSET', name, 'c', clock, 'x', now + 60000) redis.call('PERSIST', name)",
)


# -- faults around them --------------------------------------------------------------------------


def no_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(redis_cache, "_epoch", lambda: "always the same")


def fills_with(change: Callable[[NewEntry, Moment], NewEntry], *, now: bool) -> Fault:
    """Entries are changed on their way to the fill; `now`: which goes by the clock of its own
    time."""
    real = HeldCache.fill

    async def fill(
        self: HeldCache,
        moment: Moment,
        entries: Sequence[NewEntry],
        session: SessionWrite | None,
    ) -> bool:
        await self.barriers.at("before the fill")
        scope = keys.scope_of("w", BOB, None, None)
        nothing = keys.marks_name("w")
        found = (await self.look(Look(scope, nothing, nothing, skip_entries=True))).moment
        assert found is not None
        entries = [change(entry, found) for entry in entries]
        return await real(self, found if now else moment, entries, session)

    return lambda patch: patch.setattr(HeldCache, "fill", fill)


def without_access(entry: NewEntry, _: Moment) -> NewEntry:
    """An absence that does not carry the tag of its question."""
    return replace(entry, tags=entry.tags - {keys.access(BOB)})


stamp_at_fill = fills_with(lambda entry, found: replace(entry, clock=found.clock), now=False)
clock_after_the_database = fills_with(lambda e, found: replace(e, clock=found.clock), now=True)
life_by_a_clock_ahead = fills_with(
    lambda entry, _: replace(entry, expires_ms=entry.expires_ms + 900_000), now=False
)
missing_absence_tag = fills_with(without_access, now=False)


def mark_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def transaction(self: Writer, actor_id: str, *_: Any, **__: Any) -> AsyncIterator[Any]:
        async with self._database.begin() as connection:
            tx = Transaction(connection, actor_id)
            yield tx
            await outbox.put(connection, tx.changes)
            tx.tokens = await self._marking.done(tx.changes)

    patch.setattr(Writer, "transaction", transaction)


def proof_of_the_last_hop_alone(patch: pytest.MonkeyPatch) -> None:
    """`live` by what the consumer has read, whatever waits before its topics."""

    async def nothing_waits(*_: object) -> bool:
        return True

    patch.setattr(Heart, "_nothing_waits", nothing_waits)


def proof_by_skip_locked(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat looks for rows as a relay does, and does not see those that one holds."""

    async def unpublished(self: HeldOutbox, _: int) -> Unpublished:
        query = select(t.outbox.c.id).where(t.outbox.c.published_at.is_(None))
        async with self._outbox._database.connect() as connection:  # type: ignore[attr-defined]
            rows = await connection.execute(query.with_for_update(skip_locked=True))
            return Unpublished(frozenset(str(row.id) for row in rows), frozenset())

    patch.setattr(HeldOutbox, "unpublished", unpublished, raising=False)


def unread_timeline_of_a_beat(patch: pytest.MonkeyPatch) -> None:
    """Another timeline of the database ends nothing."""

    async def known(*_: object) -> bool:
        return True

    patch.setattr(Prover, "_database_known", known)


def no_reading_back(patch: pytest.MonkeyPatch) -> None:
    async def stay(*_: object) -> None:
        return

    patch.setattr(Pipe, "rewind", stay)


def anybody_joins(patch: pytest.MonkeyPatch) -> None:
    """A flight's answer is given to whoever came while it was under way."""
    patch.setattr(Flight, "serves", lambda *_: True)


def led_without_a_look(kind: type[Any]) -> Fault:
    """Who was led by another process takes what that built, though nothing proves it."""
    fill, look = kind.fill, kind.look
    built: dict[str, NewEntry] = {}
    led: set[tuple[object, str]] = set()

    async def filling(
        self: object, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> Any:
        built.update({one.name: one for one in entries})
        return await fill(self, moment, entries, session)

    async def looking(self: object, wanted: Look) -> Seen:
        seen: Seen = await look(self, wanted)
        name, who = wanted.whole, (self, wanted.whole)
        if seen.led:
            led.add(who)
        elif who in led and name in built:
            led.remove(who)
            one = built[name]
            return replace(
                seen,
                whole=Entry(
                    payload=one.payload,
                    clock=one.clock,
                    built_ms=one.built_ms,
                    expires_ms=one.expires_ms,
                    tags=one.tags,
                    context_hash=one.context_hash,
                ),
            )
        elif seen.leads:
            built.pop(name, None)
        return seen

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(kind, "fill", filling)
        patch.setattr(kind, "look", looking)

    return plant


def position_before_apply(patch: pytest.MonkeyPatch) -> None:
    async def mark(self: Consumption, batch: Sequence[RawMessage], _: object) -> bool:
        await self._source.commit(next_offsets(batch))
        await self._applier.apply(batch)
        return True

    patch.setattr(Consumption, "_mark", mark)
