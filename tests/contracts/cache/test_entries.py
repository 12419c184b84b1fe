"""What is filled and found, and which fills are refused.

Numbers of races are those of docs/freshness.md.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from context_engine import keys
from context_engine.ports import Entry, Look
from tests.support.cache import (
    ANN,
    OTHER_TABLE,
    TABLE,
    WORKSPACE,
    Store,
    entry,
    scope,
    surface_name,
    whole_name,
)


async def test_what_was_filled_is_found_byte_for_byte(store: Store) -> None:
    """Payload, times and hash come back as they went in; bytes that are no text too."""
    moment, payload = await store.moment(ANN), bytes(range(256)) * 64 + b"\r\n"
    new = replace(entry(whole_name(ANN), moment, payload=payload), context_hash="abc")
    assert await store.cache.fill(moment, [new], None)
    seen = await store.look(ANN)
    assert seen.moment is not None
    assert seen.whole == Entry(
        payload=payload,
        clock=moment.clock,
        built_ms=moment.now_ms,
        expires_ms=new.expires_ms,
        context_hash="abc",
    )
    assert seen.surface is None
    assert seen.now_ms >= moment.now_ms


async def test_a_surface_is_found_with_its_tags_where_the_whole_is_not(store: Store) -> None:
    """A whole context made of it takes all of them."""
    moment = await store.moment(ANN)
    tags = [keys.schema(f"t{i}") for i in range(150)]
    assert await store.cache.fill(moment, [entry(surface_name(ANN), moment, *tags)], None)
    seen = await store.look(ANN)
    assert seen.whole is None
    assert seen.surface is not None
    assert seen.surface.tags == frozenset(tags)


async def test_both_layers_are_filled_in_one_call_and_the_whole_comes_first(store: Store) -> None:
    moment = await store.moment(ANN)
    both = [entry(whole_name(ANN), moment), entry(surface_name(ANN), moment, payload=b"surface")]
    assert await store.cache.fill(moment, both, None)
    seen = await store.look(ANN)
    assert seen.whole is not None
    assert seen.surface is None
    other_turn = await store.look(ANN, "another message")
    assert other_turn.surface is None
    turn = Look(ANN, whole_name(ANN, "another message"), surface_name(ANN))
    assert (await store.cache.look(turn)).surface is not None


async def test_fresh_reads_the_clock_only(store: Store, kept: Entry) -> None:
    look = Look(ANN, whole_name(ANN), surface_name(ANN), skip_entries=True)
    seen = await store.cache.look(look)
    assert seen.whole is seen.surface is None
    assert seen.moment is not None


async def test_a_marked_tag_ends_the_entry(store: Store, kept: Entry) -> None:
    """2: with the delete lost, validation misses."""
    marked = await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    assert marked.clock == kept.clock + 1
    seen = await store.look(ANN)
    assert seen.whole is None
    assert seen.moment is not None
    assert seen.moment.clock == marked.clock


async def test_the_mark_of_another_tag_ends_nothing(store: Store, kept: Entry) -> None:
    """And the entry is proven anew up to the present clock."""
    marked = await store.cache.mark(WORKSPACE, frozenset({OTHER_TABLE}), create=False)
    for _ in range(2):
        seen = await store.look(ANN)
        assert seen.whole is not None
        assert seen.whole.clock == marked.clock
        assert seen.whole.payload == kept.payload
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    assert (await store.look(ANN)).whole is None


async def test_one_marked_tag_of_many_is_enough(store: Store) -> None:
    """Over the bound of what one command takes, in fill and in look."""
    moment = await store.moment(ANN)
    tags = [keys.value("t1", f"f{i}") for i in range(2_500)]
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment, *tags)], None)
    await store.cache.mark(WORKSPACE, frozenset({OTHER_TABLE}), create=False)
    assert (await store.look(ANN)).whole is not None
    await store.cache.mark(WORKSPACE, frozenset({tags[1_777]}), create=False)
    assert (await store.look(ANN)).whole is None
    assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment, *tags)], None)


async def test_a_fill_is_refused_where_a_tag_was_marked_since(store: Store) -> None:
    """1: build reads v0, commit v1, event, fill v0."""
    moment = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    assert (await store.look(ANN)).whole is None


async def test_a_refused_entry_takes_the_others_with_it(store: Store) -> None:
    """An answer is stored whole or not at all."""
    moment = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    both = [
        entry(whole_name(ANN), moment, TABLE, OTHER_TABLE),
        entry(surface_name(ANN), moment, OTHER_TABLE),
    ]
    assert not await store.cache.fill(moment, both, None)
    seen = await store.look(ANN)
    assert seen.whole is seen.surface is None


async def test_a_fill_is_held_against_the_lower_clock_of_its_surface(store: Store) -> None:
    """What is made out of an older entry is no newer than that, whatever the build's clock."""
    older = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    moment = await store.moment(ANN)
    made_of_older = replace(entry(whole_name(ANN), moment), clock=older.clock)
    assert not await store.cache.fill(moment, [made_of_older], None)


async def test_an_absence_ends_when_what_was_missing_comes(store: Store) -> None:
    """10: "not found" is stored under its question's tag, then the grant marks it."""
    moment, grants = await store.moment(ANN), keys.access("ann")
    absent = entry(whole_name(ANN), moment, grants, payload=b"absent")
    assert await store.cache.fill(moment, [absent], None)
    await store.cache.mark(WORKSPACE, frozenset({grants}), create=True)
    assert (await store.look(ANN)).whole is None


async def test_an_old_fill_after_a_newer_entry_was_evicted_is_refused(store: Store) -> None:
    """6: the slow build may not bring back what was before."""
    old = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    new = await store.moment(ANN)
    assert await store.cache.fill(new, [entry(whole_name(ANN), new, payload=b"v1")], None)
    await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert not await store.cache.fill(old, [entry(whole_name(ANN), old, payload=b"v0")], None)
    assert (await store.look(ANN)).whole is None


async def test_an_old_fill_does_not_replace_a_newer_entry(store: Store) -> None:
    """7: repeated and reordered events leave the newer answer or none."""
    old = await store.moment(ANN)
    for _ in range(3):
        await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
        new = await store.moment(ANN)
        assert await store.cache.fill(new, [entry(whole_name(ANN), new, payload=b"v1")], None)
        assert not await store.cache.fill(old, [entry(whole_name(ANN), old, payload=b"v0")], None)
        seen = await store.look(ANN)
        assert seen.whole is not None
        assert seen.whole.payload == b"v1"


async def test_a_fill_across_workspaces_is_refused_as_a_mistake(store: Store) -> None:
    """One workspace's clock says nothing about another's."""
    moment, there = await store.moment(ANN), scope("ann", workspace="w2")
    mixed = [entry(whole_name(ANN), moment), entry(whole_name(there), moment)]
    with pytest.raises(ValueError, match="several workspaces"):
        await store.cache.fill(moment, mixed, None)
    assert (await store.look(ANN)).whole is None


async def test_the_store_answers(store: Store) -> None:
    await store.cache.ping()
