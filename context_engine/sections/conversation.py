"""The dialogue: a tail of whole turns, and a summary laid over what is older.

The originals stay where they are. A tool call and its results stay together: the tail reaches
back to the call of a result in it, and results follow their call. A turn over 4,000 characters is
cut, with a marker that names the whole message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.access import VisibleConversation
from context_engine.facts import MessageFacts
from context_engine.models.base import JsonObject
from context_engine.models.context import ContextWindow
from context_engine.models.sections import ConversationSection, Turn
from context_engine.sections.compression import compress
from context_engine.wording import Language, phrase

TURN_CHARS = 4_000
"""Longest content of one turn, in characters; its marker comes on top. The same bound holds for
its tool calls as JSON, whose arguments go when they are longer."""

Group = tuple[MessageFacts, ...]
"""A message alone, or a tool call with all of its results."""


@dataclass(frozen=True, slots=True)
class DialogueLimits:
    """`messages` in the tail, `summary_chars` for what is older."""

    messages: int = 20
    summary_chars: int = 6_000


def build_conversation(
    conversation: VisibleConversation,
    *,
    message: str | None,
    limits: DialogueLimits,
    language: Language,
) -> ConversationSection:
    """The conversation as this user may see it; `message` is the current one, not sent yet.

    Kept are the messages that recent turns show; every other stored one counts as compressed,
    whether or not the summary had room for it.
    """
    dialogue = conversation.facts.dialogue
    stored = dialogue.messages
    start = tail_start(stored, limits.messages)
    turns = [
        turn
        for group in tool_groups(stored[start:])
        for turn in _turns(group, conversation, language)
    ]
    kept = len(turns)
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
        kept_messages=kept,
        compressed_messages=max(0, dialogue.message_count - kept),
    )


def tail_start(messages: Sequence[MessageFacts], size: int) -> int:
    """Index of the first message of the tail: the last `size`, back to a whole group."""
    start = max(0, len(messages) - size)
    unmet = {one.tool_call_id for one in messages[start:] if one.role == "tool"}
    unmet -= {call for one in messages[start:] for call in _calls(one)}
    for index in range(start - 1, -1, -1):
        if not unmet:
            break
        if called := unmet.intersection(_calls(messages[index])):
            unmet -= called
            start = index
    return start


def tool_groups(messages: Sequence[MessageFacts]) -> Iterator[Group]:
    """The messages, each call with its results right behind it, in the order of the calls.

    A provider answers a half with an error: a result that nobody called for is left out, and a
    message whose calls are not all answered keeps its text alone, or goes if it has none. An id
    used again belongs to the latest call.
    """
    asked: dict[str, dict[str, MessageFacts]] = {}
    found: list[tuple[MessageFacts, dict[str, MessageFacts]]] = []
    for message in messages:
        if message.role == "tool":
            if (id := message.tool_call_id) is not None:
                asked.get(id, {}).setdefault(id, message)
            continue
        answers: dict[str, MessageFacts] = {}
        asked.update((call, answers) for call in _calls(message))
        found.append((message, answers))
    for message, answers in found:
        calls = _calls(message)
        if len(answers) == len(calls):
            yield (message, *(answers[call] for call in calls))
        elif message.content:
            yield (message.model_copy(update={"tool_calls": ()}),)


def _calls(message: MessageFacts) -> list[str]:
    """The ids of a message's tool calls; one without an id, or with an id twice, has no answer."""
    return [str(call.get("id", "")) for call in message.tool_calls]


def _turns(group: Group, conversation: VisibleConversation, language: Language) -> Iterator[Turn]:
    """The turns of a group: shown, or withheld, as a whole."""
    of_tool = len(group) > 1
    withheld = of_tool and not all(
        conversation.shows(part.on_behalf_of, part.table_ids, part.rights) for part in group
    )
    for message in group:
        yield _turn(message, withheld, language)


def _turn(message: MessageFacts, withheld: bool, language: Language) -> Turn:
    content, cut = message.content, message.chars > len(message.content)
    if withheld and message.role == "tool":
        # What the assistant said beside its call stays: participants have read it.
        content, cut = f"[{phrase('withheld', language)}]", False
    calls = message.tool_calls
    too_long = not withheld and _chars(calls) > TURN_CHARS
    if withheld or too_long:
        calls = tuple(_without_arguments(call) for call in calls)
    if cut or too_long or len(content) > TURN_CHARS:
        content = f"{content[:TURN_CHARS]}\n[{phrase('cut', language)} {message.id}]"
        cut = True
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
    """A call that keeps its place in the pair and its shape: id, kind and name."""
    kept: dict[str, JsonValue] = {
        key: call[key] for key in ("id", "type", "name") if isinstance(call.get(key), str)
    }
    function = call.get("function")
    if isinstance(function, dict):
        name = function.get("name")
        kept["function"] = {"name": name if isinstance(name, str) else "tool", "arguments": "{}"}
    elif "arguments" in call:
        kept["arguments"] = "{}" if isinstance(call["arguments"], str) else {}
    return kept


def _chars(calls: Sequence[JsonObject]) -> int:
    """Size of tool calls as JSON, in characters."""
    return len(json.dumps(calls, ensure_ascii=False, separators=(",", ":"))) if calls else 0


def _said_already(messages: Sequence[MessageFacts], user_id: str, text: str) -> bool:
    """Whether the conversation's last message is the current one, by author and text."""
    last = messages[-1] if messages else None
    return last is not None and last.author_id == user_id and last.content == text


def _current(text: str, user_id: str, language: Language) -> Turn:
    cut = len(text) > TURN_CHARS
    marker = f"\n[{phrase('cutCurrent', language)}]" if cut else ""
    return Turn(
        message_id=None,
        role="user",
        author_id=user_id,
        content=text[:TURN_CHARS] + marker,
        truncated=cut,
    )


def build_window(conversation: ConversationSection | None, limits: DialogueLimits) -> ContextWindow:
    """How much of the dialogue's budget is used, in characters.

    Used: the summary plus the recent turns, their tool calls as JSON with them. The limit is the
    summary's budget plus a tail of full turns; a tail that reaches back for a group, or markers,
    can pass it, and `remaining` is then 0.
    """
    used = 0
    if conversation is not None:
        turns = conversation.recent_turns
        used = len(conversation.summary)
        used += sum(len(turn.content) + _chars(turn.tool_calls) for turn in turns)
    limit = limits.summary_chars + limits.messages * TURN_CHARS
    return ContextWindow(used=used, limit=limit, remaining=max(0, limit - used))
