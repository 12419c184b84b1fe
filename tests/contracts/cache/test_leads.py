"""The lead on an answer that is not there: one has it, for as long as the answer is to come."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from context_engine import flights
from context_engine.adapters.memory import cache as memory_cache
from context_engine.adapters.redis import packs
from context_engine.ports import Look, Seen
from tests.support.cache import ANN, BOB, TABLE, WORKSPACE, Store, entry, surface_name, whole_name

LOOK = Look(ANN, whole_name(ANN), surface_name(ANN), lead=True)


def said(seen: Seen) -> str:
    assert not (seen.leads and seen.led)
    return "leads" if seen.leads else "led" if seen.led else "neither"


async def test_the_first_look_that_finds_nothing_leads_and_the_others_are_led(
    store: Store,
) -> None:
    """A surface alone is not the answer; another's answer has another lead."""
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(surface_name(ANN), moment)], None)
    async with store.elsewhere() as there:
        found = [await cache.look(LOOK) for cache in (store.cache, there, there)]
    assert [said(one) for one in found] == ["leads", "led", "led"]
    assert all(one.surface is not None for one in found)
    other = Look(BOB, whole_name(BOB), surface_name(BOB), lead=True)
    assert said(await store.cache.look(other)) == "leads"


async def test_who_does_not_ask_for_it_neither_leads_nor_is_led(store: Store) -> None:
    """Nor where there is no entry to read, or nothing could be stored."""
    assert said(await store.cache.look(LOOK)) == "neither"  # no marks yet
    await store.moment(ANN)
    for look in (
        replace(LOOK, lead=False),
        replace(LOOK, skip_entries=True),
    ):
        assert said(await store.cache.look(look)) == "neither"
    assert said(await store.cache.look(LOOK)) == "leads"


async def test_a_hit_takes_no_lead(store: Store) -> None:
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    seen = await store.cache.look(LOOK)
    assert seen.whole is not None
    assert said(seen) == "neither"
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
    assert said(await store.cache.look(LOOK)) == "leads"


@pytest.mark.parametrize("refused", [False, True])
async def test_it_ends_with_the_fill_stored_or_refused(store: Store, refused: bool) -> None:
    moment = await store.moment(ANN)
    assert said(await store.cache.look(LOOK)) == "leads"
    if refused:
        await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
    new = [entry(surface_name(ANN), moment), entry(whole_name(ANN), moment)]
    assert await store.cache.fill(moment, new, None) is not refused
    seen = await store.cache.look(LOOK)
    assert (seen.whole is None, said(seen)) == (refused, "leads" if refused else "neither")


async def test_it_can_be_given_up(store: Store) -> None:
    await store.moment(ANN)
    assert said(await store.cache.look(LOOK)) == "leads"
    await store.cache.release(whole_name(ANN))
    assert said(await store.cache.look(LOOK)) == "leads"


async def test_that_of_the_dead_lapses(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the store's own clock."""
    monkeypatch.setattr(packs, "LEAD_MS", 500)
    monkeypatch.setattr(memory_cache, "LEAD_MS", 500)
    assert flights.LEAD_MS <= 3_000
    await store.moment(ANN)
    async with store.elsewhere() as there:
        await there.ping()  # connected before the lead is taken, which does not wait for that
        assert said(await store.cache.look(LOOK)) == "leads"
        assert said(await there.look(LOOK)) == "led"
        await store.elapse(530)
        assert said(await there.look(LOOK)) == "leads"


async def test_of_many_that_look_at_once_one_leads(store: Store) -> None:
    """In one command, where equal looks are one, they are one leader."""
    await store.moment(ANN)
    messages = [replace(LOOK, whole=whole_name(ANN, str(i))) for i in range(40)]
    found = await asyncio.gather(*(store.cache.look(one) for one in messages))
    assert [said(one) for one in found] == ["leads"] * 40
    async with store.elsewhere() as there:
        again = await asyncio.gather(*(there.look(one) for one in messages))
    assert [said(one) for one in again] == ["led"] * 40
