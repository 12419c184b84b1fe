"""The helpdesk as the engine reads it: companies are workspaces, queues tables, tickets rows.

The product's rule: a lead sees every ticket; an agent the queues that they joined; a guest in
every queue the tickets that they opened. It is told as facts (a role, grants, a policy), and
`context_engine.access` decides by them: nothing here decides what is in sight.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from sqlite3 import Row
from typing import Literal

from context_engine.access import Attributes, VisibleScope, VisibleView
from context_engine.facts import (
    ConversationFacts,
    DialogueFacts,
    Facts,
    FieldFacts,
    GrantFacts,
    MemberFacts,
    MessageFacts,
    PolicyFacts,
    TableFacts,
    UserFacts,
    ViewFacts,
    ViewHead,
    WorkspaceFacts,
)
from context_engine.keys import Coordinates
from context_engine.models.sections import Count, Role
from context_engine.policy import Any_, AttrLookup, Pred
from context_engine.ports import Counts, DomainReads
from context_engine.view_filters import NOT_COMPUTED, RowSet
from examples.own_product.conditions import condition
from examples.own_product.database import Database, Transaction, Value

OLDER_POSTS = 40
"""Posts before the tail that a summary may take from."""

ROLES: dict[str, Role] = {"lead": "admin", "agent": "none", "guest": "viewer"}
"""A level's role in the whole company. An agent's comes from the queues they joined."""

OWN_TICKETS = PolicyFacts(
    id="guests-see-their-own",
    subjects=[{"type": "role", "id": "viewer"}],
    pred={"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}},
    mode="restrictive",
)

FIELDS = (
    FieldFacts(id="subject", name="Subject", type="text", primary=True),
    FieldFacts(id="state", name="State", type="select", primary=False),
    FieldFacts(id="assignee", name="Assignee", type="user", primary=False),
)


class HelpdeskDomain:
    """`Domain` on the helpdesk's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """`HelpdeskReads.facts` in a transaction of its own."""
        async with self.snapshot() as reads:
            return await reads.facts(at, tail=tail)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[DomainReads]:
        """One state of the database for facts and counts alike."""
        async with self._database.reading() as db:
            yield HelpdeskReads(db)


class HelpdeskReads:
    """`DomainReads` in one transaction."""

    def __init__(self, db: Transaction) -> None:
        self._db = db

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """What the product knows of this user, company and queues. What it lacks stays out."""
        db, company, person = self._db, at.workspace_id, at.user_id
        found = await db.one("SELECT * FROM companies WHERE id = ?", company)
        who = await db.one("SELECT * FROM people WHERE company_id = ? AND id = ?", company, person)
        queues = [
            queue
            for id in self._queue_ids(at)
            if (queue := await self._queue(company, id)) is not None
        ]
        return Facts(
            user=_user(who) if who is not None else None,
            workspace=_workspace(found) if found is not None else None,
            member=_member(who) if who is not None else None,
            grants=await self._joined(who),
            named=tuple(queue["id"] for queue in queues),
            view=_view(at.view_id, queues) if at.view_id is not None else None,
            conversation=await self._thread(at, tail),
        )

    async def tables(
        self, at: Coordinates, _facts: Facts, ids: Sequence[str]
    ) -> tuple[TableFacts, ...]:
        """These queues. They link to nothing, and compute nothing."""
        queues = [await self._queue(at.workspace_id, id) for id in ids]
        return tuple(_table(queue) for queue in queues if queue is not None)

    async def attributes(
        self, _at: Coordinates, _user: UserFacts, _lookups: Collection[AttrLookup]
    ) -> Attributes:
        """No rule of this product looks anything up."""
        return {}

    @staticmethod
    def _queue_ids(at: Coordinates) -> dict[str, None]:
        """The requested queues, and that of the requested view, `<queue>:open`."""
        of_view = at.view_id.rpartition(":")[0] if at.view_id is not None else ""
        return dict.fromkeys((*at.table_ids, *([of_view] if of_view else [])))

    async def _queue(self, company: str, id: str) -> Row | None:
        return await self._db.one(
            "SELECT * FROM queues WHERE company_id = ? AND id = ?", company, id
        )

    async def _joined(self, who: Row | None) -> tuple[GrantFacts, ...]:
        """An agent who joined a queue is an editor in it.

        A guest who joined as an agent gets none: it would replace the role that the policy names.
        """
        if who is None or who["level"] != "agent":
            return ()
        person = who["id"]
        rows = await self._db.execute(
            "SELECT queue_id FROM queue_people WHERE person_id = ?", person
        )
        return tuple(
            GrantFacts(
                subject_type="user",
                subject_id=person,
                scope_type="table",
                scope_id=row["queue_id"],
                role="editor",
            )
            for row in rows
        )

    async def _thread(self, at: Coordinates, tail: int) -> ConversationFacts | None:
        thread = await self._db.one(
            "SELECT t.*, EXISTS (SELECT 1 FROM thread_people p WHERE p.thread_id = t.id"
            " AND p.person_id = ?) AS mine FROM threads t WHERE t.id = ? AND t.company_id = ?",
            at.user_id,
            at.conversation_id,
            at.workspace_id,
        )
        if thread is None:
            return None
        mine = bool(thread["mine"])
        return ConversationFacts(
            id=thread["id"],
            title=thread["title"],
            is_participant=mine,
            dialogue=await self._dialogue(thread["id"], tail) if mine else DialogueFacts(),
        )

    async def _dialogue(self, thread: str, tail: int) -> DialogueFacts:
        """The last posts with those before them, oldest first, and the size of all."""
        (size,) = await self._db.execute(
            "SELECT count(*) AS posts, coalesce(sum(length(text)), 0) AS chars"
            " FROM posts WHERE thread_id = ?",
            thread,
        )
        posts = await self._db.execute(
            "SELECT * FROM posts WHERE thread_id = ? ORDER BY position DESC LIMIT ?",
            thread,
            tail + OLDER_POSTS,
        )
        return DialogueFacts(
            messages=tuple(_message(post) for post in reversed(posts)),
            message_count=size["posts"],
            total_chars=size["chars"],
        )

    async def counts(self, scope: VisibleScope) -> Counts:
        """Tickets in sight, by the conditions that `access` made."""
        tables = {table.id: await self._count(table.id, table.rows) for table in scope.tables}
        view = await self._count_view(scope.view) if scope.view is not None else None
        return Counts(tables=tables, view=view)

    async def _count_view(self, view: VisibleView) -> Count:
        """A filter in the language of views (`where`) is more than this product can compute."""
        if view.where is not None:
            return Count.missing(NOT_COMPUTED)
        return await self._count(view.table_id, view.rows, view.filter)

    async def _count(self, queue: str, rows: tuple[RowSet, ...], also: Pred = True) -> Count:
        """Tickets of a queue that are in any of `rows`: one for each way into it."""
        values: list[Value] = [queue]
        ways = Any_(any=tuple(one.pred for one in rows if one.where is None))
        seen, filtered = condition(ways, values), condition(also, values)
        (row,) = await self._db.execute(
            "SELECT count(*) AS tickets FROM tickets"  # noqa: S608 - values are bound
            f" WHERE queue_id = ? AND {seen} AND {filtered}",
            *values,
        )
        return Count.of(row["tickets"])


def _user(who: Row) -> UserFacts:
    return UserFacts(
        id=who["id"], name=who["name"], email_norm=None, locale=None, timezone=None, active=True
    )


def _workspace(company: Row) -> WorkspaceFacts:
    return WorkspaceFacts(id=company["id"], name=company["name"], organization_id=None)


def _member(who: Row) -> MemberFacts:
    return MemberFacts(role=ROLES[who["level"]], active=True)


def _view(id: str, queues: list[Row]) -> ViewHead | None:
    """The view of open tickets that each queue has."""
    if all(id != f"{queue['id']}:open" for queue in queues):
        return None
    queue = id.rpartition(":")[0]
    return ViewHead(id=id, table_id=queue, ownership="collaborative", owner_id=None)


def _table(queue: Row) -> TableFacts:
    return TableFacts(
        id=queue["id"],
        name=queue["name"],
        policy_default="show_all",
        policies=(OWN_TICKETS,),
        fields=FIELDS,
        views=(_open_tickets(queue["id"]),),
    )


def _open_tickets(queue: str) -> ViewFacts:
    return ViewFacts(
        id=f"{queue}:open",
        name="Open tickets",
        type="list",
        ownership="collaborative",
        owner_id=None,
        filter={"cmp": {"ref": "field:state", "op": "eq", "operand": {"literal": "open"}}},
        hidden=("state",),
        field_order=("subject", "assignee"),
    )


def _message(post: Row) -> MessageFacts:
    role: Literal["user", "assistant"] = "user" if post["author_id"] is not None else "assistant"
    return MessageFacts(
        id=f"post-{post['position']}",
        role=role,
        author_id=post["author_id"],
        content=post["text"],
        chars=len(post["text"]),
        at=datetime.fromisoformat(post["at"]),
    )
