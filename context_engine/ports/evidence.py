"""Evidence: what the engine told an agent, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from context_engine.models.base import JsonObject
from context_engine.models.context import Source


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """Evidence of one build: what the engine told an agent."""

    context_id: str
    context_hash: str
    workspace_id: str
    user_id: str
    scope_key: str
    source: Source
    summary: str
    context: bytes
    """The AgentContext as JSON."""
    compression: JsonObject
    operator_trace: JsonObject
    """With the rules that denied: for operators, never for agents."""
    generated_at: datetime
    request_id: str | None = None
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """A snapshot in a list: for whom, when, and how its summary begins."""

    context_id: str
    context_hash: str
    workspace_id: str
    user_id: str
    source: Source
    summary: str
    """Its first `SUMMARY_START` characters."""
    generated_at: datetime
    request_id: str | None = None


SUMMARY_START = 400
"""Characters of a summary that a list reads."""


class Snapshots(Protocol):
    async def save(self, record: SnapshotRecord) -> None:
        """Stores evidence. Raises `Unavailable`: evidence is not optional."""

    async def get(self, context_id: str) -> SnapshotRecord | None:
        """One snapshot, or None."""


class Clock(Protocol):
    def __call__(self) -> datetime:
        """Now, with a time zone: for `generated_at`, never for freshness."""
