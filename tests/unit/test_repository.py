"""What the three layers are asked for: names, lives, what is stored, and what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from context_engine import keys
from context_engine.coordinates import Effective, kept
from context_engine.errors import Unavailable
from context_engine.keys import Coordinates, Rendering
from context_engine.models.input import ContextBuildInput
from context_engine.ports import NewEntry, SessionWrite, SnapshotRecord
from context_engine.repository import BYPASSED, Lifetimes, Names, Remarks, names_of
from tests.support.scripted import MOMENT, NOW_MS, ScriptedCache, over, seen, stored

AT = Coordinates("w", "u", session_id="s", table_ids=("t",))
EFFECTIVE = Effective(AT, ("table_ids",))
HOW = Rendering("zh", "Asia/Tokyo", 20, 6_000)
SCOPE = keys.scope_of("w", "u", "s", None)
NOBODY = keys.scope_of("w", "u", None, None)
ASKED = ContextBuildInput(
    user_id="u", workspace_id="w", session_id="s", message="hello", metadata={"a": 1}
)
NAMES = Names(SCOPE, keys.whole_name(SCOPE, "k"), keys.surface_name("w", "k"))
TAGS = frozenset({keys.rows("t"), keys.access("u")})


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_an_answer_is_named_by_all_that_can_change_it(strict: bool) -> None:
    """The surface by what no session, message or way of asking changes."""
    names = names_of(SCOPE, ASKED, EFFECTIVE, HOW, strict=strict)
    whole = keys.whole_key(
        SCOPE, AT, HOW, "hello", {"a": 1}, inherited=("table_ids",), strict=strict
    )
    assert names.scope is SCOPE
    assert names.whole == keys.whole_name(SCOPE, whole)
    assert names.surface == keys.surface_name("w", keys.surface_key(AT, HOW))


# -- remarks -----------------------------------------------------------------------------------


def test_what_was_passing_is_said_once() -> None:
    """Every condition in its own words, in the order in which they came."""
    remarks, away = Remarks(), Unavailable("redis", "is away")
    assert (remarks.said, remarks.bypassed) == ([], False)
    for _ in range(2):
        remarks.cache_away("reading", away)
        remarks.bypass()
    remarks.unproven_write()
    remarks.cache_away("writing", away)
    assert remarks.bypassed is True
    assert remarks.said == [
        "cache away while reading: redis",
        BYPASSED,
        "built anew: a write that the request names is not proven applied",
        "cache away while writing: redis",
    ]


# -- looking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("assumed", [False, True])
async def test_a_look_asks_for_its_names_and_keeps_the_session(fresh: bool, assumed: bool) -> None:
    """For as long as sessions live; `fresh` reads no entry, whatever the names assume. It takes the
    lead where that is asked for."""
    cache = ScriptedCache([seen(whole=stored())])
    repository, _ = over(cache, session=timedelta(hours=2))
    remarks = Remarks()
    found = await repository.look(
        NAMES, EFFECTIVE, remarks, fresh=fresh, assumed=assumed, lead=not assumed
    )
    [look] = cache.looks
    assert found is cache.finds[0]
    assert (look.scope, look.whole, look.surface) == (SCOPE, NAMES.whole, NAMES.surface)
    assert (look.session, look.session_seconds) == (kept(AT), 7_200)
    assert (look.skip_entries, look.assumed, look.lead) == (fresh, assumed, not assumed)
    assert remarks.said == []


async def test_who_has_no_session_keeps_none() -> None:
    cache = ScriptedCache()
    names = Names(NOBODY, NAMES.whole, NAMES.surface)
    await over(cache)[0].look(names, EFFECTIVE, Remarks(), fresh=False, assumed=True, lead=False)
    assert cache.looks[0].session is None
    assert cache.looks[0].session_seconds == 86_400


async def test_a_cache_that_is_away_finds_nothing_and_is_owned_up_to() -> None:
    repository, _ = over(ScriptedCache(away=True))
    remarks = Remarks()
    found = await repository.look(NAMES, EFFECTIVE, remarks, fresh=False, assumed=True, lead=True)
    assert found is None
    assert (remarks.said, remarks.bypassed) == (["cache away while reading: redis"], False)


# -- the life of an entry ----------------------------------------------------------------------


def made(lifetimes: dict[str, Any] | None = None, /, **more: Any) -> NewEntry:
    repository, _ = over(ScriptedCache(), **(lifetimes or {}))
    entry = repository.entry("name", b"payload", TAGS, seen(), **more)
    assert entry is not None
    return entry


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW_MS / 1000 + seconds, UTC)


def test_an_entry_holds_what_its_build_began_with() -> None:
    """The clock and the time of its look: what happens later is not in it."""
    assert made(context_hash="h", quiet=True) == NewEntry(
        "name", b"payload", TAGS, 7, NOW_MS, NOW_MS + 300_000, "h", True
    )
    assert (made().context_hash, made().quiet) == ("", False)


def test_without_marks_nothing_is_stored() -> None:
    """Nothing says what such a build has missed."""
    repository, _ = over(ScriptedCache())
    assert repository.entry("name", b"", TAGS, seen(moment=None)) is None


@pytest.mark.parametrize(
    ("lifetimes", "more", "seconds"),
    [
        ({}, {}, 300),
        ({"cache": timedelta(seconds=60)}, {}, 60),
        ({}, {"passing": True}, 5),
        ({"cache": timedelta(seconds=2)}, {"passing": True}, 2),
        ({}, {"until": at(20)}, 20),
        ({}, {"until": at(0.5)}, 0.5),
        ({}, {"until": at(400)}, 300),
        ({}, {"until": at(20), "passing": True}, 5),
        ({}, {"surface": stored(age_ms=100_000)}, 200),
        ({}, {"surface": stored(expires_ms=NOW_MS + 400_000)}, 300),
        ({}, {"surface": stored(age_ms=100_000), "until": at(20)}, 20),
    ],
    ids=str,
)
def test_an_entry_ends_by_the_first_of_its_reasons(
    lifetimes: dict[str, Any], more: dict[str, Any], seconds: float
) -> None:
    """Its layer's life, a section that passes, a day that turns, the surface that it is made of;
    counted from the start of its build, never sliding."""
    assert made(lifetimes, **more).expires_ms == NOW_MS + seconds * 1_000


def test_what_is_made_of_a_surface_is_no_younger() -> None:
    """The lower clock and the earlier start; a surface that knows more lends it nothing."""
    older = made(surface=stored(age_ms=1_000, clock=5))
    assert (older.clock, older.built_ms) == (5, NOW_MS - 1_000)
    newer = made(surface=stored(age_ms=-1_000, clock=9))
    assert (newer.clock, newer.built_ms) == (7, NOW_MS)


# -- keeping -----------------------------------------------------------------------------------

SESSION = SessionWrite(SCOPE, b"{}", "h", 60)


async def test_what_was_answered_is_stored_under_the_clock_of_its_look() -> None:
    cache, entries = ScriptedCache(), [made()]
    await over(cache)[0].keep(seen(), entries, SESSION, SCOPE)
    assert cache.filled == [(MOMENT, entries, SESSION)]
    assert cache.founded == []


async def test_where_there_are_no_marks_they_are_made_and_nothing_else() -> None:
    """But for the session, since its turn must not be forgotten."""
    cache = ScriptedCache()
    await over(cache)[0].keep(seen(moment=None), [made()], SESSION, SCOPE)
    assert (cache.filled, cache.founded) == ([], [("w", SESSION)])


async def test_a_cache_that_is_away_changes_no_answer() -> None:
    """Nor one that was away when it was looked into: then nothing is known to store it under."""
    for found in (seen(), seen(moment=None)):
        await over(ScriptedCache(away=True))[0].keep(found, [made()], SESSION, SCOPE)
    cache = ScriptedCache()
    await over(cache)[0].keep(None, [made()], SESSION, SCOPE)
    assert (cache.filled, cache.founded) == ([], [])


def test_a_session_keeps_the_coordinates_that_held() -> None:
    """With the hash that it was answered with and its derived text; nobody's keeps nothing."""
    repository, _ = over(ScriptedCache(), session=timedelta(minutes=3))
    memory = made()
    written = repository.session_write(EFFECTIVE, SCOPE, "h", memory)
    assert written == SessionWrite(SCOPE, kept(AT), "h", 180, memory)
    assert repository.session_write(EFFECTIVE, NOBODY, "h", memory) is None


def test_layers_live_as_long_as_is_documented() -> None:
    assert Lifetimes() == Lifetimes(timedelta(minutes=5), timedelta(days=1))


class Broken:
    """A store of evidence that is away."""

    async def save(self, record: SnapshotRecord) -> None:
        raise Unavailable("postgres", "is away")

    async def get(self, context_id: str) -> SnapshotRecord | None:
        raise Unavailable("postgres", "is away")


async def test_evidence_is_kept_or_the_answer_is_not_given() -> None:
    record = SnapshotRecord(
        "c", "h", "w", "u", SCOPE.key, "build", "summary", b"{}", {}, {}, at(0)
    )  # fmt: skip
    repository, snapshots = over(ScriptedCache())
    await repository.evidence(record)
    assert await snapshots.get("c") is record
    repository._snapshots = Broken()
    with pytest.raises(Unavailable, match="postgres"):
        await repository.evidence(record)
