"""Coordinates → facts → visible scope → sections → `AgentContext`, with its tags.

The surface is read, cached and reloaded as one piece; the dialogue is read for every answer that
is not cached whole. Two reading statements make a cold build, whatever the number of tables:
facts with the dialogue, and counts. Counts come last, since a slow one ends its transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from context_engine import access, keys
from context_engine.access import Denial, VisibleConversation, VisibleScope
from context_engine.coordinates import Effective
from context_engine.keys import Coordinates, Tag
from context_engine.models.base import SCHEMA_VERSION, JsonObject
from context_engine.models.context import Source, Unresolved
from context_engine.models.input import ContextBuildInput
from context_engine.models.sections import ConversationSection, Metadata, SessionSection
from context_engine.ports import Counts, Domain, DomainReads, Entry
from context_engine.reading import visible
from context_engine.rendering import (
    Rendered,
    canonical,
    hash_of,
    packed,
    render,
    size_of,
    written,
)
from context_engine.sections import trace
from context_engine.sections.conversation import (
    DialogueLimits,
    build_conversation,
    build_window,
)
from context_engine.sections.summary import with_dialogue
from context_engine.sections.surface import build_surface, wire_name
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

    surface: Rendered
    tags: frozenset[Tag]
    source: Source
    unresolved: tuple[Unresolved, ...] = ()
    """What the answer lists, once `Builder.settled`."""
    over: Entry | None = None
    """The cached surface that this is."""
    passing: bool = False
    until: datetime | None = None
    """When a date that it depends on turns: no entry of it lives longer."""
    age_ms: int = 0
    conversation: VisibleConversation | None = None
    dialogue_tags: frozenset[Tag] = frozenset()
    dialogue_told: frozenset[Tag] = frozenset()
    denials: tuple[Denial, ...] = ()
    faults: tuple[Denial, ...] = ()
    """Stored rules that cannot be used, met on the way."""


@dataclass(frozen=True, slots=True)
class Built:
    """A finished context: its bytes but for source and age, which each answer puts in front."""

    context_id: str
    context_hash: str
    source: Source
    payload: bytes
    """As `rendering.packed` made it."""
    generated_at: datetime
    summary: str
    compression: JsonObject
    operator_trace: JsonObject
    memory: str | None


class Builder:
    """Builds contexts within `limits`. Holds no state and does no I/O of its own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    # -- reading -----------------------------------------------------------------------------

    async def read_all(
        self,
        reads: DomainReads,
        at: Coordinates,
        inherited: frozenset[str],
        *,
        locale: str | None,
        now: datetime | None,
        context_id: str,
    ) -> Surfaced:
        """The reading of a cold build. Raises `NotFound` as `access.resolve` does, but for tables.

        What is out of sight is for `settled`, after the counts, which decide on a task's row. A
        surface without a requested table is made and kept as any other.
        """
        scope = await visible(
            reads, at, tail=self.limits.messages, inherited=inherited | {"table_ids"}, now=now
        )
        counts = await reads.counts(scope)
        surface = build_surface(scope, counts, at)
        return Surfaced(
            surface=render(surface, locale, _told(scope, counts), context_id),
            tags=scope.tags,
            source="build",
            passing=counts.passing,
            until=scope.until,
            conversation=scope.conversation,
            dialogue_tags=scope.dialogue_tags,
            dialogue_told=scope.dialogue_told,
            denials=scope.denials,
            faults=scope.faults,
        )

    def reload(self, cached: Entry, now_ms: int) -> Surfaced | None:
        """A proven surface out of the cache; None where its text is damaged."""
        try:
            surface = Rendered.loaded(cached.payload)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return Surfaced(
            surface=surface,
            tags=cached.tags,
            source="surface",
            over=cached,
            age_ms=max(0, now_ms - cached.built_ms),
        )

    def settled(self, known: Surfaced, inherited: frozenset[str], *, strict: bool) -> Surfaced:
        """With what the answer lists as unresolved. Raises `Denied` as `access.settle` does."""
        unresolved = access.settle(known.surface.absent, inherited, tags=known.tags, strict=strict)
        return replace(known, unresolved=unresolved)

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
        scope = await self._talk(domain, here, inherited)
        return replace(
            known,
            conversation=scope.conversation,
            dialogue_tags=scope.dialogue_tags,
            dialogue_told=scope.dialogue_told,
            denials=scope.denials,
            faults=scope.faults,
        )

    async def _talk(
        self, domain: Domain, here: Coordinates, inherited: frozenset[str]
    ) -> VisibleScope:
        """One reading does where no tool ran over a table; else it takes a snapshot of its own."""
        facts = await domain.facts(here, tail=self.limits.messages)
        if not facts.named:
            return access.resolve(facts, here, inherited=inherited)
        async with domain.snapshot() as reads:
            return await visible(reads, here, tail=self.limits.messages, inherited=inherited)

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
        clock: int | None = None,
    ) -> Built:
        """The `AgentContext` of what was read, and its evidence.

        `clock`: of the workspace, read before; evidence keeps it.
        """
        surface = known.surface
        conversation = self._conversation(request, known)
        session = _session(effective, conversation, last_hash)
        summary = with_dialogue(surface.lines, conversation, surface.locale)
        tags = keys.seal(
            self.limits.tag_secret, request.workspace_id, surface.told | known.dialogue_told
        )
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
            "contextWindow": written(build_window(conversation, self._dialogue_limits())),
            "unresolved": canonical([one.model_dump(mode="json") for one in known.unresolved]),
            "tags": canonical(list(tags)),
        }
        digest = hash_of(texts, _without_last_hash(session))
        texts["contextHash"] = canonical(digest)
        sizes = {name: size_of(texts[name]) for name in ("session", "conversation")}
        sizes["metadata"] = size_of(texts["metadata"]) if request.metadata else 0
        texts["trace"] = canonical(_trace(known, effective, conversation, sizes, remarks))
        return Built(
            context_id=context_id,
            context_hash=digest,
            source=known.source,
            payload=packed(context_id, texts),
            generated_at=now,
            summary=summary,
            compression=_compression(conversation),
            operator_trace=_operator_trace(known, clock),
            memory=conversation.summary or None if conversation is not None else None,
        )

    def _dialogue_limits(self) -> DialogueLimits:
        return DialogueLimits(self.limits.messages, self.limits.compression_chars)

    def _conversation(
        self, request: ContextBuildInput, known: Surfaced
    ) -> ConversationSection | None:
        if known.conversation is None:
            return None
        return build_conversation(
            known.conversation,
            message=request.message,
            limits=self._dialogue_limits(),
            language=language_of(known.surface.locale),
        )


def _told(scope: VisibleScope, counts: Counts) -> frozenset[Tag]:
    """A task whose row the count found out of sight tells no more than one that is missing."""
    if scope.task is None or not counts.task_row_visible:
        return scope.told
    return scope.told | scope.task.told


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
    remarks: tuple[str, ...],
) -> JsonObject:
    asked = effective.at.conversation_id is not None
    return {
        "sections": {
            **trace.of_surface(known.surface.trace, known.age_ms),
            "session": trace.of_section(sizes["session"]),
            "conversation": trace.of_conversation(conversation, sizes["conversation"], asked=asked),
            "metadata": trace.of_section(sizes["metadata"]),
        },
        "inherited": [wire_name(name) for name in effective.inherited],
        "remarks": list(remarks),
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
