"""The trace: what became of every section, why, its size and its age."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from context_engine.models.base import JsonObject
from context_engine.models.context import TraceSection
from context_engine.models.sections import ConversationSection
from context_engine.sections.base import NOT_ASKED, NOT_FOUND


def of_surface(
    sections: Mapping[str, Mapping[str, JsonValue]], age_ms: int
) -> dict[str, JsonValue]:
    """The surface's part, as old as its reading is."""
    return {name: {**section, "ageMs": age_ms} for name, section in sections.items()}


def of_section(chars: int) -> JsonObject:
    """A section that is there, or that nobody asked for."""
    if not chars:
        return _written(TraceSection(status="absent", reason=NOT_ASKED))
    return _written(TraceSection(status="included", reason="in sight", chars=chars))


def of_conversation(
    conversation: ConversationSection | None, chars: int, *, asked: bool
) -> JsonObject:
    """The dialogue: trimmed where older messages are compressed or a turn is cut."""
    if conversation is None:
        return _written(TraceSection(status="absent", reason=NOT_FOUND if asked else NOT_ASKED))
    older = conversation.compressed_messages
    if older == 0 and not any(turn.truncated for turn in conversation.recent_turns):
        return of_section(chars)
    reason = f"{conversation.kept_messages} messages kept, {older} compressed"
    return _written(TraceSection(status="trimmed", reason=reason, chars=chars))


def _written(section: TraceSection) -> JsonObject:
    return section.model_dump(mode="json")
