"""Messages: written by participants, with the sizes that a build needs counted here.

A tool's call and its result keep for whom they ran, over which tables, and under which rights:
whoever reads later is shown them only under the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from pydantic import JsonValue
from sqlalchemy import Row, delete, func, select, update

from context_engine import access
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import bounded, clean_text
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import MessageChanged
from context_engine.errors import InvalidRequest, NotFound, NotPermitted
from context_engine.models.base import JsonObject
from context_engine.models.input import MAX_AGENTS, MAX_TABLES, MESSAGE_CHARS

MessageRole = Literal["user", "assistant", "system", "tool"]
MOST_CALLS = 64
"""Most tool calls in one message."""
MOST_CALL_BYTES = 64 * 1024
"""Most bytes of a message's tool calls, all together, as JSON."""


class Messages(Service):
    async def add(
        self,
        actor_id: str,
        workspace_id: str,
        conversation_id: str,
        content: str,
        *,
        role: str = "user",
        tool_calls: Sequence[JsonObject] = (),
        tool_call_id: str | None = None,
        table_ids: Sequence[str] = (),
        agent_stack: Sequence[str] = (),
        id: str | None = None,
    ) -> Written:
        """Adds a message at the end.

        `role`: user, assistant, system or tool. A user's message is the actor's; tools ran on
        behalf of the actor. A message with `tool_calls` (each with an `id`), and a `tool`
        message with the `tool_call_id` that it answers, name in `table_ids` the tables that the
        tool ran over and in `agent_stack` the agents it ran under: all must be in sight.
        """
        bounded(table_ids, "tableIds", most=MAX_TABLES)
        bounded(agent_stack, "agentStack", most=MAX_AGENTS)
        message_id = self._writer.id_for(id, actor_id, workspace_id, conversation_id)
        text = clean_text(content, "content", chars=MESSAGE_CHARS)
        of_tool = _check_shape(role, text, tool_calls, tool_call_id, table_ids)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            # One look for all: rights are what they are under these agents, as a build has it.
            seen = await rights.scope(
                tx,
                workspace_id,
                conversation_id=conversation_id,
                table_ids=tuple(table_ids),
                agent_stack=tuple(agent_stack),
            )
            # How long a tool's result is may be told to no one else who takes part.
            written = 0 if role == "tool" else len(text)
            await _count(tx, conversation_id, messages=1, chars=written)
            if tool_call_id is not None:
                await _check_answered(tx, conversation_id, tool_call_id)
            await rows.add(
                tx,
                t.messages,
                id=message_id,
                workspace_id=workspace_id,
                conversation_id=conversation_id,
                position=await _next_position(tx, conversation_id),
                role=role,
                author_id=actor_id if role == "user" else None,
                content=text,
                chars=len(text),
                tool_calls=list(tool_calls),
                tool_call_id=tool_call_id,
                on_behalf_of=actor_id if of_tool else None,
                table_ids=list(table_ids),
                rights=access.rights_of(seen, table_ids),
            )
            _tell(tx, workspace_id, conversation_id, message_id, "added")
        return tx.written(message_id, 1)

    async def edit(
        self,
        actor_id: str,
        workspace_id: str,
        conversation_id: str,
        message_id: str,
        content: str,
        *,
        expected_version: int | None = None,
    ) -> Written:
        """Changes the text of one's own message."""
        text = clean_text(content, "content", chars=MESSAGE_CHARS)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            found = await _own(tx, workspace_id, conversation_id, message_id)
            await _count(tx, conversation_id, messages=0, chars=len(text) - found.chars)
            version = await rows.raise_version(
                tx,
                "message",
                t.messages,
                {"id": message_id},
                {"content": text, "chars": len(text)},
                expected_version,
            )
            _tell(tx, workspace_id, conversation_id, message_id, "edited")
        return tx.written(message_id, version)

    async def delete(
        self, actor_id: str, workspace_id: str, conversation_id: str, message_id: str
    ) -> Written:
        """Removes one's own message."""
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            found = await _own(tx, workspace_id, conversation_id, message_id)
            await _count(tx, conversation_id, messages=-1, chars=-found.chars)
            await tx.connection.execute(delete(t.messages).where(t.messages.c.id == message_id))
            _tell(tx, workspace_id, conversation_id, message_id, "deleted")
        return tx.written(message_id, found.version)


def _check_shape(
    role: str,
    content: str,
    tool_calls: Sequence[Mapping[str, JsonValue]],
    tool_call_id: str | None,
    table_ids: Sequence[str],
) -> bool:
    """Whether it is a tool's call or result. Raises `InvalidRequest` for what does not fit."""
    if role not in get_args(MessageRole):
        raise InvalidRequest(f"use one of {', '.join(get_args(MessageRole))}", field="role")
    if tool_calls and role != "assistant":
        raise InvalidRequest("only an assistant calls tools; leave it out", field="toolCalls")
    if (tool_call_id is not None) != (role == "tool"):
        raise InvalidRequest("a tool's message, and no other, names its call", field="toolCallId")
    if len(tool_calls) > MOST_CALLS:
        raise InvalidRequest(f"more than {MOST_CALLS}; send fewer", field="toolCalls")
    for index, call in enumerate(tool_calls):
        if not isinstance(call.get("id"), str) or not call["id"]:
            raise InvalidRequest("give each call an id", field=f"toolCalls.{index}.id")
    _check_size(tool_calls)
    of_tool = bool(tool_calls) or role == "tool"
    if table_ids and not of_tool:
        raise InvalidRequest("only tools run over tables; leave it out", field="tableIds")
    if not content and not of_tool:
        raise InvalidRequest("is empty; write a text", field="content")
    return of_tool


def _check_size(tool_calls: Sequence[Mapping[str, JsonValue]]) -> None:
    try:
        text = json.dumps(list(tool_calls), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"no JSON ({error}); write it as JSON", field="toolCalls") from error
    if (size := len(text.encode())) > MOST_CALL_BYTES:
        raise InvalidRequest(
            f"{size:,} bytes of JSON, more than {MOST_CALL_BYTES:,} in all; name what is large"
            " by an id",
            field="toolCalls",
        )


async def _check_answered(tx: Transaction, conversation_id: str, tool_call_id: str) -> None:
    """A result without its call would be refused by every model that reads it."""
    m = t.messages.c
    call = m.tool_calls.contains([{"id": tool_call_id}])
    if await rows.find(tx, t.messages, m.conversation_id == conversation_id, call) is None:
        raise InvalidRequest(
            f"no message of the conversation calls {tool_call_id!r}; add the call first",
            field="toolCallId",
        )


async def _count(tx: Transaction, conversation_id: str, *, messages: int, chars: int) -> None:
    """Keeps the conversation's counters; its row, locked by this, orders the messages."""
    c = t.conversations
    done = await tx.connection.execute(
        update(c)
        .where(c.c.id == conversation_id)
        .values(
            message_count=c.c.message_count + messages,
            total_chars=c.c.total_chars + chars,
            version=c.c.version + 1,
        )
    )
    if not done.rowcount:
        raise NotFound("conversation", conversation_id)


async def _next_position(tx: Transaction, conversation_id: str) -> int:
    m = t.messages.c
    query = select(func.coalesce(func.max(m.position), 0)).where(
        m.conversation_id == conversation_id
    )
    return cast("int", (await tx.connection.execute(query)).scalar_one()) + 1


async def _own(
    tx: Transaction, workspace_id: str, conversation_id: str, message_id: str
) -> Row[Any]:
    """A message of the actor's own, locked. Raises `NotFound`, `NotPermitted`."""
    await rights.scope(tx, workspace_id, conversation_id=conversation_id)
    # The conversation first, as whoever adds a message locks it.
    await rows.find(tx, t.conversations, t.conversations.c.id == conversation_id, lock=True)
    m = t.messages.c
    here = (m.conversation_id == conversation_id, m.id == message_id)
    found = await rows.find(tx, t.messages, *here, lock=True)
    if found is None:
        raise NotFound("message", message_id)
    if found.author_id != tx.actor_id:
        raise NotPermitted("only its author changes a message; write another")
    return found


def _tell(
    tx: Transaction,
    workspace_id: str,
    conversation_id: str,
    message_id: str,
    op: Literal["added", "edited", "deleted"],
) -> None:
    tx.record(
        MessageChanged(
            workspace_id=workspace_id,
            conversation_id=conversation_id,
            message_id=message_id,
            op=op,
        )
    )
