"""What is kept of a request: which entries, with which tags and lives, in which session."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from context_engine import keys
from context_engine.access import Denied
from context_engine.asked import DEFAULTS, Asked
from context_engine.built import Built, Surfaced
from context_engine.coordinates import effective, kept
from context_engine.keeping import Keeper
from context_engine.keys import Rendering
from context_engine.models.input import ContextBuildInput
from context_engine.ports import NewEntry, SessionWrite, SnapshotRecord
from context_engine.rendering import Rendered, denial
from context_engine.repository import Remarks, names_of
from tests.support.scripted import MOMENT, NOW_MS, ScriptedCache, over, seen, stored

OF_SURFACE = frozenset({keys.rows("t")})
OF_DIALOGUE = frozenset({keys.conversation("c")})
SURFACED = Surfaced(
    surface=Rendered({"user": "{}"}, {}, (), "en", (), frozenset()),
    tags=OF_SURFACE,
    source="build",
    dialogue_tags=OF_DIALOGUE,
)
BUILT = Built(
    context_id="id",
    context_hash="hash",
    source="build",
    payload=b'id\n{"workspaceId":"w"}',
    kept=b'id\n{"kept":true}',
    generated_at=datetime(2026, 1, 7, tzinfo=UTC),
    summary="summary",
    compression={"strategy": "x"},
    operator_trace={"denials": []},
    memory="derived text",
)
CACHED = stored(age_ms=100_000, clock=5)
"""A surface out of the cache."""


def asked(**more: Any) -> Asked:
    """A request in a session, over one table."""
    given = {"userId": "u", "workspaceId": "w", "sessionId": "s", "tableIds": ["t"]} | more
    request = ContextBuildInput.model_validate(given)
    scope = keys.scope_of("w", "u", request.session_id, request.conversation_id)
    own, how = effective(request, None), Rendering("en", None, 20, 6_000)
    names = names_of(scope, request, own, how, strict=False)
    return Asked(request, DEFAULTS, scope, own, names, Remarks(), None, "request", "trace")


ASKED = asked()


async def answered(
    surfaced: Surfaced = SURFACED, of: Asked = ASKED, **more: Any
) -> tuple[list[NewEntry], SessionWrite | None]:
    """What `Keeper.answer` fills the cache with."""
    cache = ScriptedCache()
    await Keeper(over(cache)[0]).answer(of, seen(), surfaced, replace(BUILT, **more))
    [(moment, entries, session)] = cache.filled
    assert moment is MOMENT
    return list(entries), session


async def denied(
    known: Surfaced | None, refused: Denied | None = None
) -> tuple[list[NewEntry], SessionWrite | None]:
    cache = ScriptedCache()
    refused = refused or Denied("table", "t", {keys.access("u")})
    await Keeper(over(cache)[0]).denial(ASKED, seen(), known, refused)
    [(_, entries, session)] = cache.filled
    return list(entries), session


async def test_an_answer_keeps_its_surface_and_its_whole() -> None:
    """The surface with its own tags; the whole with the dialogue's too, its hash, and without the
    remarks of its moment."""
    [surface, whole], _ = await answered()
    assert (surface.name, surface.payload) == (ASKED.names.surface, SURFACED.surface.payload)
    assert (surface.tags, surface.context_hash, surface.quiet) == (OF_SURFACE, "", False)
    assert (whole.name, whole.payload) == (ASKED.names.whole, BUILT.kept)
    assert (whole.tags, whole.context_hash) == (OF_SURFACE | OF_DIALOGUE, "hash")
    assert not whole.quiet
    for one in (surface, whole):
        assert (one.clock, one.built_ms, one.expires_ms) == (7, NOW_MS, NOW_MS + 300_000)


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"passing": True}, 5),
        ({"until": datetime.fromtimestamp(NOW_MS / 1000 + 40, UTC)}, 40),
    ],
    ids=str,
)
async def test_what_ends_the_surface_ends_all_that_is_made_of_it(
    more: dict[str, Any], seconds: int
) -> None:
    """A section that passes, or a day that turns: the whole, and the session's derived text."""
    entries, session = await answered(replace(SURFACED, **more))
    assert session is not None
    assert session.memory is not None
    assert {one.expires_ms - NOW_MS for one in (*entries, session.memory)} == {seconds * 1_000}


async def test_over_a_cached_surface_nothing_outlives_it() -> None:
    """It is not stored again; what is made of it has its clock and its end."""
    [whole], session = await answered(replace(SURFACED, over=CACHED, passing=True))
    assert session is not None
    assert session.memory is not None
    for one in (whole, session.memory):
        assert (one.clock, one.built_ms) == (5, NOW_MS - 100_000)
        assert one.expires_ms == NOW_MS + 200_000
    assert whole.name == ASKED.names.whole


async def test_a_dialogue_that_withholds_for_now_ends_the_whole() -> None:
    """Over a surface that lives on: what a tool found may be shown soon, with no event."""
    for over_ in (CACHED, None):
        found = replace(SURFACED, over=over_, dialogue_passing=True)
        [*_, whole], _ = await answered(found)
        assert whole.name == ASKED.names.whole
        assert whole.expires_ms == NOW_MS + 5_000


async def test_a_session_keeps_coordinates_and_derived_text() -> None:
    """The text under its own name, with all that it depends on."""
    _, session = await answered()
    assert session is not None
    memory = session.memory
    assert replace(session, memory=None) == SessionWrite(
        ASKED.scope, kept(ASKED.effective.at), "hash", int(timedelta(days=1).total_seconds())
    )
    assert memory is not None
    assert (memory.name, memory.payload) == (keys.memory_name(ASKED.scope), b"derived text")
    assert (memory.tags, memory.quiet) == (OF_SURFACE | OF_DIALOGUE, False)


async def test_without_a_text_or_a_session_none_is_kept() -> None:
    _, session = await answered(memory=None)
    assert session is not None
    assert session.memory is None
    entries, session = await answered(of=asked(sessionId=None))
    assert session is None
    assert len(entries) == 2


async def test_without_marks_no_entry_is_made_but_the_session_is_kept() -> None:
    cache = ScriptedCache()
    await Keeper(over(cache)[0]).answer(ASKED, seen(moment=None), SURFACED, BUILT)
    [(workspace, session)] = cache.founded
    assert (workspace, cache.filled) == ("w", [])
    assert session is not None
    assert (session.memory, session.context_hash) == (None, "hash")


async def test_where_the_cache_was_away_nothing_is_kept() -> None:
    cache = ScriptedCache()
    keeper = Keeper(over(cache)[0])
    await keeper.answer(ASKED, None, SURFACED, BUILT)
    await keeper.denial(ASKED, None, SURFACED, Denied("table", "t", ()))
    assert (cache.filled, cache.founded) == ([], [])


# -- denials -----------------------------------------------------------------------------------


async def test_a_denial_stands_in_the_place_of_the_answer() -> None:
    """Under the tags of what was refused, without a hash, and nobody is told when it falls. The
    session keeps nothing of it."""
    [surface, whole], session = await denied(replace(SURFACED, passing=True))
    assert session is None
    assert (whole.name, whole.tags) == (ASKED.names.whole, frozenset({keys.access("u")}))
    assert (whole.context_hash, whole.quiet, surface.quiet) == ("", True, True)
    refused = denial(whole.payload)
    assert refused is not None
    assert (refused.kind, refused.id) == ("table", "t")
    assert (surface.name, surface.tags) == (ASKED.names.surface, OF_SURFACE)
    assert whole.expires_ms == surface.expires_ms == NOW_MS + 5_000


async def test_a_denial_over_a_cached_surface_ends_with_it() -> None:
    [whole], _ = await denied(replace(SURFACED, over=CACHED))
    assert (whole.name, whole.clock) == (ASKED.names.whole, 5)
    assert whole.expires_ms == NOW_MS + 200_000


async def test_a_denial_before_anything_was_read_is_kept_alone() -> None:
    """Such as that of an agent of the stack."""
    [whole], _ = await denied(None, Denied("agent", "a", {keys.agent("a")}))
    assert (whole.name, whole.expires_ms) == (ASKED.names.whole, NOW_MS + 300_000)
    assert whole.tags == frozenset({keys.agent("a")})


async def test_a_denial_without_marks_is_not_kept() -> None:
    cache = ScriptedCache()
    refused = Denied("table", "t", ())
    await Keeper(over(cache)[0]).denial(ASKED, seen(moment=None), SURFACED, refused)
    assert (cache.filled, cache.founded) == ([], [("w", None)])


# -- evidence ----------------------------------------------------------------------------------


async def test_evidence_is_all_that_was_told_and_by_whom_it_was_asked() -> None:
    """The context as it travelled: new, whatever its age may be when it comes out of the cache."""
    repository, snapshots = over(ScriptedCache())
    await Keeper(repository).evidence(ASKED, replace(BUILT, source="surface"))
    assert await snapshots.get("id") == SnapshotRecord(
        context_id="id",
        context_hash="hash",
        workspace_id="w",
        user_id="u",
        scope_key=ASKED.scope.key,
        source="surface",
        summary="summary",
        context=b'{"source":"surface","ageMs":0,"workspaceId":"w"}',
        compression={"strategy": "x"},
        operator_trace={"denials": []},
        generated_at=BUILT.generated_at,
        request_id="request",
        trace_id="trace",
    )
