"""The domain: facts with the dialogue, and counts, of one consistent reading."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from context_engine.access import VisibleScope
from context_engine.facts import Facts
from context_engine.keys import Coordinates
from context_engine.models.sections import Count


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted under one snapshot, with the predicates that `access` made."""

    tables: Mapping[str, Count] = field(default_factory=dict)
    """Visible rows by table id."""
    view: Count | None = None
    """Rows of the current view, within the visible ones."""
    project_tasks: Count | None = None
    project_open_tasks: Count | None = None
    task_row_visible: bool = True
    """Whether the row of the requested task is among the visible ones."""
    passing: bool = False
    """A count is missing for a reason that passes: cached for 5 s at most."""


class DomainReads(Protocol):
    """One consistent snapshot of the domain, read from the primary."""

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """All that decides permission for `at`, and its dialogue, in one statement.

        The dialogue of a participant: the last `tail` messages, reaching back to whole tool
        groups, plus the older ones that a summary needs; with the count and size of all.
        """

    async def counts(self, scope: VisibleScope) -> Counts:
        """Every count of the context, in one statement. Too slow: counts that say so."""


class Domain(Protocol):
    """Raises `Unavailable` when the database is away or over its time."""

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """`DomainReads.facts` in a snapshot of its own."""

    def snapshot(self) -> AbstractAsyncContextManager[DomainReads]:
        """A REPEATABLE READ, read-only transaction on the primary."""
