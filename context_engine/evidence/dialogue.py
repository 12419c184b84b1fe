"""A dialogue as people wrote it, and what a context held of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime, TypeAdapter

from context_engine.access import VisibleConversation
from context_engine.facts import MessageFacts
from context_engine.models.base import JsonObject
from context_engine.models.sections import ConversationSection
from context_engine.sections.conversation import tail_start, tool_groups

Told = Literal["turn", "cut", "withheld", "summary", "compressed", "later"]
"""What a context held of a message: the whole turn, a cut one, one without its content, an
excerpt in the summary, nothing but its place in the count; or it was written later."""

_INSTANT: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)


@dataclass(frozen=True, slots=True)
class Original:
    """A stored message. `withheld`: a tool's content that this reader may not see."""

    message: MessageFacts
    withheld: bool


@dataclass(frozen=True, slots=True)
class Held:
    """What a context held of a conversation, message by message."""

    marks: Mapping[str, Told]
    edited: frozenset[str]
    """Whole turns whose text has changed since."""
    gone: tuple[str, ...]
    """Held then, and not there now."""
    section: ConversationSection


def originals(conversation: VisibleConversation, limit: int) -> tuple[Original, ...]:
    """The last `limit` messages, oldest first, back to a whole tool group.

    A tool's group is withheld as a whole, by the rule that builds follow.
    """
    messages = conversation.facts.dialogue.messages
    tail = messages[tail_start(messages, limit) :]
    groups = {part.id: group for group in tool_groups(tail) for part in group}
    return tuple(
        Original(
            one,
            one.role == "tool"
            and not all(_shown(part, conversation) for part in groups.get(one.id, (one,))),
        )
        for one in tail
    )


def _shown(message: MessageFacts, conversation: VisibleConversation) -> bool:
    return conversation.shows(message.on_behalf_of, message.table_ids, message.rights)


def held_by(context: JsonObject, found: Sequence[Original]) -> Held | None:
    """What `context`, an `AgentContext` as JSON, held of `found`; None without a conversation.

    Raises `ValidationError` for evidence of a contract that this version cannot read.
    """
    if (stored := context.get("conversation")) is None:
        return None
    section = ConversationSection.model_validate(stored)
    built = _INSTANT.validate_python(context["generatedAt"])
    turns = {one.message_id: one for one in section.recent_turns if one.message_id is not None}
    sources = frozenset(section.source_message_ids)
    marks: dict[str, Told] = {}
    edited = set()
    for one in (original.message for original in found):
        if (turn := turns.get(one.id)) is not None:
            marks[one.id] = "withheld" if turn.withheld else "cut" if turn.truncated else "turn"
            if marks[one.id] == "turn" and turn.content != one.content:
                edited.add(one.id)
        elif one.id in sources:
            marks[one.id] = "summary"
        else:
            marks[one.id] = "later" if one.at > built else "compressed"
    first = found[0].message.at if found else None
    gone = [
        id
        for id, turn in turns.items()
        if id not in marks and (first is None or (turn.at is not None and turn.at >= first))
    ]
    return Held(marks, frozenset(edited), tuple(gone), section)
