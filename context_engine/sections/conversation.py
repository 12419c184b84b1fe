"""The dialogue: a tail of whole turns, and a summary laid over what is older.

The originals stay where they are. A tool call and its results stay together: the tail reaches
back to the start of a group, and what has lost its other half is left out. A turn over 4,000
characters is cut, with a marker that names the whole message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from context_engine.access import VisibleConversation
from context_engine.facts import DialogueFacts, MessageFacts
from context_engine.models.base import JsonObject
from context_engine.models.context import ContextWindow
from context_engine.models.sections import ConversationSection, Turn
from context_engine.sections.compression import compress
from context_engine.wording import Language, phrase

TURN_CHARS = 4_000
"""Longest content of one turn, in characters; its marker comes on top."""


@dataclass(frozen=True, slots=True)
class DialogueLimits:
    """`messages` in the tail, `summary_chars` for what is older."""

    messages: int = 20
    summary_chars: int = 6_000


def build_conversation(
    conversation: VisibleConversation,
    dialogue: DialogueFacts,
    *,
    message: str | None,
    limits: DialogueLimits,
    language: Language,
) -> ConversationSection:
    """The conversation as this user may see it; `message` is the current one, not sent yet."""
    stored = dialogue.messages
    start = tail_start(stored, limits.messages)
    tail = paired(stored[start:])
    turns = [_turn(one, conversation, language) for one in tail]
    older = [one for one in stored[:start] if one.role != "tool"]
    summary, sources = compress(older, limits.summary_chars, language)
    if message is not None and not _said_already(stored, conversation.user_id, message):
        turns.append(_current(message, conversation.user_id, language))
    return ConversationSection(
        id=conversation.facts.id,
        title=conversation.facts.title,
        summary=summary,
        recent_turns=tuple(turns),
        source_message_ids=sources,
        original_chars=dialogue.total_chars,
        compressed_chars=len(summary),
        kept_messages=len(tail),
        compressed_messages=max(0, dialogue.message_count - len(tail)),
    )


def tail_start(messages: Sequence[MessageFacts], size: int) -> int:
    """Index of the first message of the tail: the last `size`, back to a whole group."""
    start = max(0, len(messages) - size)
    while start > 0 and messages[start].role == "tool":
        start -= 1
    return start


def paired(messages: Sequence[MessageFacts]) -> list[MessageFacts]:
    """The messages without halves of tool groups: results nobody called for, calls unanswered.

    A provider answers either with an error.
    """
    kept: list[MessageFacts] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        end = index + 1
        while end < len(messages) and messages[end].role == "tool":
            end += 1
        results = messages[index + 1 : end]
        calls = [str(call.get("id")) for call in message.tool_calls]
        answers = {result.tool_call_id: result for result in results}
        if message.role == "tool" or not calls:
            kept.extend(() if message.role == "tool" else (message,))
        elif all(call in answers for call in calls):
            kept.extend((message, *(answers[call] for call in calls)))
        index = end
    return kept


def _turn(message: MessageFacts, conversation: VisibleConversation, language: Language) -> Turn:
    """One message; a tool's content only where it may be shown."""
    of_tool = message.role == "tool" or bool(message.tool_calls)
    withheld = of_tool and not conversation.shows(
        message.on_behalf_of, message.table_ids, message.rights
    )
    content, cut = message.content, False
    if withheld:
        # What the assistant said beside its call stays: participants have read it.
        content = f"[{phrase('withheld', language)}]" if message.role == "tool" else content
    if len(content) > TURN_CHARS:
        content = f"{content[:TURN_CHARS]}\n[{phrase('cut', language)} {message.id}]"
        cut = True
    calls = message.tool_calls
    if withheld:
        calls = tuple(_without_arguments(call) for call in calls)
    return Turn(
        message_id=message.id,
        role=message.role,
        author_id=message.author_id,
        content=content,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
        truncated=cut,
        withheld=withheld,
        at=message.at,
    )


def _without_arguments(call: JsonObject) -> JsonObject:
    """A call that keeps its place in the pair: its id, its kind, its function's name."""
    function = call.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return {
        "id": call.get("id"),
        "type": call.get("type", "function"),
        "function": {"name": name if isinstance(name, str) else "tool", "arguments": "{}"},
    }


def _said_already(messages: Sequence[MessageFacts], user_id: str, text: str) -> bool:
    """Whether the conversation's last message is the current one, by author and text."""
    last = messages[-1] if messages else None
    return last is not None and last.author_id == user_id and last.content == text


def _current(text: str, user_id: str, language: Language) -> Turn:
    cut = len(text) > TURN_CHARS
    marker = f"\n[{phrase('cut', language)} -]" if cut else ""
    return Turn(
        message_id=None,
        role="user",
        author_id=user_id,
        content=text[:TURN_CHARS] + marker,
        truncated=cut,
    )


def build_window(conversation: ConversationSection | None, limits: DialogueLimits) -> ContextWindow:
    """How much of the dialogue's budget is used: summary plus recent turns, in characters.

    The limit is what the two could come to at most: the summary's budget, and a full tail.
    """
    used = 0
    if conversation is not None:
        used = len(conversation.summary) + sum(len(t.content) for t in conversation.recent_turns)
    limit = limits.summary_chars + limits.messages * TURN_CHARS
    return ContextWindow(used=used, limit=limit, remaining=max(0, limit - used))
