"""What a cache is asked and what it holds, counted: looks that read a layer, and only those."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from context_engine import keys
from context_engine.adapters.counted import CacheCounts, CountedCache
from context_engine.adapters.memory import MemoryCache
from context_engine.errors import Unavailable
from context_engine.ports import ContextCache, Entry, Evicted, Look, Seen, SessionRecord

pytestmark = pytest.mark.unit

LOOK = Look(keys.scope_of("w", "ana", "s", None), "whole", "surface", session=b"here", assumed=True)
SEEN = Seen(None, 0)
ENTRY = Entry(b"c\n{}", 1, 0, 300_000)
HERE, ELSEWHERE = SessionRecord(b"here", "h"), SessionRecord(b"elsewhere", "h")


def figures(counts: CacheCounts) -> dict[str, tuple[int, int]]:
    layers = {"whole": counts.whole, "surface": counts.surface, "session": counts.session}
    return {name: (one.hits, one.misses) for name, one in layers.items() if one.hits + one.misses}


@pytest.mark.parametrize(
    ("look", "seen", "counted"),
    [
        (LOOK, replace(SEEN, session=HERE, whole=ENTRY), {"whole": (1, 0), "session": (1, 0)}),
        (
            LOOK,
            replace(SEEN, surface=ENTRY),
            {"whole": (0, 1), "surface": (1, 0), "session": (0, 1)},
        ),
        (LOOK, SEEN, {"whole": (0, 1), "surface": (0, 1), "session": (0, 1)}),
        (LOOK, replace(SEEN, session=ELSEWHERE), {"session": (1, 0)}),
        (replace(LOOK, assumed=False), replace(SEEN, session=ELSEWHERE, whole=ENTRY),
         {"whole": (1, 0)}),
        (replace(LOOK, skip_entries=True), SEEN, {"session": (0, 1)}),
        (replace(LOOK, session=None), SEEN, {"whole": (0, 1), "surface": (0, 1)}),
        (LOOK, replace(SEEN, led=True), {"session": (0, 1)}),
    ],
    ids=["hit", "surface", "nothing", "another session", "the second look", "past it",
         "no session", "another builds"],
)  # fmt: skip
async def test_a_look_counts_for_the_layers_that_it_read(
    look: Look, seen: Seen, counted: dict[str, tuple[int, int]]
) -> None:
    """A session once a request; entries where they were looked for; who waits will look again."""

    class Store:
        async def look(self, _: Look) -> Seen:
            return seen

    cache = CountedCache(cast("ContextCache", Store()))
    assert await cache.look(look) is seen
    assert figures(cache.counts) == counted


async def test_what_falls_is_counted_and_a_store_that_is_away_is_told() -> None:
    """Entries and sessions apart; the error goes on as it came."""

    class Store:
        async def look(self, _: Look) -> Seen:
            raise Unavailable("redis", "is away")

        async def evict(self, *_: Any) -> Evicted:
            return Evicted(3, (), truncated=False)

        async def end_sessions(self, *_: Any) -> Evicted:
            return Evicted(2, (), truncated=False)

    cache = CountedCache(cast("ContextCache", Store()))
    await cache.evict("w", frozenset())
    await cache.end_sessions("w", "ana")
    with pytest.raises(Unavailable, match="is away"):
        await cache.look(LOOK)
    assert (cache.counts.evicted, cache.counts.sessions_ended, cache.counts.away) == (3, 2, 1)


async def test_all_else_is_the_cache_itself() -> None:
    """A round of a build through it leaves and finds what it does without it."""
    inner = MemoryCache()
    cache: ContextCache = CountedCache(inner)
    marked = await cache.mark("w", frozenset(), create=True)
    assert marked.clock is not None
    assert [one.clock for one in await cache.mark_many([("w", frozenset())])] == [marked.clock + 1]
    moment = (await cache.look(LOOK)).moment
    assert moment is not None
    assert moment == replace((await inner.look(LOOK)).moment or moment, now_ms=moment.now_ms)
    await cache.forget("w")
    assert (await cache.look(LOOK)).moment is None
    await cache.ping()
