"""Sessions: the coordinates, which are kept a day, and the derived text, which must be proven."""

from __future__ import annotations

from context_engine import keys
from context_engine.ports import Entry, Look, SessionRecord, SessionWrite
from tests.support.cache import (
    ANN,
    BOB,
    TABLE,
    WORKSPACE,
    Store,
    entry,
    scope,
    surface_name,
    whole_name,
)


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


async def test_a_look_that_assumed_another_session_reads_no_entry(
    store: Store, kept: Entry
) -> None:
    """It learns what the session keeps, which stays as it is; names are made over that."""
    assert kept.context_hash
    await store.write_session(ANN, await store.moment(ANN), b"what it keeps")
    look = Look(ANN, whole_name(ANN), surface_name(ANN), session=b"assumed", assumed=True)
    seen = await store.cache.look(look)
    assert seen.moment is not None
    assert (seen.whole, seen.surface) == (None, None)
    assert seen.session == SessionRecord(b"what it keeps", "a hash")
    assert await store.cache.session(ANN) == seen.session


async def test_a_look_that_assumed_right_is_the_only_one(store: Store, kept: Entry) -> None:
    """Right is a session that keeps the very coordinates, and none at all."""
    look = Look(ANN, whole_name(ANN), surface_name(ANN), session=b"coordinates", assumed=True)
    first, second = await store.cache.look(look), await store.cache.look(look)
    assert first.whole is not None
    assert first.session is None
    assert second.whole is not None
    assert second.session == SessionRecord(b"coordinates", kept.context_hash)


async def test_a_session_is_read_without_marks(store: Store) -> None:
    """Continuity outlives the marks; nothing is proven by it."""
    await store.write_session(ANN, await store.moment(ANN), b"kept")
    await store.lose_marks(WORKSPACE)
    seen = await store.look(ANN)
    assert seen.moment is None
    assert seen.session == SessionRecord(b"kept", "a hash")
