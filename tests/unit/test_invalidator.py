"""How changes are applied: marked first, then unlinked, whose sessions end, what is forgotten."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.changes import (
    AnyChange,
    MemberChanged,
    UserChanged,
    WorkspaceChanged,
)
from context_engine.invalidation import MAX_SCOPE_KEYS, Invalidator, _joined
from context_engine.keys import Scope
from context_engine.ports import Evicted, Look, NewEntry, SessionWrite

HERE = {"workspace_id": "w"}


class World:
    """A cache with one context, one session and its memory for each user of each workspace."""

    def __init__(self) -> None:
        self.cache = MemoryCache()
        self.invalidator = Invalidator(self.cache)

    async def furnish(self, *scopes: Scope) -> None:
        for scope in scopes:
            await self.cache.found(scope.workspace_id)
            await self.keep(scope)

    async def keep(self, scope: Scope) -> None:
        moment = (await self.cache.look(_look(scope))).moment
        assert moment is not None
        tags = frozenset({keys.EVERYTHING, keys.WORKSPACE, keys.access(scope.user_id)})

        def entry(name: str) -> NewEntry:
            ends = moment.now_ms + 300_000
            return NewEntry(name, b"text", tags, moment.clock, moment.now_ms, ends)

        memory = entry(keys.memory_name(scope))
        session = SessionWrite(scope, b"{}", "", 3_600, memory)
        assert await self.cache.fill(moment, [entry(_look(scope).whole)], session)

    async def has(self, scope: Scope) -> bool:
        return (await self.cache.look(_look(scope))).whole is not None

    async def apply(self, *changes: AnyChange) -> list[tuple[int, set[str]]]:
        marks = await self.invalidator.mark(changes)
        done = [
            await self.invalidator.evict(change, mark)
            for change, mark in zip(changes, marks, strict=True)
        ]
        return [(one.evicted.count, set(one.evicted.scope_keys)) for one in done]


def _look(scope: Scope) -> Look:
    whole = keys.whole_name(scope, keys.digest("one"))
    return Look(scope, whole, keys.surface_name(scope.workspace_id, "none"))


def scope(user: str = "u", workspace: str = "w") -> Scope:
    return keys.scope_of(workspace, user, "s", None)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.furnish(scope("u"), scope("x"), scope("u", "other"))
    return made


async def test_a_batch_is_marked_before_anything_is_unlinked(world: World) -> None:
    """Once `mark` has returned nothing of the batch is served, though all of it still lies there.

    Both changes are of one workspace: the second must not wait for the first one's eviction.
    """
    changes = [MemberChanged(**HERE, user_id=user, op="updated") for user in "ux"]
    await world.invalidator.mark(changes)
    assert not await world.has(scope("u"))
    assert not await world.has(scope("x"))
    assert len(world.cache.entries) == 6


async def test_what_was_unlinked_is_told_by_scope(world: World) -> None:
    told = await world.apply(MemberChanged(**HERE, user_id="u", op="updated"))
    assert told == [(2, {scope("u").key})]
    assert await world.has(scope("x"))
    assert await world.has(scope("u", "other"))
    assert await world.cache.session(scope("u")) is not None, "no membership ended"


@pytest.mark.parametrize(
    "change",
    [
        MemberChanged(**HERE, user_id="u", op="removed"),
        UserChanged(**HERE, user_id="u", op="deleted"),
    ],
    ids=lambda change: change.type,
)
async def test_sessions_end_with_the_membership(world: World, change: AnyChange) -> None:
    """Those of that user, in that workspace."""
    [(_, scopes)] = await world.apply(change)
    assert scopes == {scope("u").key}
    assert await world.cache.session(scope("u")) is None
    assert await world.cache.memory(scope("u")) is None
    assert await world.cache.session(scope("x")) is not None
    assert await world.cache.session(scope("u", "other")) is not None


async def test_an_announcement_names_so_many_scopes_and_says_that_there_are_more() -> None:
    """Contexts and sessions together, each scope once."""
    world, change = World(), WorkspaceChanged(**HERE, op="deleted")
    for count in (MAX_SCOPE_KEYS, MAX_SCOPE_KEYS + 1):
        scopes = [scope(f"u{number}") for number in range(count)]
        await world.furnish(*scopes)
        [mark] = await world.invalidator.mark([change])
        applied = await world.invalidator.evict(change, mark)
        assert (applied.change, applied.mark) == (change, mark)
        assert applied.tags == frozenset({keys.WORKSPACE})
        told = applied.evicted
        assert told.count == 3 * count, "the context, the session, and its text"
        assert told.truncated is (count > MAX_SCOPE_KEYS)
        assert len(set(told.scope_keys)) == len(told.scope_keys) == MAX_SCOPE_KEYS
        assert set(told.scope_keys) <= {one.key for one in scopes}


@pytest.mark.parametrize("cut", [(True, False), (False, True), (False, False)])
def test_what_was_cut_of_a_part_is_cut_of_the_whole(cut: tuple[bool, bool]) -> None:
    first, second = (
        Evicted(number, (f"s{number}", "both"), one)
        for number, one in zip((2, 3), cut, strict=True)
    )
    assert _joined(first, second) == Evicted(5, ("s2", "both", "s3"), any(cut))


async def test_a_workspace_that_ends_takes_everyones_sessions(world: World) -> None:
    """A build that began before cannot bring one back."""
    late = (await world.cache.look(_look(scope("x")))).moment
    assert late is not None
    [(_, scopes)] = await world.apply(WorkspaceChanged(**HERE, op="deleted"))
    assert scopes == {scope("u").key, scope("x").key}
    await world.cache.fill(late, (), SessionWrite(scope("x"), b"{}", "", 3_600))
    assert await world.cache.session(scope("u")) is None
    assert await world.cache.session(scope("x")) is None
    assert await world.cache.session(scope("u", "other")) is not None


async def test_applying_again_changes_nothing_newer(world: World) -> None:
    """Redelivered, a change ends at most what was built before: no entry comes back older."""
    change = MemberChanged(**HERE, user_id="u", op="updated")
    await world.apply(change)
    await world.keep(scope("u"))
    assert await world.has(scope("u"))
    await world.apply(change)
    assert not await world.has(scope("u")), "wide, and harmless: it is built again"
    await world.keep(scope("u"))
    assert await world.has(scope("u"))


async def test_a_mark_where_nothing_is_cached_makes_nothing(world: World) -> None:
    """The consumer makes no hash of marks: there is nothing to end."""
    change = WorkspaceChanged(workspace_id="cold", op="updated")
    [mark] = await world.invalidator.mark([change])
    assert mark.clock is None
    assert "cold" not in world.cache.marks


@pytest.mark.parametrize(
    ("unknown", "gone"), [(["w"], {"w"}), (["w", "other"], {"w", "other"}), ([], {"w", "other"})]
)
async def test_what_nobody_understands_ends_its_workspace_or_everything(
    world: World, unknown: Iterable[str], gone: set[str]
) -> None:
    """Contexts end; where the user was working is not forgotten."""
    await world.invalidator.mark_unknown(unknown)
    for workspace in ("w", "other"):
        assert await world.has(scope("u", workspace)) is (workspace not in gone)
        assert await world.cache.session(scope("u", workspace)) is not None


async def test_all_of_an_unknown_workspace_is_unlinked(world: World) -> None:
    evicted = await world.invalidator.evict_unknown("w")
    assert set(evicted.scope_keys) == {scope("u").key, scope("x").key}
    assert await world.has(scope("u", "other"))
