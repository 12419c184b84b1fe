"""The domain: facts with the dialogue, and counts, of one consistent reading."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # who marks or publishes needs ports, and nothing of access
    from context_engine.access import Attributes, VisibleScope
    from context_engine.facts import Facts, TableFacts, UserFacts
    from context_engine.keys import Coordinates
    from context_engine.models.sections import Count
    from context_engine.policy import AttrLookup


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted under one snapshot, with the predicates that `access` made."""

    tables: Mapping[str, Count] = field(default_factory=dict)
    """Visible rows by table id."""
    links: Mapping[str, Count] = field(default_factory=dict)
    """Links in sight by the id of their field, where they lead to a table in sight."""
    view: Count | None = None
    """Rows of the current view, within the visible ones."""
    project_tasks: Count | None = None
    project_open_tasks: Count | None = None
    task_row_visible: bool = True
    """Whether the row of the requested task is among the visible ones."""
    task_title_visible: bool = True
    """Whether it is by a way that shows its primary field."""
    passing: bool = False
    """A count is missing for a reason that passes: cached for 5 s at most."""


class DomainReads(Protocol):
    """One consistent snapshot of the domain, read from the primary."""

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """Who asks, with which rights, what stands at `at`, and its dialogue: all but `tables`.

        The dialogue of a participant: the last `tail` messages, reaching back to whole tool
        groups, plus the older ones that a summary needs; with the count and size of all.
        """

    async def tables(
        self, at: Coordinates, facts: Facts, ids: Sequence[str], /
    ) -> Sequence[TableFacts]:
        """The tables named by `ids`, which a right leads into; and those around them.

        Around them: tables that they link to, that link to them without a field on this side,
        that their computed fields are made of, through any number of steps, and that policies
        and filters of all these look into.
        """

    async def attributes(
        self, at: Coordinates, user: UserFacts, lookups: Collection[AttrLookup], /
    ) -> Attributes:
        """For each lookup the values of the live rows whose key is the user's id or e-mail.

        Read without row policies. A lookup whose table or field is missing is left out: a rule
        that needs it denies. One that was not had in time is None: the rule denies for 5 s at
        most, and what would be counted by it is unavailable.
        """

    async def counts(self, scope: VisibleScope) -> Counts:
        """Every count of the context. Too slow: counts that say so. None is asked for where the
        scope says that something is `uncountable`: that is told in its place.
        """


class Domain(Protocol):
    """Raises `Unavailable` when the database is away or over its time."""

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """`DomainReads.facts` in a snapshot of its own."""

    def snapshot(self) -> AbstractAsyncContextManager[DomainReads]:
        """A REPEATABLE READ, read-only transaction on the primary."""
