"""Conversations and messages: who takes part, what is counted, what tools leave behind."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import InvalidRequest, NotFound, NotPermitted
from context_engine.models.base import JsonObject
from tests.support.services import ANA, BEN, NED, OUT, VIC, row

CALL: JsonObject = {"id": "call-1", "name": "read"}


@pytest.fixture
async def talk(services: DomainServices) -> str:
    await services.conversations.open(VIC, "w", title="Talk", participant_ids=[ANA], id="c")
    return "c"


async def counters(database: AsyncEngine) -> tuple[int, int]:
    found = await row(database, t.conversations, "c")
    return found.message_count, found.total_chars


async def test_counters_follow_every_message(
    services: DomainServices, talk: str, database: AsyncEngine
) -> None:
    """Added, edited and deleted: the counters are what counting would give."""
    first = await services.messages.add(VIC, "w", talk, "hello")
    await services.messages.add(ANA, "w", talk, "日本", role="assistant")
    assert await counters(database) == (2, 7)
    await services.messages.edit(VIC, "w", talk, first.id, "hi")
    assert await counters(database) == (2, 4)
    await services.messages.delete(VIC, "w", talk, first.id)
    assert await counters(database) == (1, 2)


async def test_a_tools_result_is_a_message_whose_size_is_not_counted(
    services: DomainServices, talk: str, database: AsyncEngine
) -> None:
    """Who takes part, and may not see it, would learn its length; the text beside a call counts."""
    call = {"role": "assistant", "tool_calls": [CALL]}
    await services.messages.add(VIC, "w", talk, "I look.", **call)  # type: ignore[arg-type]
    await services.messages.add(VIC, "w", talk, "x" * 900, role="tool", tool_call_id="call-1")
    assert await counters(database) == (2, len("I look."))


async def test_messages_written_at_once_are_all_counted_and_ordered(
    services: DomainServices, talk: str, database: AsyncEngine
) -> None:
    """Ten writers: ten messages, positions 1 to 10, and the sum of their sizes."""
    await asyncio.gather(*(services.messages.add(VIC, "w", talk, "x" * n) for n in range(1, 11)))
    m = t.messages.c
    async with database.connect() as connection:
        query = select(func.array_agg(m.position), func.sum(m.chars))
        positions, chars = (await connection.execute(query)).one()
    assert sorted(positions) == list(range(1, 11))
    assert await counters(database) == (10, chars)


async def test_a_conversation_is_its_participants_alone(
    services: DomainServices, talk: str
) -> None:
    """Whatever the role: an outsider does not find it, an invited one writes."""
    with pytest.raises(NotFound, match="conversation 'c'"):
        await services.messages.add(BEN, "w", talk, "hello")
    await services.conversations.add_participant(VIC, "w", talk, NED)
    await services.messages.add(NED, "w", talk, "hello")
    await services.conversations.remove_participant(ANA, "w", talk, NED)
    with pytest.raises(NotFound):
        await services.messages.add(NED, "w", talk, "again")
    with pytest.raises(InvalidRequest, match="not an active member"):
        await services.conversations.add_participant(VIC, "w", talk, OUT)


async def test_a_message_is_changed_by_its_author_alone(
    services: DomainServices, talk: str
) -> None:
    """Another participant has read it, and may not rewrite it."""
    written = await services.messages.add(VIC, "w", talk, "hello")
    with pytest.raises(NotPermitted):
        await services.messages.edit(ANA, "w", talk, written.id, "bye")
    with pytest.raises(NotPermitted):
        await services.messages.delete(ANA, "w", talk, written.id)


async def test_tools_keep_for_whom_and_under_which_rights_they_ran(
    services: DomainServices, talk: str, database: AsyncEngine
) -> None:
    """Call and result store the same; the digest differs for who sees other rows."""
    call = await services.messages.add(
        VIC, "w", talk, "", role="assistant", tool_calls=[CALL], table_ids=["tbl"]
    )
    result = await services.messages.add(
        VIC, "w", talk, "3 rows", role="tool", tool_call_id="call-1", table_ids=["tbl"]
    )
    other = await services.messages.add(
        ANA, "w", talk, "3 rows", role="tool", tool_call_id="call-1", table_ids=["tbl"]
    )
    stored = [await row(database, t.messages, id) for id in (call.id, result.id, other.id)]
    assert [one.on_behalf_of for one in stored] == [VIC, VIC, ANA]
    assert [one.author_id for one in stored] == [None, None, None]
    assert stored[0].rights == stored[1].rights != stored[2].rights
    assert set(stored[0].rights) == {"tbl"}


async def test_a_tool_cannot_run_over_a_table_out_of_sight(
    services: DomainServices, talk: str, database: AsyncEngine
) -> None:
    """Neither is the message stored, nor counted."""
    await services.tables.trash(ANA, "w", "tbl")
    with pytest.raises(NotFound, match="table 'tbl'"):
        await services.messages.add(
            VIC, "w", talk, "", role="assistant", tool_calls=[CALL], table_ids=["tbl"]
        )
    assert await counters(database) == (0, 0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"role": "robot"}, "use one of user"),
        ({"role": "user", "tool_calls": [CALL]}, "only an assistant"),
        ({"role": "tool"}, "names its call"),
        ({"role": "user", "tool_call_id": "call-1"}, "names its call"),
        ({"role": "tool", "tool_call_id": "gone"}, "no message of the conversation calls"),
        ({"role": "assistant", "tool_calls": [{"name": "read"}]}, "give each call an id"),
        ({"role": "user", "table_ids": ["tbl"]}, "only tools"),
        ({"content": ""}, "is empty"),
        ({"content": "x" * 200_001}, "longer than"),
        ({"content": "a\x00"}, "NUL"),
    ],
)
async def test_a_message_that_does_not_fit_is_refused(
    services: DomainServices, talk: str, given: dict[str, object], says: str
) -> None:
    """The message of the error names the remedy."""
    content = str(given.pop("content", "text"))
    with pytest.raises(InvalidRequest, match=says):
        await services.messages.add(VIC, "w", talk, content, **given)  # type: ignore[arg-type]
