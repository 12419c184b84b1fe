"""What was read → `AgentContext`, as JSON, with its hash, its trace and its evidence."""

from __future__ import annotations

from datetime import datetime

from context_engine import keys
from context_engine.built import Built, Limits, Surfaced
from context_engine.coordinates import Effective
from context_engine.models.base import SCHEMA_VERSION, JsonObject
from context_engine.models.input import ContextBuildInput
from context_engine.models.sections import ConversationSection, Metadata, SessionSection
from context_engine.rendering import canonical, hash_of, packed, size_of, written
from context_engine.sections import trace
from context_engine.sections.conversation import (
    DialogueLimits,
    build_conversation,
    build_window,
)
from context_engine.sections.summary import with_dialogue
from context_engine.sections.surface import wire_name
from context_engine.wording import language_of


def assemble(
    limits: Limits,
    request: ContextBuildInput,
    effective: Effective,
    known: Surfaced,
    *,
    scope_key: str,
    context_id: str,
    last_hash: str | None,
    now: datetime,
    remarks: tuple[str, ...],
    clock: int | None = None,
) -> Built:
    """The `AgentContext` of what was read, and its evidence.

    `clock`: of the workspace, read before; evidence keeps it.
    """
    surface = known.surface
    conversation = _conversation(limits, request, known)
    session = _session(effective, conversation, last_hash)
    summary = with_dialogue(surface.lines, conversation, surface.locale)
    tags = keys.seal(limits.tag_secret, request.workspace_id, surface.told | known.dialogue_told)
    texts = {
        **surface.sections,
        "session": written(session),
        "conversation": written(conversation),
        "metadata": written(Metadata(values=request.metadata)),
        "schemaVersion": canonical(SCHEMA_VERSION),
        "contextId": canonical(context_id),
        "scopeKey": canonical(scope_key),
        "generatedAt": canonical(_instant(now)),
        "contextSummary": canonical(summary),
        "contextWindow": written(build_window(conversation, _of_dialogue(limits))),
        "unresolved": canonical([one.model_dump(mode="json") for one in known.unresolved]),
        "tags": canonical(list(tags)),
    }
    digest = hash_of(texts, _without_last_hash(session))
    texts["contextHash"] = canonical(digest)
    sizes = {name: size_of(texts[name]) for name in ("session", "conversation")}
    sizes["metadata"] = size_of(texts["metadata"]) if request.metadata else 0
    traced = _trace(known, effective, conversation, sizes)
    texts["trace"] = canonical({**traced, "remarks": []})
    payload = kept = packed(context_id, texts)
    if remarks:
        texts["trace"] = canonical({**traced, "remarks": list(remarks)})
        payload = packed(context_id, texts)
    return Built(
        context_id=context_id,
        context_hash=digest,
        source=known.source,
        payload=payload,
        kept=kept,
        generated_at=now,
        summary=summary,
        compression=_compression(conversation),
        operator_trace=_operator_trace(known, clock),
        memory=conversation.summary or None if conversation is not None else None,
    )


def _conversation(
    limits: Limits, request: ContextBuildInput, known: Surfaced
) -> ConversationSection | None:
    if known.conversation is None:
        return None
    return build_conversation(
        known.conversation,
        message=request.message,
        limits=_of_dialogue(limits),
        language=language_of(known.surface.locale),
    )


def _of_dialogue(limits: Limits) -> DialogueLimits:
    return DialogueLimits(limits.messages, limits.compression_chars)


def _instant(now: datetime) -> str:
    """As pydantic writes it, so that a context reads the same wherever it was written."""
    return now.isoformat().replace("+00:00", "Z")


def _session(
    effective: Effective, conversation: ConversationSection | None, last_hash: str | None
) -> SessionSection | None:
    """The session, where there is one; its memory is the dialogue's summary, built anew."""
    at = effective.at
    name = at.session_id or at.conversation_id
    if name is None:
        return None
    memory = conversation.summary if conversation is not None else None
    return SessionSection(id=name, memory_summary=memory or None, last_context_hash=last_hash)


def _without_last_hash(session: SessionSection | None) -> str:
    if session is None:
        return "null"
    return canonical(session.model_dump(mode="json", exclude={"last_context_hash"}))


def _trace(
    known: Surfaced,
    effective: Effective,
    conversation: ConversationSection | None,
    sizes: dict[str, int],
) -> JsonObject:
    """All but the remarks."""
    asked = effective.at.conversation_id is not None
    return {
        "sections": {
            **trace.of_surface(known.surface.trace, known.age_ms),
            "session": trace.of_section(sizes["session"]),
            "conversation": trace.of_conversation(conversation, sizes["conversation"], asked=asked),
            "metadata": trace.of_section(sizes["metadata"]),
        },
        "inherited": [wire_name(name) for name in effective.inherited],
    }


def _operator_trace(known: Surfaced, clock: int | None) -> JsonObject:
    """The rules that denied, and the versions. Those of a cached surface are with its build."""
    versions: JsonObject = {"build": keys.BUILD_VERSION, "clock": clock}
    if known.source == "surface":
        versions["surfaceOf"] = known.surface.read_by
    return {
        "denials": [{"what": one.what, "rule": one.rule} for one in known.denials],
        "versions": versions,
    }


def _compression(conversation: ConversationSection | None) -> JsonObject:
    if conversation is None:
        return {}
    return {
        "strategy": conversation.strategy,
        "originalChars": conversation.original_chars,
        "compressedChars": conversation.compressed_chars,
        "keptMessages": conversation.kept_messages,
        "compressedMessages": conversation.compressed_messages,
    }
