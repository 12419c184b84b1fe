"""One write: a transaction, its changes into the outbox, the commit, and then the marks.

Nothing is acknowledged before it is marked: a request that arrives after the answer must not be
served what was true before it. The outbox repeats the mark, in case this process dies between.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine.adapters.sql import outbox
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.faults import database_faults
from context_engine.adapters.sql.services.texts import clean_id, given_or_new
from context_engine.changes import AnyChange, kind_of
from context_engine.errors import NotYetEnforced, Unavailable
from context_engine.invalidation import tags_touched
from context_engine.keys import Tag
from context_engine.ports import Marked
from context_engine.tokens import Unproven, of_mark, text_of

ACCESS_KINDS = frozenset({"permission-change", "membership"})
"""Kinds whose writer is told when caches may still serve what was before."""

ENFORCE_SECONDS = 5.0
"""As `Settings.enforce_seconds`."""

MARK_SECONDS = 2.0
"""How long the one try of a change that does not wait may take."""

RETRY_SECONDS = 0.1
"""Pause between two tries to mark."""

LONGEST_LIFE = timedelta(hours=1)
"""The longest life of an entry that settings allow."""

CLOCKS = timedelta(seconds=1)
"""How far two clocks that are slewed may run apart within it."""

FAILED_OVER = (
    "the store was failed over, and its deposed primary may answer for a while"
    " (min-replicas-max-lag)"
)


class Marker(Protocol):
    """The part of `ContextCache` that a writer needs."""

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        """See `ContextCache.mark`."""


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The token of a change that is committed while its mark does not stand yet."""

    workspace_id: str
    outbox_id: str
    """The last change of the write; a request that names it is built from the primary."""
    reason: str


Token = Marked | Unmarked
"""What a later request may name, to be answered from a state that has the write in it."""


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


def texts_of(tokens: Iterable[Token]) -> tuple[str, ...]:
    """Tokens as they travel."""
    return tuple(
        text_of(of_mark(one) if isinstance(one, Marked) else Unproven(one.outbox_id))
        for one in tokens
    )


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
        self._database, self._cache, self._enforce_seconds = database, cache, enforce_seconds
        self._gone_seconds = (entry_life + CLOCKS).total_seconds()
        self._ids_as_given = ids_as_given

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
        async with database_faults(), self._database.begin() as connection:
            tx = Transaction(connection, actor_id)
            if workspace_id is not None:
                await lock_workspace(connection, workspace_id, exclusive=exclusive)
            yield tx
            timeline = await outbox.put(connection, tx.changes)
        tx.tokens = await self._marked(tx.changes, timeline)

    async def _marked(
        self, changes: list[AnyChange], timeline: str | None = None
    ) -> tuple[Token, ...]:
        """Call it after the commit, at once."""
        committed = _now()
        by_workspace: dict[str, list[AnyChange]] = defaultdict(list)
        for change in changes:
            by_workspace[change.workspace_id].append(change)
        tokens = await asyncio.gather(
            *(self._token(workspace, its, timeline) for workspace, its in by_workspace.items())
        )
        late = [token for token in tokens if isinstance(token, Unmarked)]
        gone = _now() - committed >= self._gone_seconds  # all that was built before the commit
        if late and not gone and any(kind_of(change) in ACCESS_KINDS for change in changes):
            raise NotYetEnforced(
                "cache",
                "the change is committed, but contexts built before it may be served until it is"
                f" relayed or they expire (outbox {late[0].outbox_id}): {late[0].reason}",
                after=texts_of(tokens),
            )
        return tuple(tokens)

    async def _token(
        self, workspace_id: str, changes: list[AnyChange], timeline: str | None
    ) -> Token:
        """Marks once; what changes access tries until it is enforced, or its time is up.

        A mark that is not settled yet is set again once it would be: who took it may be deposed.
        """
        tags = frozenset[Tag]().union(*map(tags_touched, changes))
        insist = any(kind_of(change) in ACCESS_KINDS for change in changes)
        seconds = min(self._enforce_seconds, self._gone_seconds) if insist else MARK_SECONDS
        end = _now() + seconds
        while True:
            pause = RETRY_SECONDS
            try:
                async with asyncio.timeout_at(end):
                    marked = await self._cache.mark(
                        workspace_id, tags, create=True, timeline=timeline
                    )
                if not marked.wait_ms:
                    return marked
                reason, pause = FAILED_OVER, max(pause, marked.wait_ms / 1000)
            except Unavailable as away:
                reason = away.message
            except TimeoutError:
                reason = "no answer in time"
            left = end - _now()
            if insist and pause < left:
                await asyncio.sleep(pause)
                continue
            if insist and seconds == self._gone_seconds:
                await asyncio.sleep(left)
            return Unmarked(workspace_id, changes[-1].change_id, reason)


def _now() -> float:
    return asyncio.get_running_loop().time()


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
