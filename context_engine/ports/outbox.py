"""The outbox: changes that were committed and not yet published."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from context_engine.changes import Kind
from context_engine.tracing import Carrier


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A change that was committed and not yet published."""

    id: str
    workspace_id: str
    kind: Kind
    type: str
    """The change's, such as `grant.changed`."""
    payload: bytes
    """The `DomainChange` as camelCase JSON."""
    written_at: datetime
    """By the database's clock."""
    trace: Carrier | None = None
    """Of who wrote it."""


@dataclass(frozen=True, slots=True)
class Unpublished:
    """What was committed and not yet published, as one plain read saw it."""

    ids: frozenset[str]
    put_off: frozenset[str]
    """Workspaces with a change that its topic refused, and which may never be published."""
    timeline: str | None = None
    """The database's: another one after a failover."""


class OutboxBatch(Protocol):
    """Rows that this transaction alone holds."""

    @property
    def rows(self) -> Sequence[OutboxRow]:
        """In the order written, which says nothing about the order of commits."""

    async def published(self, ids: Sequence[str]) -> None:
        """Notes these rows as published; stands once the batch's block ends without an error."""

    async def refused(self, ids: Sequence[str]) -> None:
        """Puts these rows off, each for longer each time; stands as `published` does."""


class OutboxSource(Protocol):
    """What a relay needs. Every method raises `Unavailable` when the database is away."""

    def claim(self, limit: int) -> AbstractAsyncContextManager[OutboxBatch]:
        """At most `limit` unpublished rows that no other relay holds, in one transaction.

        Rows that were put off are left out until they are due again.
        """

    async def wait(self, timeout: float) -> bool:
        """Until rows may have been committed, or `timeout` seconds; True for the former.

        The first call opens a connection of its own and returns True at once.
        """

    async def clean(self, older_than: timedelta) -> int:
        """Removes rows published longer ago than that; returns how many."""

    async def unpublished(self, limit: int) -> Unpublished | None:
        """Every row that is committed and unpublished now, those that a relay holds included.

        None where there are more than `limit`.
        """

    async def all_published(self, ids: Collection[str]) -> bool:
        """Whether each of these rows is published; a row that was removed had been."""

    async def lag(self) -> timedelta | None:
        """Age of the oldest unpublished row, put off or not; None where all are published."""

    async def close(self) -> None:
        """Closes the connection that `wait` opened."""
