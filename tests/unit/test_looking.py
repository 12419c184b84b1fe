"""Looking into the cache: by which names, how often, and what of it may answer a request."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from context_engine import keys
from context_engine.asked import DEFAULTS, Options
from context_engine.built import Limits
from context_engine.coordinates import effective, kept
from context_engine.errors import NotFound
from context_engine.keys import Rendering
from context_engine.liveness import Assumed, Proven
from context_engine.looking import Looked, Looking
from context_engine.models.input import ContextBuildInput
from context_engine.ports import Epoch, Place, Reign, SessionRecord
from context_engine.rendering import denied
from context_engine.repository import BYPASSED, names_of
from context_engine.tokens import AppliedMark, Published, Unproven
from tests.support.scripted import REIGN, ScriptedCache, over, seen, stored

LIMITS = Limits(messages=7, compression_chars=900)
HOW = Rendering("zh", "Asia/Tokyo", 7, 900)
UNPROVEN = "built anew: a write that the request names is not proven applied"
BOTH = {"whole": stored(b"id\n{}", context_hash="h"), "surface": stored(b"surface")}
LIVE = Proven(frozenset({REIGN}), {Place("t", 0): 10})


@dataclass
class Proofs:
    """What is proven, each time somebody asks; the last again and again."""

    each: list[Proven | None]
    asked_at: list[float] = field(default_factory=list)

    async def proven(self) -> Proven | None:
        self.asked_at.append(time.monotonic())
        return self.each[min(len(self.asked_at), len(self.each)) - 1]


def request(**more: Any) -> ContextBuildInput:
    given = {"userId": "u", "workspaceId": "w", "sessionId": "s", "tableIds": ["t"],
             "locale": "zh", "timezone": "Asia/Tokyo"}  # fmt: skip
    return ContextBuildInput.model_validate(given | more)


OWN = effective(request(), None)
SCOPE = keys.scope_of("w", "u", "s", None)


async def first(
    cache: ScriptedCache, options: Options = DEFAULTS, liveness: Any = None, of: Any = None
) -> Looked:
    by = Looking(over(cache)[0], LIMITS, liveness or Assumed())
    return await by.first(by.asked(of or request(), options, "request", "trace"))


# -- names and looks ---------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
async def test_the_first_look_takes_the_requests_own_coordinates(strict: bool) -> None:
    """By names over all that the engine and the request go by; nothing is known of a session."""
    cache = ScriptedCache()
    looked = await first(cache, Options(strict=strict))
    [look] = cache.looks
    names = names_of(SCOPE, request(), OWN, HOW, strict=strict)
    assert (look.scope, look.whole, look.surface) == (SCOPE, names.whole, names.surface)
    assert (look.session, look.assumed, look.skip_entries) == (kept(OWN.at), True, False)
    asked = looked.asked
    assert (asked.scope, asked.effective, asked.names) == (SCOPE, OWN, names)
    assert (asked.request_id, asked.trace_id, asked.last_hash) == ("request", "trace", None)
    assert (asked.request, asked.options) == (request(), Options(strict=strict))
    assert looked.seen is cache.finds[0]


async def test_a_conversation_is_a_scope_where_there_is_no_session() -> None:
    await first(cache := ScriptedCache(), of=request(sessionId=None, conversationId="c"))
    assert cache.looks[0].scope == keys.scope_of("w", "u", None, "c")


async def test_a_session_that_keeps_what_the_request_says_needs_no_other_look() -> None:
    """But the context that it was answered with before is told."""
    cache = ScriptedCache([seen(SessionRecord(kept(OWN.at), "last"), **BOTH)])
    looked = await first(cache)
    assert len(cache.looks) == 1
    assert (looked.asked.last_hash, looked.asked.effective) == ("last", OWN)
    assert looked.seen is cache.finds[0]


async def test_a_session_that_keeps_more_is_looked_for_by_what_it_keeps() -> None:
    session = SessionRecord(b'{"project_id":"p"}', "last")
    cache = ScriptedCache([seen(session), seen(session, **BOTH)])
    looked = await first(cache)
    found = effective(request(), session.coordinates)
    names = names_of(SCOPE, request(), found, HOW, strict=False)
    assert found.inherited == ("project_id",)
    assert (looked.asked.effective, looked.asked.names) == (found, names)
    assert looked.asked.last_hash == "last"
    assert looked.seen is cache.finds[1]
    _, look = cache.looks
    assert (look.whole, look.surface, look.assumed) == (names.whole, names.surface, False)
    assert look.session == kept(found.at)


async def test_whoever_wants_it_fresh_needs_the_session_alone() -> None:
    """No entry is read; where the session keeps more, that is known by the first look."""
    session = SessionRecord(b'{"project_id":"p"}', "last")
    cache = ScriptedCache([seen(session), seen(session, **BOTH)])
    looked = await first(cache, Options(fresh=True))
    [look] = cache.looks
    assert look.skip_entries
    assert looked.seen is cache.finds[0]
    assert looked.past == "asked"
    assert looked.asked.effective.inherited == ("project_id",)


async def test_a_cache_that_is_away_finds_nothing() -> None:
    looked = await first(ScriptedCache(away=True))
    assert (looked.seen, looked.whole) == (None, None)
    assert looked.past == "store_away"
    assert looked.asked.remarks.said == ["cache away while reading: redis"]


async def test_another_look_is_by_the_same_names() -> None:
    """Which assume nothing any more."""
    cache = ScriptedCache()
    looking = Looking(over(cache)[0], LIMITS, Assumed())
    looked = await looking.first(looking.asked(request(), DEFAULTS, None, None))
    again = await looking.again(looked.asked)
    one, other = cache.looks
    assert replace(one, assumed=False) == other
    assert again.asked is looked.asked
    assert again.seen is cache.finds[0]


async def test_another_look_goes_by_what_the_session_keeps_by_then() -> None:
    """While another process led, a request of the same session was answered: who arrived after
    that shares this look, and inherits what that left."""
    session = SessionRecord(b'{"project_id":"p"}', "h")
    cache = ScriptedCache([seen(), seen(session)])
    looking = Looking(over(cache)[0], LIMITS, Assumed())
    looked = await looking.first(looking.asked(request(), DEFAULTS, None, None))
    again = await looking.again(looked.asked)
    found = effective(request(), session.coordinates)
    assert (again.asked.effective, again.asked.last_hash) == (found, "h")
    assert cache.looks[-1].whole == names_of(SCOPE, request(), found, HOW, strict=False).whole


# -- what may answer ---------------------------------------------------------------------------


async def test_a_cached_answer_tells_its_age() -> None:
    """By the store's clock; no answer is younger than nothing."""
    for age, told in ((1_500, 1_500), (0, 0), (-1, 0)):
        whole = stored(b'id\n{"x":1}', age_ms=age, context_hash="h")
        answer = (await first(ScriptedCache([seen(whole=whole)]))).whole
        assert answer is not None
        assert (answer.context_id, answer.context_hash, answer.source) == ("id", "h", "cache")
        assert answer.context == b'{"source":"cache","ageMs":%d,"x":1}' % told


async def test_a_cached_denial_is_raised_as_it_was() -> None:
    looked = await first(ScriptedCache([seen(whole=stored(denied("table", "t")))]))
    with pytest.raises(NotFound) as refused:
        _ = looked.whole
    assert (refused.value.kind, refused.value.id) == ("table", "t")


async def test_without_an_entry_there_is_no_answer() -> None:
    assert (await first(ScriptedCache([seen(surface=stored())]))).whole is None


def left(looked: Looked) -> tuple[bool, bool]:
    """Whether the whole, and the surface, may be used."""
    assert looked.seen is not None
    return looked.seen.whole is not None, looked.seen.surface is not None


async def test_what_is_not_proven_live_is_not_read() -> None:
    """It is asked before the read is sent; the clock and the session are read all the same."""
    cache, proofs = ScriptedCache([seen()]), Proofs([None])
    looked = await first(cache, liveness=proofs)
    assert looked.seen is cache.finds[0]
    assert cache.looks[0].skip_entries
    assert proofs.asked_at[0] <= cache.looked_at[0]
    assert (looked.asked.remarks.said, looked.asked.remarks.bypassed) == ([BYPASSED], True)
    assert looked.past == "unproven"


async def test_whoever_arrived_before_the_proof_is_not_let_in_by_it() -> None:
    """It came back between two looks of one request: only who arrives later may rely on it."""
    session = SessionRecord(b'{"project_id":"p"}', None)
    cache, proofs = ScriptedCache([seen(session)]), Proofs([None, LIVE])
    looked = await first(cache, liveness=proofs)
    assert [look.skip_entries for look in cache.looks] == [True, True]
    assert looked.asked.remarks.bypassed


async def test_a_server_of_another_reign_than_the_proofs_answers_nobody() -> None:
    other = Proven(frozenset({Reign("o" * 80)}))
    looked = await first(ScriptedCache([seen(**BOTH)]), liveness=Proofs([other]))
    assert left(looked) == (False, False)
    assert (looked.asked.remarks.said, looked.past) == ([BYPASSED], "other_server")
    looked = await first(ScriptedCache([seen(**BOTH)]), liveness=Proofs([LIVE]))
    assert (left(looked), looked.past) == ((True, True), None)
    assert looked.asked.remarks.said == []


APPLIED = AppliedMark("w", Epoch("e"), REIGN, 7)


@pytest.mark.parametrize(
    ("after", "proven"),
    [
        ((), True),
        ((APPLIED,), True),
        ((APPLIED, Published(Place("t", 0), 9)), True),
        ((replace(APPLIED, workspace_id="v"),), False),
        ((replace(APPLIED, clock=8),), False),
        ((APPLIED, Published(Place("t", 0), 10)), False),
        ((Unproven("x"), APPLIED), False),
    ],
    ids=str,
)
async def test_after_a_write_only_what_has_it_answers(after: Any, proven: bool) -> None:
    """Every one of the writes that are named; else all is built, and the answer says why."""
    cache = ScriptedCache([seen(**BOTH)])
    looked = await first(cache, Options(after=after), Proofs([LIVE]))
    assert left(looked) == (proven, proven)
    assert looked.asked.remarks.said == ([] if proven else [UNPROVEN])
    assert not looked.asked.remarks.bypassed


@pytest.mark.parametrize(
    ("whole", "surface", "expected"),
    [(0, 0, (True, True)), (1_000, 1_001, (True, False)), (1_001, 1_000, (False, True))],
)
async def test_a_bound_of_age_is_kept_by_the_stores_clock(
    whole: int, surface: int, expected: tuple[bool, bool]
) -> None:
    """For the answer and for the surface that one would be made of; not a millisecond more."""
    found = seen(whole=stored(age_ms=whole), surface=stored(age_ms=surface))
    assert left(await first(ScriptedCache([found]), Options(max_age_ms=1_000))) == expected
    assert left(await first(ScriptedCache([found]))) == (True, True)
    none = await first(ScriptedCache([seen()]), Options(max_age_ms=1_000))
    assert left(none) == (False, False)


async def test_where_there_are_no_marks_there_is_nothing_to_judge() -> None:
    cache = ScriptedCache([seen(moment=None)])
    looked = await first(cache, Options(after=(APPLIED,), max_age_ms=0), Proofs([LIVE]))
    assert looked.seen is cache.finds[0]
    assert looked.asked.remarks.said == []
