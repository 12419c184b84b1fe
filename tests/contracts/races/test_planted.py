"""The faults that the races are there to catch, planted one by one: each of them is caught."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from context_engine.ports import Look, Moment, NewEntry, SessionWrite, Unpublished
from tests.contracts.races import test_builds as builds
from tests.contracts.races import test_failover as failover
from tests.contracts.races import test_lines as lines
from tests.support.barriers import HeldCache, HeldOutbox
from tests.support.kept import BOB
from tests.support.pair import Pair
from tests.support.pipe import Pipe
from tests.support.races import Race
from workers.heartbeat import Heart

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
delete_in_place_of_mark = in_scripts("for first = 4, #ARGV, SLICE do", "for first = 4, 0 do")
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
missing_absence_tag = fills_with(without_access, now=False)


def mark_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def transaction(self: Writer, actor_id: str, *_: Any, **__: Any) -> AsyncIterator[Any]:
        async with self._database.begin() as connection:
            tx = Transaction(connection, actor_id)
            yield tx
            await outbox.put(connection, tx.changes)
            tx.tokens = await self._marked(tx.changes)

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


def no_reading_back(patch: pytest.MonkeyPatch) -> None:
    async def stay(*_: object) -> None:
        return

    patch.setattr(Pipe, "rewind", stay)


# -- and who catches them ------------------------------------------------------------------------

Catch = Callable[[Race], Awaitable[None]]
LOST = (AssertionError, pytest.fail.Exception)
"""What a race that is lost raises; the second where a refusal did not come."""


def reads_before(race: Race) -> Awaitable[None]:
    return builds.test_1_what_a_build_read_before_a_change_is_not_stored(
        race, "after the database read", "service"
    )


def emptied(race: Race) -> Awaitable[None]:
    return builds.test_3_a_store_that_was_emptied_takes_no_fill_from_before(race, "before the fill")


def marks_evicted(race: Race) -> Awaitable[None]:
    return builds.test_4_an_entry_whose_marks_were_evicted_is_a_miss(race, "a service")


def absent(race: Race) -> Awaitable[None]:
    return builds.test_10_an_absence_ends_when_what_was_missing_comes(
        race, "a table out of sight", "when it is cached"
    )


def commits_first(race: Race) -> Awaitable[None]:
    return lines.test_8_a_service_has_committed_before_it_marks(race, "after the commit")


def new_enemy(race: Race) -> Awaitable[None]:
    return lines.test_15_who_names_a_later_edit_sees_the_revocation_before_it(
        race, "when it is cached"
    )


SLOW_FILL = builds.test_6_a_slow_fill_does_not_come_back_over_what_was_evicted
REORDERED = builds.test_7_events_again_and_out_of_order_never_bring_the_old_back
DELETE_LOST = builds.test_2_with_the_delete_lost_it_is_found_stale

FOUND: dict[str, tuple[Fault, Catch]] = {
    "unchecked fill, 1": (unchecked_fill, reads_before),
    "unchecked fill, 6": (unchecked_fill, SLOW_FILL),
    "unchecked fill, 7": (unchecked_fill, REORDERED),
    "stamp at fill, 1": (stamp_at_fill, reads_before),
    "stamp at fill, 6": (stamp_at_fill, SLOW_FILL),
    "clock after the database, 1": (clock_after_the_database, reads_before),
    "delete in place of mark, 1": (delete_in_place_of_mark, reads_before),
    "delete in place of mark, 2": (delete_in_place_of_mark, DELETE_LOST),
    "stamp without looking, 2": (stamp_without_looking, DELETE_LOST),
    "stamp without looking, 15": (stamp_without_looking, new_enemy),
    "no epoch, 3": (no_epoch, emptied),
    "no epoch, 4": (no_epoch, marks_evicted),
    "mark before the commit, 8": (mark_before_the_commit, commits_first),
    "missing absence tag, 10": (missing_absence_tag, absent),
}


@pytest.mark.parametrize("name", FOUND)
async def test_a_planted_fault_is_caught(
    race: Race, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the race after its name; without the fault that race is won."""
    fault, caught = FOUND[name]
    fault(monkeypatch)
    if fault is no_epoch:
        await race.cache.forget("w")
        await race.cache.found("w")
    with pytest.raises(LOST):
        await caught(race)


@pytest.mark.parametrize("new_turns", [False, True], ids=["one question", "a dialogue"])
async def test_a_sliding_expiry_is_caught(
    short: Race, new_turns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sliding_expiry(monkeypatch)
    with pytest.raises(LOST):
        await lines.test_16_a_hot_entry_ends_with_its_life(short, new_turns)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("fault", [proof_of_the_last_hop_alone, proof_by_skip_locked])
async def test_a_proof_that_misses_what_waits_is_caught(
    race: Race, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old is a hit for as long as a relay stands still: the bypass never comes."""
    fault(monkeypatch)
    monkeypatch.setattr(lines, "BOUND_SECONDS", 5.0)
    with pytest.raises(TimeoutError):
        await lines.test_13_who_stands_still_between_any_two_steps_proves_nothing(
            race, "after the claim"
        )


PROMOTED = failover.test_5_a_replica_that_lacks_the_mark_serves_nothing_from_before
BACK = failover.test_5_who_is_promoted_again_without_the_mark_serves_nothing_from_before
READ_BACK = failover.test_5_a_mark_lost_with_its_server_is_set_again_before_anything_is_a_hit


@pytest.mark.parametrize(
    ("fault", "caught"), [(no_reign, PROMOTED), (run_id_alone, BACK), (no_reading_back, READ_BACK)]
)
async def test_a_reign_that_is_not_told_apart_is_caught(
    pair: Pair,
    fault: Fault,
    caught: Callable[[Pair], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    if fault is not no_reading_back:
        await pair.race.kept()  # under the reign that is not one
        await pair.follow(pair.b, pair.servers[0])
    with pytest.raises(LOST):
        await caught(pair)
