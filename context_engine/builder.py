"""Coordinates → facts → visible scope → sections → `AgentContext`, with its tags.

The surface is read, cached and reloaded as one piece; the dialogue is read for every answer that
is not cached whole. Two reading statements make a cold build, whatever the number of tables:
facts with the dialogue, and counts. Counts come last, since a slow one ends its transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from pydantic import JsonValue

from context_engine import access, keys
from context_engine.access import Denial, VisibleConversation
from context_engine.coordinates import Effective
from context_engine.keys import Coordinates, Tag
from context_engine.models.base import JsonObject
from context_engine.models.context import (
    UNHASHED,
    AgentContext,
    Source,
    Trace,
    TraceSection,
    Unresolved,
)
from context_engine.models.input import ContextBuildInput
from context_engine.models.sections import ConversationSection, Metadata, SessionSection
from context_engine.ports import Domain, DomainReads, Entry
from context_engine.sections.base import NOT_ASKED, NOT_FOUND
from context_engine.sections.conversation import (
    DialogueLimits,
    build_conversation,
    build_window,
)
from context_engine.sections.summary import summarize
from context_engine.sections.surface import Surface, build_surface, sizes_of, wire_name
from context_engine.wording import language_of


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a context, and the secret that seals its tags."""

    messages: int = 20
    compression_chars: int = 6_000
    tag_secret: str = ""


@dataclass(frozen=True, slots=True)
class Surfaced:
    """What one build knows before it writes: the surface, and the dialogue where there is one."""

    surface: Surface
    tags: frozenset[Tag]
    unresolved: tuple[Unresolved, ...]
    source: Source
    passing: bool = False
    age_ms: int = 0
    conversation: VisibleConversation | None = None
    dialogue_tags: frozenset[Tag] = frozenset()
    denials: tuple[Denial, ...] = ()

    @property
    def payload(self) -> bytes:
        """The surface as it is cached."""
        return self.surface.model_dump_json().encode()


@dataclass(frozen=True, slots=True)
class Built:
    """A finished context: its bytes but for source and age, which each answer puts in front."""

    context_id: str
    context_hash: str
    source: Source
    payload: bytes
    """The context's id, a line end, the JSON: as the cache keeps it, as `answered` reads it."""
    generated_at: datetime
    summary: str
    compression: JsonObject
    operator_trace: JsonObject
    memory: str | None


def answered(payload: bytes, source: Source, age_ms: int) -> tuple[str, bytes]:
    """A cached or built payload as (context id, JSON of the `AgentContext`).

    The body is not parsed: a cached answer costs a copy.
    """
    context_id, _, body = payload.partition(b"\n")
    head = b'{"source":"%s","ageMs":%d,' % (source.encode(), age_ms)
    return context_id.decode(), head + body[1:]


class Builder:
    """Builds contexts within `limits`. Holds no state and does no I/O of its own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    # -- reading -----------------------------------------------------------------------------

    async def read_all(
        self, reads: DomainReads, at: Coordinates, inherited: frozenset[str], *, strict: bool
    ) -> Surfaced:
        """A cold build's reading. Raises `NotFound` as `access.resolve` does."""
        facts = await reads.facts(at, tail=self.limits.messages)
        scope = access.resolve(facts, at, inherited=inherited, strict=strict)
        counts = await reads.counts(scope)
        surface = build_surface(scope, counts, at)
        return Surfaced(
            surface=surface,
            tags=scope.tags,
            unresolved=access.settle(surface.absent, inherited, strict=strict),
            source="build",
            passing=counts.passing,
            conversation=scope.conversation,
            dialogue_tags=scope.dialogue_tags | _ran_over(scope.conversation),
            denials=scope.denials,
        )

    def reload(
        self, cached: Entry, now_ms: int, inherited: frozenset[str], *, strict: bool
    ) -> Surfaced:
        """A proven surface out of the cache. Raises `NotFound` as `access.settle` does."""
        surface = Surface.model_validate_json(cached.payload)
        return Surfaced(
            surface=surface,
            tags=cached.tags,
            unresolved=access.settle(surface.absent, inherited, strict=strict),
            source="surface",
            age_ms=max(0, now_ms - cached.built_ms),
        )

    async def read_dialogue(
        self, domain: Domain, at: Coordinates, inherited: frozenset[str], known: Surfaced
    ) -> Surfaced:
        """The dialogue over a cached surface. Who takes part is decided anew."""
        here = Coordinates(
            at.workspace_id,
            at.user_id,
            conversation_id=at.conversation_id,
            agent_stack=at.agent_stack,
        )
        facts = await domain.facts(here, tail=self.limits.messages)
        scope = access.resolve(facts, here, inherited=inherited)
        return replace(
            known,
            conversation=scope.conversation,
            dialogue_tags=scope.dialogue_tags | _ran_over(scope.conversation),
            denials=scope.denials,
        )

    # -- writing -----------------------------------------------------------------------------

    def assemble(
        self,
        request: ContextBuildInput,
        effective: Effective,
        known: Surfaced,
        *,
        scope_key: str,
        context_id: str,
        last_hash: str | None,
        now: datetime,
        remarks: tuple[str, ...],
    ) -> Built:
        """The `AgentContext` of what was read, and its evidence."""
        locale = request.locale or known.surface.user.locale
        conversation = self._conversation(request, known, locale)
        window = build_window(conversation, self._dialogue_limits())
        bare = AgentContext(
            context_id=context_id,
            context_hash="",
            scope_key=scope_key,
            source=known.source,
            generated_at=now,
            **_of_surface(known.surface),
            session=_session(effective, conversation, last_hash),
            conversation=conversation,
            metadata=Metadata(values=request.metadata),
            context_summary=summarize(known.surface, conversation, locale),
            context_window=window,
            unresolved=known.unresolved,
            tags=keys.seal(
                self.limits.tag_secret,
                request.workspace_id,
                known.tags | known.dialogue_tags,
            ),
            trace=Trace(sections={}, inherited=_wire_names(effective.inherited), remarks=remarks),
        )
        dumped = bare.model_dump(mode="json")
        trace = bare.trace.model_copy(
            update={"sections": _trace_sections(known, effective, bare, sizes_of(dumped))}
        )
        digest = content_hash(dumped)
        dumped |= {"contextHash": digest, "trace": trace.model_dump(mode="json")}
        return Built(
            context_id=context_id,
            context_hash=digest,
            source=known.source,
            payload=_payload(context_id, dumped),
            generated_at=now,
            summary=bare.context_summary,
            compression=_compression(conversation),
            operator_trace={"denials": [{"what": d.what, "rule": d.rule} for d in known.denials]},
            memory=conversation.summary or None if conversation is not None else None,
        )

    def _dialogue_limits(self) -> DialogueLimits:
        return DialogueLimits(self.limits.messages, self.limits.compression_chars)

    def _conversation(
        self, request: ContextBuildInput, known: Surfaced, locale: str | None
    ) -> ConversationSection | None:
        if known.conversation is None:
            return None
        return build_conversation(
            known.conversation,
            message=request.message,
            limits=self._dialogue_limits(),
            language=language_of(locale),
        )


def _ran_over(conversation: VisibleConversation | None) -> frozenset[Tag]:
    """Tables that the tools of a dialogue ran over, those too that are gone: they may come back."""
    messages = conversation.facts.dialogue.messages if conversation is not None else ()
    return frozenset(keys.schema(table) for message in messages for table in message.table_ids)


def _of_surface(surface: Surface) -> dict[str, Any]:
    """The surface's sections, as fields of `AgentContext`."""
    sections = {
        name: getattr(surface, name)
        for name in Surface.model_fields
        if name not in {"trace", "absent"}
    }
    return {**sections, "table": surface.tables[0] if surface.tables else None}


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


def _trace_sections(
    known: Surfaced, effective: Effective, context: AgentContext, sizes: dict[str, int]
) -> dict[str, TraceSection]:
    """What became of every section: the surface's, with its age, and the dialogue's."""
    traced = {
        name: section.model_copy(update={"age_ms": known.age_ms})
        for name, section in known.surface.trace.items()
    }
    asked = effective.at.conversation_id is not None
    for name, content in (("session", context.session), ("conversation", context.conversation)):
        missing = NOT_FOUND if asked and name == "conversation" else NOT_ASKED
        traced[name] = _traced(content, missing, sizes[name])
    cut = context.conversation is not None and (
        context.conversation.compressed_messages > 0
        or any(turn.truncated for turn in context.conversation.recent_turns)
    )
    if cut and context.conversation is not None:
        older = context.conversation.compressed_messages
        reason = f"{context.conversation.kept_messages} messages kept, {older} compressed"
        traced["conversation"] = traced["conversation"].model_copy(
            update={"status": "trimmed", "reason": reason}
        )
    metadata = context.metadata.values or None
    traced["metadata"] = _traced(metadata, NOT_ASKED, sizes["metadata"] if metadata else 0)
    return traced


def _traced(content: object, missing: str, chars: int) -> TraceSection:
    if content is None:
        return TraceSection(status="absent", reason=missing)
    return TraceSection(status="included", reason="in sight", chars=chars)


def _wire_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(wire_name(name) for name in names)


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


def _payload(context_id: str, dumped: dict[str, JsonValue]) -> bytes:
    body = {name: value for name, value in dumped.items() if name not in {"source", "ageMs"}}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"{context_id}\n{text}".encode()


def content_hash(dumped: dict[str, JsonValue]) -> str:
    """SHA-256 of a context's canonical content; `dumped` is its JSON, camelCase.

    Leaves out `UNHASHED` and the session's last hash: equal hashes, equal content.
    """
    left_out = {wire_name(name) for name in UNHASHED}
    content = {name: value for name, value in dumped.items() if name not in left_out}
    session = content.get("session")
    if isinstance(session, dict):
        content["session"] = {k: v for k, v in session.items() if k != "lastContextHash"}
    return sha256(canonical(content)).hexdigest()


def canonical(value: JsonValue) -> bytes:
    """The one JSON text of `value`."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()
