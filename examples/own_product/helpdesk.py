"""The product's writes. Each says in the same transaction what it made untrue, then emits it.

The outbox is what makes it safe: a change that was committed and not emitted, because the broker
was away or the process ended, is emitted by the next `publish`. Twice does no harm.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Literal
from uuid import uuid4

from context_engine.changes import (
    AnyChange,
    GrantChanged,
    GrantScope,
    MemberChanged,
    MessageChanged,
    ParticipantsChanged,
    RecordsChanged,
    Subject,
    TableChanged,
    domain_change,
)
from context_engine.errors import NotYetEnforced, Unavailable
from context_engine.invalidation import Invalidator
from context_engine.ports import ContextCache
from examples.own_product.database import Database, Transaction

Emit = Callable[[AnyChange], Awaitable[object]]
"""Where changes go: `ContextClient.emit` (the bus), or `marking(cache)` (at once)."""

Level = Literal["lead", "agent", "guest"]


def marking(cache: ContextCache) -> Emit:
    """Takes back in this process, before the write answers: for a product that reaches Redis."""
    invalidator = Invalidator(cache)

    async def emit(change: AnyChange) -> None:
        (mark,) = await invalidator.mark([change])
        await invalidator.evict(change, mark)

    return emit


class Helpdesk:
    """What people do in the product. Who may do what is the product's to check, not shown here."""

    def __init__(self, database: Database, emit: Emit) -> None:
        self._database, self._emit = database, emit

    # -- people ------------------------------------------------------------------------------

    async def found(self, company: str, name: str, lead: str) -> None:
        """A company with its first lead."""
        async with self._writing() as db:
            await db.execute("INSERT INTO companies VALUES (?, ?)", company, name)
            await self._person(db, company, lead, "lead")

    async def add_person(self, company: str, person: str, level: Level) -> None:
        async with self._writing() as db:
            await self._person(db, company, person, level)

    async def _person(self, db: Transaction, company: str, person: str, level: Level) -> None:
        await db.execute(
            "INSERT INTO people VALUES (?, ?, ?, ?)", person, company, person.title(), level
        )
        await _note(db, MemberChanged(workspace_id=company, user_id=person, op="added"))

    async def set_level(self, company: str, person: str, level: Level) -> None:
        async with self._writing() as db:
            await db.execute(
                "UPDATE people SET level = ? WHERE company_id = ? AND id = ?",
                level, company, person,
            )  # fmt: skip
            await _note(db, MemberChanged(workspace_id=company, user_id=person, op="updated"))

    async def remove_person(self, company: str, person: str) -> None:
        """One change for the membership, and one for each thread that the person leaves."""
        async with self._writing() as db:
            left = await db.execute(
                "DELETE FROM thread_people WHERE person_id = ? AND thread_id IN"
                " (SELECT id FROM threads WHERE company_id = ?) RETURNING thread_id",
                person, company,
            )  # fmt: skip
            await db.execute(
                "DELETE FROM queue_people WHERE person_id = ? AND queue_id IN"
                " (SELECT id FROM queues WHERE company_id = ?)",
                person, company,
            )  # fmt: skip
            await db.execute("DELETE FROM people WHERE company_id = ? AND id = ?", company, person)
            await _note(db, MemberChanged(workspace_id=company, user_id=person, op="removed"))
            for row in left:
                await _note(db, _participants(company, row["thread_id"], person, "removed"))

    # -- queues and tickets ------------------------------------------------------------------

    async def open_queue(self, company: str, queue: str, name: str) -> None:
        async with self._writing() as db:
            await db.execute("INSERT INTO queues VALUES (?, ?, ?)", queue, company, name)
            await _note(db, TableChanged(workspace_id=company, table_id=queue, op="created"))

    async def rename_queue(self, company: str, queue: str, name: str) -> None:
        async with self._writing() as db:
            await db.execute("UPDATE queues SET name = ? WHERE id = ?", name, queue)
            await _note(db, TableChanged(workspace_id=company, table_id=queue, op="renamed"))

    async def join_queue(self, company: str, queue: str, person: str) -> None:
        async with self._writing() as db:
            await db.execute("INSERT INTO queue_people VALUES (?, ?)", queue, person)
            await _note(db, _grant(company, queue, person, "created"))

    async def leave_queue(self, company: str, queue: str, person: str) -> None:
        async with self._writing() as db:
            await db.execute(
                "DELETE FROM queue_people WHERE queue_id = ? AND person_id = ?", queue, person
            )
            await _note(db, _grant(company, queue, person, "deleted"))

    async def open_ticket(self, company: str, queue: str, subject: str, by: str) -> str:
        """The new ticket's id."""
        ticket = uuid4().hex
        async with self._writing() as db:
            await db.execute(
                "INSERT INTO tickets (id, queue_id, subject, opened_by) VALUES (?, ?, ?, ?)",
                ticket, queue, subject, by,
            )  # fmt: skip
            await _note(
                db,
                RecordsChanged(
                    workspace_id=company, table_id=queue, record_ids=(ticket,), op="created"
                ),
            )
        return ticket

    async def close_ticket(self, company: str, queue: str, ticket: str) -> None:
        """An update says which fields it wrote: counts that read no other stay."""
        async with self._writing() as db:
            await db.execute("UPDATE tickets SET state = 'closed' WHERE id = ?", ticket)
            await _note(
                db,
                RecordsChanged(
                    workspace_id=company,
                    table_id=queue,
                    record_ids=(ticket,),
                    op="updated",
                    field_ids=("state",),
                ),
            )

    # -- threads -----------------------------------------------------------------------------

    async def open_thread(self, company: str, thread: str, title: str, *people: str) -> None:
        async with self._writing() as db:
            await db.execute("INSERT INTO threads VALUES (?, ?, ?)", thread, company, title)
            for person in people:
                await db.execute("INSERT INTO thread_people VALUES (?, ?)", thread, person)
                await _note(db, _participants(company, thread, person, "added"))

    async def post(self, company: str, thread: str, author: str, text: str) -> None:
        async with self._writing() as db:
            (row,) = await db.execute(
                "INSERT INTO posts (thread_id, author_id, text, at) VALUES (?, ?, ?, ?)"
                " RETURNING position",
                thread, author, text, datetime.now(UTC).isoformat(),
            )  # fmt: skip
            await _note(
                db,
                MessageChanged(
                    workspace_id=company,
                    conversation_id=thread,
                    message_id=f"post-{row['position']}",
                    op="added",
                ),
            )

    # -- emitting ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Transaction]:
        """Commits the write with its changes, then publishes. Never the other way round.

        Raises `NotYetEnforced` where it is committed and could not be published.
        """
        async with self._database.writing() as db:
            yield db
        try:
            await self.publish()
        except Unavailable as away:
            raise NotYetEnforced(
                away.part,
                "the write is committed, and its change is emitted with the next one; until then"
                f" answers may be of the state before it ({away.message})",
            ) from away

    async def publish(self) -> None:
        """Emits what was committed and not yet emitted, in order. Call it at the start too.

        Raises `Unavailable` where `emit` does: the rest stays for the next call.
        """
        async with self._database.reading() as db:
            waiting = await db.execute("SELECT position, change FROM outbox ORDER BY position")
        for row in waiting:
            await self._emit(domain_change.validate_json(row["change"]))
            async with self._database.writing() as db:
                await db.execute("DELETE FROM outbox WHERE position = ?", row["position"])


async def _note(db: Transaction, change: AnyChange) -> None:
    await db.execute("INSERT INTO outbox (change) VALUES (?)", change.model_dump_json())


def _grant(
    company: str, queue: str, person: str, op: Literal["created", "deleted"]
) -> GrantChanged:
    return GrantChanged(
        workspace_id=company,
        subject=Subject(type="user", id=person),
        scope=GrantScope(type="table", id=queue),
        op=op,
    )


def _participants(
    company: str, thread: str, person: str, op: Literal["added", "removed"]
) -> ParticipantsChanged:
    return ParticipantsChanged(
        workspace_id=company, conversation_id=thread, user_ids=(person,), op=op
    )
