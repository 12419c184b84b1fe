"""One suite for the cache, in memory and in Valkey: what is served, refused and taken back.

Numbers of races are those of docs/freshness.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from context_engine import keys
from context_engine.ports import Entry, Look, SessionRecord, SessionWrite
from tests.support.cache import (
    OTHER_TABLE,
    TABLE,
    WORKSPACE,
    MemoryStore,
    RedisStore,
    Store,
    entry,
    scope,
    surface_name,
    whole_name,
)

ANN, BOB = scope("ann"), scope("bob")


@pytest.fixture(params=["memory", "valkey"])
def url(request: pytest.FixtureRequest) -> str | None:
    """Of the Valkey that is asked; None for memory, which starts nothing."""
    return None if request.param == "memory" else str(request.getfixturevalue("redis_url"))


@pytest.fixture
async def store(url: str | None) -> AsyncIterator[Store]:
    if url is None:
        yield MemoryStore()
        return
    valkey = RedisStore(url)
    yield valkey
    await valkey.close()


@pytest.fixture
async def kept(store: Store) -> Entry:
    """Ann's whole context, filled and read once."""
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    seen = await store.look(ANN)
    assert seen.whole is not None
    return seen.whole


# -- entries -----------------------------------------------------------------------------------


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
    await store.cache.forget_everything()
    for who in everyone:
        assert (await store.look(who)).moment is None
        assert await store.cache.session(who) is not None


# -- sessions ----------------------------------------------------------------------------------


async def test_a_fill_keeps_the_session(store: Store) -> None:
    moment = await store.moment(ANN)
    assert await store.cache.session(ANN) is None
    assert await store.write_session(ANN, moment, b'{"tableIds":["t1"]}')
    kept = await store.cache.session(ANN)
    assert kept == SessionRecord(b'{"tableIds":["t1"]}', "a hash")


async def test_a_hit_keeps_the_session_with_the_hash_of_its_answer(
    store: Store, kept: Entry
) -> None:
    await store.look(ANN, session=b"coordinates")
    assert await store.cache.session(ANN) == SessionRecord(b"coordinates", kept.context_hash)


async def test_a_miss_or_a_surface_keeps_no_session(store: Store) -> None:
    """The answer is still to be given; its fill keeps the session."""
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(surface_name(ANN), moment)], None)
    assert (await store.look(ANN, session=b"coordinates")).surface is not None
    assert await store.cache.session(ANN) is None


async def test_one_session_id_of_two_users_is_two_sessions(store: Store) -> None:
    moment = await store.moment(ANN)
    await store.write_session(ANN, moment, b"ann's")
    assert ANN.session_id == BOB.session_id
    assert await store.cache.session(BOB) is None
    await store.write_session(BOB, moment, b"bob's")
    for who, coordinates in ((ANN, b"ann's"), (BOB, b"bob's")):
        kept = await store.cache.session(who)
        assert kept is not None
        assert kept.coordinates == coordinates


async def test_anothers_session_under_this_name_is_none(store: Store) -> None:
    await store.write_session(ANN, await store.moment(ANN))
    await store.put_in_place_of(keys.session_name(ANN), keys.session_name(BOB))
    assert await store.cache.session(BOB) is None


async def test_an_anonymous_scope_has_no_session(store: Store) -> None:
    nobody = scope("ann", session=None)
    moment = await store.moment(nobody)
    assert await store.cache.fill(moment, [entry(whole_name(nobody), moment)], None)
    assert await store.write_session(nobody, moment)
    assert (await store.look(nobody, session=b"coordinates")).whole is not None
    assert await store.cache.session(nobody) is None
    assert await store.cache.memory(nobody) is None
    assert not await store.has(keys.session_name(nobody))


async def test_a_session_ends_after_its_seconds_and_lives_on_when_used(store: Store) -> None:
    moment = await store.moment(ANN)
    long = Look(ANN, whole_name(ANN), surface_name(ANN), session=b"c", session_seconds=60)
    for who in (ANN, BOB):
        await store.cache.fill(moment, (), SessionWrite(who, b"c", "h", 1))
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    assert (await store.cache.look(long)).whole is not None
    await store.elapse(1_050)
    assert await store.cache.session(BOB) is None
    assert await store.cache.session(ANN) is not None


async def test_a_session_is_kept_even_where_the_answer_is_not(store: Store) -> None:
    """An edit during the build must not make the dialogue forget where it was."""
    moment = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    write = SessionWrite(ANN, b"coordinates", "a hash", 3600)
    assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment)], write)
    assert await store.cache.session(ANN) is not None


async def test_a_session_is_refused_after_its_users_access_changed(store: Store) -> None:
    """Else a slow build would bring the session of a removed member back for a day."""
    moment = await store.moment(ANN)
    await store.cache.mark(WORKSPACE, frozenset({keys.access("ann")}), create=True)
    await store.write_session(ANN, moment)
    await store.write_session(BOB, moment)
    assert await store.cache.session(ANN) is None
    assert await store.cache.session(BOB) is not None


async def test_a_session_is_refused_where_nothing_proves_the_membership(store: Store) -> None:
    moment = await store.moment(ANN)
    await store.cache.forget(WORKSPACE)
    await store.write_session(ANN, moment)
    assert await store.cache.session(ANN) is None


async def test_the_build_that_found_no_marks_keeps_its_session(store: Store) -> None:
    write = SessionWrite(ANN, b"coordinates", "a hash", 3600)
    await store.cache.found(WORKSPACE, write)
    assert await store.cache.session(ANN) == SessionRecord(b"coordinates", "a hash")


async def test_the_build_that_found_no_marks_keeps_none_once_something_changed(
    store: Store,
) -> None:
    """Whoever changed it made the marks: the change may have been the end of a membership."""
    await store.cache.mark(WORKSPACE, frozenset({keys.access("ann")}), create=True)
    await store.cache.found(WORKSPACE, SessionWrite(ANN, b"coordinates", "a hash", 3600))
    assert await store.cache.session(ANN) is None


async def test_ending_a_users_sessions_removes_both_halves_and_no_others(store: Store) -> None:
    moment = await store.moment(ANN)
    second = scope("ann", session="s2")
    for who in (ANN, second, BOB):
        memory = entry(keys.memory_name(who), moment, payload=b"summary")
        assert await store.write_session(who, moment, memory=memory)
    ended = await store.cache.end_sessions(WORKSPACE, "ann")
    assert ended.count == 4
    assert set(ended.scope_keys) == {ANN.key, second.key}
    for who in (ANN, second):
        assert await store.cache.session(who) is None
        assert await store.cache.memory(who) is None
        assert not await store.has(keys.memory_name(who))
    assert await store.cache.session(BOB) is not None
    assert await store.cache.memory(BOB) == "summary"


async def test_the_end_of_a_workspace_ends_everyones_sessions_in_it(store: Store) -> None:
    """Of that workspace only, whatever its id has in common with another's."""
    other = scope("ann", workspace=WORKSPACE + "*")
    for who in (ANN, BOB, other):
        assert await store.write_session(who, await store.moment(who))
    ended = await store.cache.end_sessions(WORKSPACE)
    assert set(ended.scope_keys) == {ANN.key, BOB.key}
    assert await store.cache.session(ANN) is None
    assert await store.cache.session(BOB) is None
    assert await store.cache.session(other) is not None
    assert (await store.cache.end_sessions(WORKSPACE)).count == 0


# -- derived text ------------------------------------------------------------------------------


async def test_derived_text_is_served_while_its_tags_are_unmarked(store: Store) -> None:
    moment, talk = await store.moment(ANN), keys.conversation("c1")
    memory = entry(keys.memory_name(ANN), moment, talk, payload="总结".encode())
    await store.write_session(ANN, moment, memory=memory)
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)
    assert await store.cache.memory(ANN) == "总结"
    assert await store.cache.memory(BOB) is None
    await store.cache.mark(WORKSPACE, frozenset({talk}), create=False)
    assert await store.cache.memory(ANN) is None


async def test_derived_text_of_another_reign_or_epoch_is_none(store: Store) -> None:
    for accident in ("reign", "marks"):
        moment = await store.moment(ANN)
        memory = entry(keys.memory_name(ANN), moment, payload=b"summary")
        await store.write_session(ANN, moment, memory=memory)
        assert await store.cache.memory(ANN) == "summary"
        if accident == "reign":
            await store.put_under_another_reign(keys.memory_name(ANN))
        else:
            await store.lose_marks(WORKSPACE)
            await store.cache.found(WORKSPACE)
        assert await store.cache.memory(ANN) is None


async def test_derived_text_is_written_only_by_the_check_of_a_fill(store: Store) -> None:
    """Else a build at clock 5 revives for a day what a change dropped at 6."""
    moment, talk = await store.moment(ANN), keys.conversation("c1")
    await store.cache.mark(WORKSPACE, frozenset({talk}), create=False)
    memory = entry(keys.memory_name(ANN), moment, talk)
    await store.write_session(ANN, moment, memory=memory)
    assert not await store.has(keys.memory_name(ANN))
    assert await store.cache.session(ANN) is not None


async def test_eviction_deletes_derived_text_and_leaves_the_coordinates(store: Store) -> None:
    moment, talk = await store.moment(ANN), keys.conversation("c1")
    memory = entry(keys.memory_name(ANN), moment, talk)
    await store.write_session(ANN, moment, memory=memory)
    evicted = await store.cache.evict(WORKSPACE, frozenset({talk}))
    assert (evicted.count, evicted.scope_keys) == (1, (ANN.key,))
    assert not await store.has(keys.memory_name(ANN))
    assert await store.cache.session(ANN) is not None


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


async def test_a_fill_across_workspaces_is_refused_as_a_mistake(store: Store) -> None:
    """One workspace's clock says nothing about another's."""
    moment, there = await store.moment(ANN), scope("ann", workspace="w2")
    mixed = [entry(whole_name(ANN), moment), entry(whole_name(there), moment)]
    with pytest.raises(ValueError, match="several workspaces"):
        await store.cache.fill(moment, mixed, None)
    assert (await store.look(ANN)).whole is None


async def test_the_store_answers(store: Store) -> None:
    await store.cache.ping()
