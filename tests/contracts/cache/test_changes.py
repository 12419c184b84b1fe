"""What takes entries back: marks, losses of the store, eviction.

Numbers of races are those of docs/freshness.md.
"""

from __future__ import annotations

import pytest

from context_engine.ports import Entry
from tests.support.cache import (
    ANN,
    BOB,
    OTHER_TABLE,
    TABLE,
    WORKSPACE,
    Store,
    entry,
    scope,
    surface_name,
    whole_name,
)

# -- marks -------------------------------------------------------------------------------------


async def test_without_marks_there_is_no_clock_until_a_build_makes_them(store: Store) -> None:
    seen = await store.look(ANN)
    assert seen.moment is None
    assert seen.whole is seen.surface is None
    assert seen.now_ms > 0
    await store.cache.found(WORKSPACE)
    first = (await store.look(ANN)).moment
    await store.cache.found(WORKSPACE)
    second = (await store.look(ANN)).moment
    assert first is not None
    assert second is not None
    assert (first.epoch, first.clock) == (second.epoch, second.clock)


async def test_a_mark_makes_marks_only_where_it_may(store: Store) -> None:
    """The consumer makes none: a mark on a missing hash has nothing to end."""
    nothing = await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    assert nothing.epoch is None
    assert nothing.clock is None
    assert nothing.reign
    assert (await store.look(ANN)).moment is None
    made = await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
    moment = (await store.look(ANN)).moment
    assert moment is not None
    assert (made.epoch, made.reign, made.clock) == (moment.epoch, moment.reign, moment.clock)


async def test_new_marks_have_another_epoch(store: Store) -> None:
    epochs = set()
    for _ in range(3):
        epochs.add((await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)).epoch)
        await store.cache.forget(WORKSPACE)
    assert len(epochs) == 3


async def test_a_batch_of_marks_is_answered_in_order(store: Store, kept: Entry) -> None:
    changes = [
        (WORKSPACE, frozenset({OTHER_TABLE})),
        ("unknown", frozenset({TABLE})),
        (WORKSPACE, frozenset({TABLE})),
    ]
    first, second, third = await store.cache.mark_many(changes)
    assert (first.workspace_id, second.workspace_id) == (WORKSPACE, "unknown")
    assert first.clock == kept.clock + 1
    assert second.clock is None
    assert third.clock == kept.clock + 2
    assert (await store.look(ANN)).whole is None
    assert await store.cache.mark_many([]) == []


async def test_forgetting_a_workspace_ends_its_entries_and_no_others(store: Store) -> None:
    here, there = ANN, scope("ann", workspace="w2")
    for who in (here, there):
        moment = await store.moment(who)
        assert await store.cache.fill(moment, [entry(whole_name(who), moment)], None)
    await store.cache.forget(WORKSPACE)
    await store.cache.found(WORKSPACE)
    assert (await store.look(here)).whole is None
    assert (await store.look(there)).whole is not None


async def test_forgetting_everything_ends_every_workspace(store: Store) -> None:
    """Also those whose ids hold what a pattern would read as its own."""
    everyone = [scope("ann", workspace=w) for w in ("w1", "*", "a}b{c", "[x]", "中", "\\")]
    for who in everyone:
        moment = await store.moment(who)
        assert await store.cache.fill(moment, [entry(whole_name(who), moment)], None)
        assert await store.write_session(who, moment)
    assert await store.cache.forget_everything() == (await store.liveness.pulse()).reigns
    for who in everyone:
        assert (await store.look(who)).moment is None
        assert await store.cache.session(who) is not None


# -- what the store may lose -------------------------------------------------------------------


async def test_a_fill_is_refused_where_everything_was_lost(store: Store) -> None:
    """3: an emptied store knows nothing of marks that came before, also with new marks."""
    moment = await store.moment(ANN)
    await store.flush()
    assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    await store.cache.found(WORKSPACE)
    assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    assert (await store.look(ANN)).whole is None


async def test_an_entry_that_outlived_its_marks_is_a_miss(store: Store, kept: Entry) -> None:
    """4: before and after new marks are made, and at any clock."""
    await store.lose_marks(WORKSPACE)
    seen = await store.look(ANN)
    assert seen.moment is None
    assert seen.whole is None
    await store.cache.found(WORKSPACE)
    seen = await store.look(ANN)
    assert seen.moment is not None
    assert seen.whole is None
    await store.cache.mark(WORKSPACE, frozenset({OTHER_TABLE}), create=True)
    assert (await store.look(ANN)).whole is None


async def test_an_entry_of_another_reign_is_a_miss(store: Store, kept: Entry) -> None:
    """5: another server, or the same after a failover and back."""
    await store.put_under_another_reign(whole_name(ANN))
    assert (await store.look(ANN)).whole is None


async def test_anothers_entry_under_this_name_is_a_miss(store: Store, kept: Entry) -> None:
    """The name inside is compared: nothing that lies in the wrong place is served."""
    await store.put_in_place_of(whole_name(ANN), whole_name(BOB))
    assert (await store.look(BOB)).whole is None
    await store.put_in_place_of(whole_name(ANN), surface_name(BOB))
    assert (await store.look(BOB)).surface is None


async def test_an_entry_ends_with_its_life_however_often_it_is_read(store: Store) -> None:
    """16: proving it again renews the clock, never the expiry."""
    moment = await store.moment(ANN)
    short = entry(whole_name(ANN), moment, life_ms=300)
    assert await store.cache.fill(moment, [short], None)
    for _ in range(3):
        await store.cache.mark(WORKSPACE, frozenset({OTHER_TABLE}), create=False)
        seen = await store.look(ANN)
        assert seen.whole is not None
        assert seen.whole.expires_ms == short.expires_ms
    await store.elapse(310)
    assert (await store.look(ANN)).whole is None


async def test_an_entry_that_has_ended_already_is_not_served(store: Store) -> None:
    moment = await store.moment(ANN)
    await store.cache.fill(moment, [entry(whole_name(ANN), moment, life_ms=-1)], None)
    assert (await store.look(ANN)).whole is None


# -- eviction ----------------------------------------------------------------------------------


async def test_eviction_unlinks_what_carries_the_tags_and_says_whose_it_was(store: Store) -> None:
    moment = await store.moment(ANN)
    await store.cache.fill(
        moment,
        [entry(whole_name(ANN), moment, TABLE, OTHER_TABLE), entry(surface_name(ANN), moment)],
        None,
    )
    await store.cache.fill(moment, [entry(whole_name(BOB), moment, OTHER_TABLE)], None)
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert (evicted.count, evicted.scope_keys, evicted.truncated) == (2, (ANN.key,), False)
    assert not await store.has(whole_name(ANN))
    assert not await store.has(surface_name(ANN))
    assert (await store.look(BOB)).whole is not None
    again = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert (again.count, again.scope_keys) == (0, ())


async def test_a_denial_is_unlinked_without_a_word(store: Store) -> None:
    """And its surface: neither counted nor named, whatever else falls with it."""
    moment = await store.moment(ANN)
    denied = [
        entry(name, moment, TABLE, OTHER_TABLE, quiet=True)
        for name in (whole_name(ANN), surface_name(ANN))
    ]
    assert await store.cache.fill(moment, denied, None)
    await store.cache.fill(moment, [entry(whole_name(BOB), moment, OTHER_TABLE)], None)
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert (evicted.count, evicted.scope_keys) == (0, ())
    assert not await store.has(whole_name(ANN))
    assert not await store.has(surface_name(ANN))
    await store.cache.fill(moment, denied, None)
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE, OTHER_TABLE}))
    assert (evicted.count, evicted.scope_keys) == (1, (BOB.key,))
    assert not await store.has(whole_name(ANN))


async def test_a_denial_that_is_stale_is_not_stored(store: Store) -> None:
    """As an answer is not."""
    moment = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    denied = [entry(whole_name(ANN), moment, TABLE, quiet=True)]
    assert not await store.cache.fill(moment, denied, None)
    assert not await store.has(whole_name(ANN))


async def test_a_denial_in_the_place_of_an_answer_is_not_told_of(store: Store) -> None:
    """Nor is an answer in the place of a denial kept quiet."""
    moment = await store.moment(ANN)
    answer = entry(whole_name(ANN), moment, TABLE, OTHER_TABLE)
    denied = entry(whole_name(ANN), moment, TABLE, quiet=True)
    for kept, told in ((denied, ()), (answer, (ANN.key,))):
        await store.cache.fill(moment, [answer], None)
        await store.cache.fill(moment, [denied], None)
        await store.cache.fill(moment, [kept], None)
        evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
        assert (evicted.count, evicted.scope_keys) == (len(told), told)


async def test_an_answer_that_a_change_ended_is_told_of_after_a_denial(store: Store) -> None:
    """Whoever is refused before the eviction hears of it all the same, once, and by that change."""
    before = await store.moment(ANN)
    names = (whole_name(ANN), surface_name(ANN))
    answers = [entry(name, before, TABLE, OTHER_TABLE) for name in names]
    assert await store.cache.fill(before, answers, None)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    after = await store.moment(ANN)
    denied = [entry(name, after, TABLE, OTHER_TABLE, quiet=True) for name in names]
    assert await store.cache.fill(after, denied, None)
    other = await store.cache.evict(WORKSPACE, frozenset({OTHER_TABLE}))
    assert (other.count, other.scope_keys) == (0, ()), "it is the other change that ended it"
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert evicted.scope_keys == (ANN.key,)
    assert await store.cache.fill(after, denied, None)
    assert (await store.cache.evict(WORKSPACE, frozenset({TABLE}))).scope_keys == ()


@pytest.mark.parametrize("answered_again", [False, True])
async def test_denial_after_denial_does_not_make_an_answer_forgotten(
    store: Store, answered_again: bool
) -> None:
    """The change that ended it tells of it all the same; unless an answer that this change did
    not end was given in between, and denied in its turn."""
    before = await store.moment(ANN)
    answer = entry(whole_name(ANN), before, TABLE, OTHER_TABLE)
    assert await store.cache.fill(before, [answer], None)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    after = await store.moment(ANN)
    denied = entry(whole_name(ANN), after, TABLE, OTHER_TABLE, quiet=True)
    for _ in range(3):
        assert await store.cache.fill(after, [denied], None)
    if answered_again:
        again = entry(whole_name(ANN), after, TABLE, OTHER_TABLE)
        assert await store.cache.fill(after, [again], None)
        assert await store.cache.fill(after, [denied], None)
    told = () if answered_again else (ANN.key,)
    assert (await store.cache.evict(WORKSPACE, frozenset({TABLE}))).scope_keys == told


async def test_eviction_names_a_thousand_scopes_and_says_that_there_are_more(store: Store) -> None:
    moment = await store.moment(ANN)
    everyone = [scope(f"u{i}") for i in range(1_005)]
    for who in everyone:
        assert await store.cache.fill(moment, [entry(whole_name(who), moment)], None)
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert evicted.count == 1_005
    assert len(set(evicted.scope_keys)) == 1_000
    assert evicted.truncated
    assert set(evicted.scope_keys) < {who.key for who in everyone}
    assert (await store.look(everyone[0])).whole is None


async def test_what_a_denial_does_not_depend_on_tells_nothing_of_its_user(store: Store) -> None:
    """Although the answer before it did: once that was told to have ended, all is quiet."""
    before = await store.moment(ANN)
    answer = entry(whole_name(ANN), before, TABLE, OTHER_TABLE)
    assert await store.cache.fill(before, [answer], None)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    assert (await store.cache.evict(WORKSPACE, frozenset({TABLE}))).scope_keys == (ANN.key,)
    after = await store.moment(ANN)
    denied = entry(whole_name(ANN), after, TABLE, quiet=True)
    assert await store.cache.fill(after, [denied], None)
    evicted = await store.cache.evict(WORKSPACE, frozenset({OTHER_TABLE}))
    assert (evicted.count, evicted.scope_keys) == (0, ())
