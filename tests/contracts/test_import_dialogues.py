"""Real dialogues with tools as conversations, and what a context tells of each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from tests.support import dialogues
from tests.support.services import ANA, BEN, OUT
from tests.support.shared_data import dialogues_file
from tests.support.world import engine_over

TAIL = 20
"""Messages that are told as they are, at least; more where a group of tools goes further back."""
TURN_CHARS = 4_000


async def test_every_dialogue_is_told_whole_without_an_orphaned_tool_message(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Counts and texts are the file's, a result follows its call, and the first turn is no tool;
    who takes part beside the one that tools ran for is not told what they said."""
    found = dialogues.read(dialogues_file())
    assert len(found) == 29
    engine = engine_over(database, MemoryCache())

    async def told(user: str, conversation: str) -> dict[str, Any]:
        asked = {"userId": user, "workspaceId": "w", "conversationId": conversation}
        answer = await engine.build(ContextBuildInput.model_validate(asked))
        section: dict[str, Any] = json.loads(answer.context)["conversation"]
        return section

    for dialogue in found:
        await dialogues.load(services, "w", ANA, dialogue, BEN)
        messages = dialogue["messages"]
        seen = await told(ANA, dialogue["id"])
        turns = seen["recentTurns"]
        assert seen["keptMessages"] + seen["compressedMessages"] == len(messages)
        assert seen["originalChars"] == written(messages)
        assert len(turns) == seen["keptMessages"] >= min(TAIL, len(messages))
        check_groups(turns)
        for turn, said in zip(turns, messages[-len(turns) :], strict=True):
            check_turn(turn, said)
        other = await told(BEN, dialogue["id"])
        check_groups(other["recentTurns"])
        assert other["originalChars"] == written(messages), "no length of what is withheld"
        for turn, said in zip(other["recentTurns"], messages[-len(turns) :], strict=True):
            calls = said.get("tool_calls") or ()
            assert turn["withheld"] == (said["role"] == "tool" or bool(calls))
            assert said["role"] != "tool" or turn["content"] != said["content"]
            assert all(call["function"]["arguments"] not in str(turn) for call in calls)
        with pytest.raises(NotFound):
            await told(OUT, dialogue["id"])
    assert await stored(database) == {one["id"]: len(one["messages"]) for one in found}


async def test_no_number_tells_how_much_a_tool_found(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Who takes part beside the user it ran for reads the same section whatever was found: the
    same texts, the same numbers."""
    engine = engine_over(database, MemoryCache())
    told = []
    for size in (1, 5_000):
        calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        messages = [
            {"role": "assistant", "content": "I look it up.", "tool_calls": calls},
            {"role": "tool", "content": "x" * size, "tool_call_id": "a"},
        ]
        id = f"talk-{size}"
        await dialogues.load(services, "w", ANA, {"id": id, "messages": messages}, BEN)
        asked = {"userId": BEN, "workspaceId": "w", "conversationId": id}
        context = json.loads((await engine.build(ContextBuildInput.model_validate(asked))).context)
        for turn in context["conversation"]["recentTurns"]:
            del turn["at"]
        section = json.dumps(context["conversation"]).replace(id, "talk")
        told.append((section, context["contextWindow"]))
    assert told[0] == told[1]


def written(messages: list[dict[str, Any]]) -> int:
    """Characters of what people and the assistant wrote."""
    return sum(len(one.get("content") or "") for one in messages if one["role"] != "tool")


def check_groups(turns: list[dict[str, Any]]) -> None:
    """Every result has its call among the turns before it, and every call its result."""
    called: set[str] = set()
    for turn in turns:
        if turn["role"] == "tool":
            called.remove(turn["toolCallId"])
        called |= {call["id"] for call in turn["toolCalls"]}
    assert not called


def check_turn(turn: dict[str, Any], said: dict[str, Any]) -> None:
    content = said.get("content") or ""
    assert turn["role"] == said["role"]
    assert [call["id"] for call in turn["toolCalls"]] == [
        call["id"] for call in said.get("tool_calls") or ()
    ]
    assert turn["truncated"] == (len(content) > TURN_CHARS)
    if not turn["truncated"]:
        assert turn["content"] == content


async def stored(database: AsyncEngine) -> dict[str, int]:
    c = t.conversations.c
    async with database.connect() as connection:
        found = (await connection.execute(select(c.id, c.message_count))).all()
    return {row.id: row.message_count for row in found}
