"""What a build goes by, what it knows before it writes, and what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from context_engine.access import Denial, VisibleConversation
from context_engine.keys import Tag
from context_engine.models.base import JsonObject
from context_engine.models.context import Source, Unresolved
from context_engine.ports import Entry
from context_engine.rendering import Rendered


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
    timeline: str | None = None
    """As `Facts.timeline`, of what was read last."""
    age_ms: int = 0
    conversation: VisibleConversation | None = None
    dialogue_passing: bool = False
    """What the dialogue withholds it may soon show, with no event."""
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
    kept: bytes
    """The same for the cache: without remarks, which are of this answer's moment alone."""
    generated_at: datetime
    summary: str
    compression: JsonObject
    operator_trace: JsonObject
    memory: str | None
