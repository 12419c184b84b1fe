"""One write: a transaction, its changes into the outbox, the commit, and then the marks.

Nothing is acknowledged before it is marked: a request that arrives after the answer must not be
served what was true before it. The outbox repeats the mark, in case this process dies between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine import tracing
from context_engine.adapters.sql import outbox
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.faults import database_faults
from context_engine.adapters.sql.services.marking import (
    ENFORCE_SECONDS,
    LONGEST_LIFE,
    Marker,
    Marking,
    Token,
    texts_of,
)
from context_engine.adapters.sql.services.texts import clean_id, given_or_new
from context_engine.changes import AnyChange
from context_engine.ports import Marked


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write."""

    id: str
    version: int
    """Version of the thing after the write: a later write may expect it."""
    tokens: tuple[Token, ...]
    """One for each workspace that the write touched."""
    changes: tuple[AnyChange, ...]
    """What went into the outbox: for the product's servers, since it may name what its actor does
    not see (the private projects of a member who is removed, the tables that depend on a field)."""

    @property
    def after(self) -> tuple[str, ...]:
        """What a later request names (`options.after`) to be answered after this write."""
        return texts_of(self.tokens)

    @property
    def token(self) -> Token | None:
        """The token where one workspace was touched, which is the rule; None without any."""
        return self.tokens[0] if self.tokens else None

    @property
    def marked(self) -> bool:
        """Whether every mark stands."""
        return all(isinstance(token, Marked) for token in self.tokens)


@dataclass(slots=True)
class Transaction:
    """An open write. Statements run on `connection`; `record` notes what stops being true."""

    connection: AsyncConnection
    actor_id: str
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    changes: list[AnyChange] = field(default_factory=list)
    tokens: tuple[Token, ...] | None = None

    def record(self, change: AnyChange) -> None:
        """Adds a change to those that go into the outbox with the commit."""
        self.changes.append(change.model_copy(update={"actor_id": self.actor_id, "at": self.now}))

    def written(self, id: str, version: int) -> Written:
        """The answer, once the transaction's block has ended."""
        assert self.tokens is not None, "the transaction is still open"
        return Written(id=id, version=version, tokens=self.tokens, changes=tuple(self.changes))


class Writer:
    """Opens transactions and sees each one through to its marks."""

    def __init__(
        self,
        database: AsyncEngine,
        cache: Marker,
        *,
        enforce_seconds: float = ENFORCE_SECONDS,
        entry_life: timedelta = LONGEST_LIFE,
        ids_as_given: bool = False,
    ) -> None:
        """As `DomainServices`."""
        self._database, self._ids_as_given = database, ids_as_given
        self._marking = Marking(cache, enforce_seconds, entry_life)

    def id_for(self, given: str | None, actor_id: str, workspace_id: str, *within: str) -> str:
        """The id of what an actor makes in a workspace, in a table of it and so on.

        Ids are one name space for all. Were a given one taken as it is, whoever gives it would
        learn that something has it, hidden or not: so it is made the actor's own, of that place,
        and is taken only by what the same actor made there by the same id. Another try of the
        same create makes nothing twice.
        """
        if given is None or self._ids_as_given:
            return given_or_new(given)
        own = json.dumps([workspace_id, *within, actor_id, clean_id(given, "id")])
        return hashlib.sha256(own.encode()).hexdigest()[:32]

    @asynccontextmanager
    async def transaction(
        self, actor_id: str, workspace_id: str | None = None, *, exclusive: bool = False
    ) -> AsyncIterator[Transaction]:
        """A write in READ COMMITTED, committed when the block ends without an error.

        The workspace is locked before anything is read of it: shared, so that nobody's rights
        change between check and commit; `exclusive` by what changes rights. So two who remove
        each other's ADMIN come one after the other.

        Raises `Conflict` for a name that is taken or a deadlock
        lost, `Unavailable` when the database is away, and after the commit `NotYetEnforced` for
        a change of access that is not enforced in time.
        """
        actor_id = clean_id(actor_id, "actorId")  # it travels with the change, which has bounds
        with tracing.span("write"):
            async with database_faults(), self._database.begin() as connection:
                tx = Transaction(connection, actor_id)
                if workspace_id is not None:
                    await lock_workspace(connection, workspace_id, exclusive=exclusive)
                yield tx
                timeline = await outbox.put(connection, tx.changes)
            tx.tokens = await self._marking.done(tx.changes, timeline)


async def lock_workspace(
    connection: AsyncConnection, workspace_id: str, *, exclusive: bool
) -> None:
    """Locks a workspace's row until the commit.

    One that is missing is found so by whoever looks for the actor's membership: after the same
    statements as one that is not the actor's.
    """
    query = select(t.workspaces.c.id).where(t.workspaces.c.id == workspace_id)
    # NO KEY: rows that refer to the workspace may still be written by others.
    lock = query.with_for_update(key_share=True) if exclusive else query.with_for_update(read=True)
    await connection.execute(lock)
