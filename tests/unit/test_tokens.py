"""Tokens of writes: they travel unchanged, and prove nothing but what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine import tokens
from context_engine.errors import InvalidRequest
from context_engine.liveness import Proven
from context_engine.ports import Epoch, Marked, Moment, Place, Reign
from context_engine.tokens import MAX_TOKENS, AppliedMark, Published, Token, Unproven
from events.messages import BuildOptions, tokens_of
from events.records import Position

HERE = AppliedMark("w", Epoch("e"), Reign("r"), 7)
NOW = Moment(Epoch("e"), Reign("r"), 7, 0)
READ = Proven(None, {Place("domain.membership", 3): 10})

texts = st.text(st.characters(codec="utf-8"), max_size=30)
numbers = st.integers(0, 10**17)
any_token = st.one_of(
    st.builds(AppliedMark, texts, texts.map(Epoch), texts.map(Reign), numbers),
    st.builds(Published, st.builds(Place, texts, numbers), numbers),
    st.builds(Unproven, texts),
)


@given(any_token)
def test_a_token_comes_back_as_it_was(token: Token) -> None:
    """Whatever an id holds: colons, percent signs, other scripts."""
    assert tokens.parse(tokens.text_of(token)) == token


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "mark", "mark:w:e:r", "mark:w:e:r:x", "mark:w:e:r:-1", "mark:w:e:r:7:8"),
        *("topic:t:0", "topic:t:0:x", "topic:t:²:1", f"mark:w:e:r:{'9' * 400}", "unmarked:a:b"),
    ],
)
def test_what_nobody_was_given_is_refused_and_named(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^options.after: is no token; give") as refused:
        tokens.parse(text)
    assert refused.value.field == "options.after"


def test_a_number_has_so_many_digits_at_most() -> None:
    """So many fit where offsets and clocks are kept, which is far beyond any."""
    assert tokens.parse(f"mark:w:e:r:{'9' * 18}") == replace(HERE, clock=10**18 - 1)
    with pytest.raises(InvalidRequest):
        tokens.parse(f"mark:w:e:r:{'9' * 19}")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (HERE, True),
        (AppliedMark("w", Epoch("e"), Reign("r"), 6), True),
        (AppliedMark("w", Epoch("e"), Reign("r"), 8), False),
        (AppliedMark("w", Epoch("f"), Reign("r"), 7), False),
        (AppliedMark("w", Epoch("e"), Reign("s"), 7), False),
        (AppliedMark("v", Epoch("e"), Reign("r"), 7), False),
        (Published(Place("domain.membership", 3), 9), True),
        (Published(Place("domain.membership", 3), 10), False),
        (Published(Place("domain.membership", 4), 0), False),
        (Published(Place("another", 3), 0), False),
        (Unproven("1"), False),
    ],
    ids=str,
)
def test_a_token_is_proven_by_what_stands_at_or_beyond_it(token: Token, expected: bool) -> None:
    """Of its own workspace, epoch, reign, topic and partition; nothing else will do."""
    assert tokens.proven(token, "w", NOW, READ) is expected


def test_a_mark_that_found_nothing_proves_nothing() -> None:
    for epoch, clock in ((None, None), (Epoch("e"), None), (None, 7)):
        assert tokens.of_mark(Marked("w", epoch, Reign("r"), clock)) == Unproven("")
    assert tokens.of_mark(Marked("w", Epoch("e"), Reign("r"), 7)) == HERE


def test_an_emitted_record_is_a_token() -> None:
    """Of the place where the broker put it, and carried by the request's options."""
    text = Position("domain.membership", 3, 9).token
    options = BuildOptions(after=(text,))
    assert tokens_of(options) == (Published(Place("domain.membership", 3), 9),)


def test_a_request_names_so_many_writes_at_most() -> None:
    text = tokens.text_of(HERE)
    BuildOptions(after=(text,) * MAX_TOKENS)
    with pytest.raises(ValueError, match="at most 64"):
        BuildOptions(after=(text,) * (MAX_TOKENS + 1))
