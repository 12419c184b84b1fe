"""The dialogue: tail, whole groups, cut turns, what is withheld, and the heuristic summary."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from context_engine import access
from context_engine.access import VisibleConversation
from context_engine.facts import (
    ConversationFacts,
    DialogueFacts,
    Facts,
    MemberFacts,
    MessageFacts,
    UserFacts,
    WorkspaceFacts,
)
from context_engine.keys import Coordinates
from context_engine.models import ConversationSection
from context_engine.sections.compression import EXCERPT_CHARS, TAKEN, compress
from context_engine.sections.conversation import (
    TURN_CHARS,
    DialogueLimits,
    build_conversation,
    build_window,
    tail_start,
)

LIMITS = DialogueLimits(messages=20, summary_chars=6_000)
START = datetime(2026, 1, 1, tzinfo=UTC)


def visible() -> VisibleConversation:
    user = UserFacts(id="u", name="U", email_norm=None, locale=None, timezone=None, active=True)
    facts = Facts(
        user=user,
        workspace=WorkspaceFacts(id="w", name="W", organization_id=None),
        member=MemberFacts(role="viewer", active=True),
        conversation=ConversationFacts(id="c", title="Talk", is_participant=True),
    )
    scope = access.resolve(facts, Coordinates("w", "u", conversation_id="c"))
    assert scope.conversation is not None
    return scope.conversation


def said(number: int, text: str = "Something was said here.", **more: object) -> MessageFacts:
    fields = {"role": "user", "author_id": "u", **more}
    return MessageFacts(
        id=f"m{number}",
        content=text,
        chars=len(text),
        at=START + timedelta(minutes=number),
        **fields,  # type: ignore[arg-type]
    )


def call(number: int, *ids: str, **more: object) -> MessageFacts:
    calls = tuple(
        {"id": id, "type": "function", "function": {"name": "find", "arguments": '{"q":"x"}'}}
        for id in ids
    )
    return said(number, "", role="assistant", author_id=None, tool_calls=calls, **more)


def result(number: int, id: str, **more: object) -> MessageFacts:
    return said(number, f"found {id}", role="tool", author_id=None, tool_call_id=id, **more)


def built(messages: list[MessageFacts], message: str | None = None) -> ConversationSection:
    dialogue = DialogueFacts(
        messages=tuple(messages),
        message_count=len(messages),
        total_chars=sum(m.chars for m in messages),
    )
    return build_conversation(visible(), dialogue, message=message, limits=LIMITS, language="en")


def test_the_last_twenty_stay_and_the_rest_is_summarised() -> None:
    """Counts add up; the summary names its sources; the originals are not touched."""
    section = built([said(n, f"Point number {n} of the plan.") for n in range(50)])
    assert [t.message_id for t in section.recent_turns] == [f"m{n}" for n in range(30, 50)]
    assert section.kept_messages + section.compressed_messages == 50
    assert section.source_message_ids == tuple(f"m{n}" for n in range(30 - TAKEN, 30))
    assert "Point number 29" in section.summary
    assert section.compressed_chars == len(section.summary)


def test_the_tail_reaches_back_to_whole_groups() -> None:
    """A tool's result never leads the tail without its call."""
    messages = [said(n) for n in range(10)]
    messages += [call(10, "a", "b", on_behalf_of="u"), result(11, "a"), result(12, "b")]
    messages += [said(n) for n in range(13, 31)]
    assert messages[11:][0].role == "tool"
    assert tail_start(messages, 20) == 10
    turns = built(messages).recent_turns
    assert [t.role for t in turns[:3]] == ["assistant", "tool", "tool"]


def test_halves_of_groups_are_left_out() -> None:
    """Results nobody called for, and calls that were not answered, would break a provider."""
    messages = [said(0), result(1, "x"), call(2, "a", "b"), result(3, "a"), said(4)]
    assert [t.message_id for t in built(messages).recent_turns] == ["m0", "m4"]


def test_tools_that_ran_for_others_are_withheld() -> None:
    """The pair keeps its place; arguments and result do not travel."""
    messages = [call(0, "a", on_behalf_of="x"), result(1, "a", on_behalf_of="x")]
    first, second = built(messages).recent_turns
    assert first.withheld
    assert second.withheld
    assert "found" not in second.content
    assert '"q"' not in str(first.tool_calls)
    mine = [call(0, "a", on_behalf_of="u"), result(1, "a", on_behalf_of="u")]
    assert [t.content for t in built(mine).recent_turns] == ["", "found a"]


def test_a_long_turn_is_cut_with_a_marker() -> None:
    """At 4,000 characters, with the id of the whole message."""
    (turn,) = built([said(0, "x" * 9_000)]).recent_turns
    assert turn.truncated
    assert turn.content.startswith("x" * TURN_CHARS)
    assert "m0" in turn.content[TURN_CHARS:]


def test_the_current_message_ends_the_turns_once() -> None:
    """It is added, unless the conversation's last message has the same author and text."""
    section = built([said(0, "Hello there, engine.")], "And now?")
    assert [t.content for t in section.recent_turns] == ["Hello there, engine.", "And now?"]
    assert section.recent_turns[-1].message_id is None
    again = built([said(0, "And now?")], "And now?")
    assert [t.message_id for t in again.recent_turns] == ["m0"]
    by_another = built([said(0, "And now?", author_id="x")], "And now?")
    assert len(by_another.recent_turns) == 2


def test_a_tool_result_is_never_in_the_summary() -> None:
    """Whether it may be shown is decided anew for every user and turn."""
    messages = [call(0, "a"), result(1, "a"), *(said(n) for n in range(2, 40))]
    assert "found a" not in built(messages).summary


def test_the_window_counts_summary_and_turns() -> None:
    """Used, limit and remaining, in characters."""
    section = built([said(n) for n in range(30)])
    window = build_window(section, LIMITS)
    turns = sum(len(t.content) for t in section.recent_turns)
    assert window.used == len(section.summary) + turns
    assert window.remaining == window.limit - window.used


message = st.one_of(
    st.text(max_size=600).map(lambda text: ("user", text)),
    st.just(("group", "")),
)


@given(st.lists(message, max_size=60), st.integers(200, 2_000))
def test_any_dialogue_keeps_its_bounds(shape: list[tuple[str, str]], budget: int) -> None:
    """No orphaned tool message, a summary within its budget, the same twice, counts that add up."""
    messages: list[MessageFacts] = []
    for kind, text in shape:
        number = len(messages)
        if kind == "user":
            messages.append(said(number, text))
        else:
            messages.append(call(number, f"k{number}", on_behalf_of="u"))
            messages.append(result(number + 1, f"k{number}", on_behalf_of="u"))
    section = built(messages)
    assert section == built(messages)
    assert section.kept_messages + section.compressed_messages == len(messages)
    open_calls: set[str] = set()
    for turn in section.recent_turns:
        if turn.role == "tool":
            assert turn.tool_call_id in open_calls
        open_calls |= {str(c["id"]) for c in turn.tool_calls}
    summary, sources = compress([m for m in messages if m.role != "tool"], budget, "en")
    assert len(summary) <= budget
    assert len(sources) <= TAKEN
    assert all(len(line) <= EXCERPT_CHARS + 20 for line in summary.splitlines()[1:])
