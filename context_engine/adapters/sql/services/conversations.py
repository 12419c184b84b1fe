"""Conversations: every member opens them; their participants write, rename and invite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import bounded
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import ConversationChanged, Op, ParticipantsChanged
from context_engine.errors import Conflict, NotFound


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that the actor takes part in."""

    id: str
    title: str
    message_count: int


class Conversations(Service):
    async def list(self, actor_id: str, workspace_id: str) -> Sequence[Conversation]:
        """The conversations that the actor takes part in, by id."""
        c, p = t.conversations.c, t.participants.c
        query = (
            select(c.id, c.title, c.message_count)
            .select_from(t.conversations.join(t.participants, p.conversation_id == c.id))
            .where(c.workspace_id == workspace_id, p.user_id == actor_id)
            .order_by(c.id)
        )
        async with self._writer.transaction(actor_id) as tx:
            await rights.scope(tx, workspace_id)
            found = await tx.connection.execute(query)
        return [Conversation(row.id, row.title, row.message_count) for row in found]

    async def open(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        title: str,
        participant_ids: Sequence[str] = (),
        id: str | None = None,
    ) -> Written:
        """Opens a conversation between its maker and other active members."""
        conversation_id = self._writer.id_for(id, actor_id, workspace_id)
        bounded(participant_ids, "participantIds")
        users = list(dict.fromkeys((actor_id, *participant_ids)))
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.scope(tx, workspace_id)
            await rows.active_members(tx, workspace_id, users, "participantIds")
            await rows.add(
                tx,
                t.conversations,
                id=conversation_id,
                workspace_id=workspace_id,
                title=rows.named(title, "title"),
            )
            taking_part = [
                {"conversation_id": conversation_id, "user_id": user, "workspace_id": workspace_id}
                for user in users
            ]
            await tx.connection.execute(insert(t.participants), taking_part)
            _tell(tx, workspace_id, conversation_id, "created")
        return tx.written(conversation_id, 1)

    async def rename(
        self,
        actor_id: str,
        workspace_id: str,
        conversation_id: str,
        *,
        title: str,
        expected_version: int | None = None,
    ) -> Written:
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.scope(tx, workspace_id, conversation_id=conversation_id)
            values = {"title": rows.named(title, "title")}
            version = await _raise(tx, conversation_id, values, expected_version)
            _tell(tx, workspace_id, conversation_id, "updated")
        return tx.written(conversation_id, version)

    async def delete(self, actor_id: str, workspace_id: str, conversation_id: str) -> Written:
        """Removes a conversation with its messages."""
        c = t.conversations
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.scope(tx, workspace_id, conversation_id=conversation_id)
            gone = await tx.connection.execute(
                delete(c).where(c.c.id == conversation_id).returning(c.c.version)
            )
            if (version := gone.scalar_one_or_none()) is None:
                raise NotFound("conversation", conversation_id)
            _tell(tx, workspace_id, conversation_id, "deleted")
        return tx.written(conversation_id, version)

    async def add_participant(
        self, actor_id: str, workspace_id: str, conversation_id: str, user_id: str
    ) -> Written:
        """Invites an active member, who sees the conversation from its first message."""
        p = t.participants
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.scope(tx, workspace_id, conversation_id=conversation_id)
            await rows.active_members(tx, workspace_id, (user_id,), "userId")
            version = await _raise(tx, conversation_id, {}, None)
            here = (p.c.conversation_id == conversation_id, p.c.user_id == user_id)
            if await rows.find(tx, p, *here):
                raise Conflict(f"user {user_id!r} takes part already")
            await rows.add(
                tx,
                p,
                conversation_id=conversation_id,
                user_id=user_id,
                workspace_id=workspace_id,
            )
            tx.record(
                ParticipantsChanged(
                    workspace_id=workspace_id,
                    conversation_id=conversation_id,
                    user_ids=(user_id,),
                    op="added",
                )
            )
        return tx.written(conversation_id, version)

    async def remove_participant(
        self, actor_id: str, workspace_id: str, conversation_id: str, user_id: str
    ) -> Written:
        """A participant leaves, or is sent out by another."""
        p = t.participants
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.scope(tx, workspace_id, conversation_id=conversation_id)
            version = await _raise(tx, conversation_id, {}, None)
            gone = await tx.connection.execute(
                delete(p).where(p.c.conversation_id == conversation_id, p.c.user_id == user_id)
            )
            if not gone.rowcount:
                raise NotFound("participant", user_id)
            tx.record(
                ParticipantsChanged(
                    workspace_id=workspace_id,
                    conversation_id=conversation_id,
                    user_ids=(user_id,),
                    op="removed",
                )
            )
        return tx.written(conversation_id, version)


async def _raise(
    tx: Transaction, conversation_id: str, values: dict[str, str], expected_version: int | None
) -> int:
    return await rows.raise_version(
        tx, "conversation", t.conversations, {"id": conversation_id}, values, expected_version
    )


def _tell(tx: Transaction, workspace_id: str, conversation_id: str, op: Op) -> None:
    tx.record(
        ConversationChanged(workspace_id=workspace_id, conversation_id=conversation_id, op=op)
    )
