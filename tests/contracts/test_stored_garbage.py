"""JSON that was edited behind our back: it denies where it stands, and breaks nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import faults
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.engine import ContextEngine, Options
from context_engine.keys import Coordinates
from context_engine.models import AgentContext, ContextBuildInput
from tests.support.hidden import grant
from tests.support.world import World, engine_over

GARBAGE = {
    "deep list": "[" * 300 + "]" * 300,
    "deep object": '{"not":' * 5_000 + "true" + "}" * 5_000,
    "deep in a filter of views": '{"where":' + '{"every":[' * 300 + "]}" * 300 + "}",
    "beyond every grammar": '{"not":' * 100 + "true" + "}" * 100,
    "whole number out of range": '{"cmp":{"ref":"field:t0.f0","op":"ne","operand":{"literal":1'
    + "0" * 5_000 + "}}}",
    "number out of range": '{"cmp":{"ref":"field:t0.f0","op":"ne","operand":{"literal":1'
    + "0" * 400 + ".5}}}",
    "number where none belongs": "1" + "0" * 5_000 + ".5",
    "null": "null",
    "text": '"true"',
    "empty": "{}",
}  # fmt: skip
POLICY = {"id": "bad", "workspace_id": "w", "table_id": "t0", "mode": "restrictive"}
ALL = [{"type": "role", "id": role} for role in ("viewer", "admin")]


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish(tables=2)
    return made


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What operators are told."""
    monkeypatch.setattr(faults.log, "handlers", [caplog.handler])
    monkeypatch.setattr(faults.log, "propagate", False)
    return lambda: [one.getMessage() for one in caplog.records]


async def spoil(world: World, table: str, column: str, id: str, text: str) -> None:
    async with world.database.begin() as connection:
        await connection.exec_driver_sql(
            f"UPDATE {table} SET {column} = CAST($1 AS jsonb) WHERE id = $2", (text, id)
        )


async def built(engine: ContextEngine, user: str = "bob", **more: Any) -> AgentContext:
    asked = {"userId": user, "workspaceId": "w", "tableIds": ["t0", "t1"], **more}
    answer = await engine.build(ContextBuildInput.model_validate(asked), Options(fresh=True))
    return AgentContext.model_validate_json(answer.context)


def counts(context: AgentContext) -> list[int | None]:
    return [table.record_count.value for table in context.tables]


@pytest.mark.parametrize("column", ["pred", "subjects"])
@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_policy_closes_its_own_table(
    world: World, told: Any, column: str, kind: str
) -> None:
    """The other table of the request is whole, and an operator is told, in one line, once."""
    await world.add(t.row_policies, {**POLICY, "subjects": ALL, "pred": True})
    engine = engine_over(world.database, MemoryCache())
    assert counts(await built(engine)) == [10, 10]
    await spoil(world, "row_policies", column, "bad", GARBAGE[kind])
    for user in ("bob", "ana"):
        assert counts(await built(engine, user)) == [0, 10]
    (line,) = told()
    assert "policy bad of table t0" in line
    assert "\n" not in line


@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_boundary_gives_no_rows(world: World, told: Any, kind: str) -> None:
    """A null that is stored is not the same as no filter, which would give every row."""
    await world.add(t.views, {
        "id": "r", "workspace_id": "w", "table_id": "t0", "name": "R", "type": "grid",
        "ownership": "restricted",
    })  # fmt: skip
    await world.add(t.members, {"workspace_id": "w", "user_id": "eve", "role": "none"})
    await world.add(
        t.grants,
        grant("user", "eve", "viewer", scope="view", on="r"),
        grant("user", "eve", "viewer", scope="table", on="t1"),
    )
    engine = engine_over(world.database, MemoryCache())
    assert counts(await built(engine, "eve")) == [10, 10]
    await spoil(world, "views", "filter", "r", GARBAGE[kind])
    seen, other = (await built(engine, "eve")).tables
    assert (seen.record_count.value, other.record_count.value) == (None, 10)
    (line,) = told()
    assert "filter of view r" in line


@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_view_looked_at_has_no_count(world: World, told: Any, kind: str) -> None:
    """Its filter is presentation: the table's rows are in sight as before."""
    await spoil(world, "views", "filter", "t0.v0", GARBAGE[kind])
    context = await built(engine_over(world.database, MemoryCache()), viewId="t0.v0")
    assert counts(context) == [10, 10]
    assert context.view is not None
    assert context.view.record_count.value is None
    (line,) = told()
    assert "filter of view t0.v0" in line


@pytest.mark.parametrize(
    "garbage",
    [
        *("[" + deep + "]" for deep in (GARBAGE["deep list"], "[" * 5_000 + "]" * 5_000)),
        '[["t0", 1e5000]]', "[1e5000]", "[1]", "[null]", '[["t0"]]', '[["t0", "t0.f1", "x"]]',
        '["t0"]', '[{"t0": "t0.f1"}]', '[["t0", null]]', '[["t0", "t0.f1"], 1]',
    ],
)  # fmt: skip
async def test_sources_that_cannot_be_read_hide_their_field(
    world: World, told: Any, garbage: str
) -> None:
    """And no other, whoever asks."""
    await spoil(world, "fields", "reads", "t0.f2", garbage)
    context = await built(engine_over(world.database, MemoryCache()), "ana")
    names = [[field.id for field in table.fields] for table in context.tables]
    assert names == [["t0.f0", "t0.f1"], ["t1.f0", "t1.f1", "t1.f2"]]
    (line,) = told()
    assert "sources of field t0.f2 of table t0" in line


@pytest.mark.parametrize(
    ("column", "garbage"),
    [
        ("tool_calls", "[" * 300 + "]" * 300),
        ("tool_calls", "[1e5000]"),
        ("tool_calls", '[{"id": 1e400}, 1]'),
        ("rights", '{"t0": ' + "[" * 300 + "]" * 300 + "}"),
        ("rights", '{"t0": 1e5000}'),
        ("rights", '{"t0": null}'),
    ],
)
async def test_a_message_loses_its_own_tool_call(
    world: World, told: Any, column: str, garbage: str
) -> None:
    """The rest of the dialogue is there, and the tables are."""
    await world.conversation("c", "bob", messages=3)
    call = [{"id": "call", "name": "look"}]
    await world.say("c", 4, "", role="assistant", tool_calls=call)
    await world.say("c", 5, "what it found", role="tool", tool_call_id="call", table_ids=["t0"])
    bad = "c.m4" if column == "tool_calls" else "c.m5"
    await spoil(world, "messages", column, bad, garbage)
    engine = engine_over(world.database, MemoryCache())
    context = await built(engine, conversationId="c", message="And now?")
    assert counts(context) == [10, 10]
    assert context.conversation is not None
    texts = [turn.content for turn in context.conversation.recent_turns]
    assert texts[:3] == [f"Message number {n} of the dialogue." for n in range(3)]
    assert "what it found" not in texts
    (line,) = told()
    assert f"tool call of message {bad}" in line


async def test_facts_without_garbage_are_as_they_were_stored(world: World) -> None:
    """Numbers, texts and nesting that a rule may hold."""
    literals = (1, 2**70, 0.1, 'é"\\', None, True, [1, ["x"]], 10**400, "9" * 400)
    compared = [{"ref": "field:f", "op": "eq", "operand": {"literal": one}} for one in literals]
    pred = {"all": [{"cmp": one} for one in compared]}
    await world.add(t.row_policies, {**POLICY, "subjects": ALL, "pred": pred})
    await spoil(world, "fields", "reads", "t0.f2", '[["t1", "t1.f0"]]')
    at = Coordinates("w", "ana", table_ids=("t0",))
    async with SqlDomain(world.database).snapshot() as reads:
        facts = await reads.facts(at, tail=0)
        (table, *_) = await reads.tables(at, facts, ["t0"])
    assert [(one.subjects, one.pred) for one in table.policies] == [(ALL, pred)]
    assert [field.reads for field in table.fields] == [(), (), (("t1", "t1.f0"),)]


ON_A_DAY = '{"where":{"field":"t0.f1","value":{"cell":"t0.f1","kind":"time"},"test":{"op":"%s","days":{"tz":"%s"}}}}'  # noqa: E501 - JSON as it is stored


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "right/UTC", "Factory", "Mars/Base"])
async def test_a_filter_in_a_zone_that_is_none_has_no_count(
    world: World, told: Any, zone: str
) -> None:
    """Though Python may know it: the view says so, its table and the other are counted."""
    await spoil(world, "views", "filter", "t0.v0", ON_A_DAY % ("date_is", zone))
    context = await built(engine_over(world.database, MemoryCache()), viewId="t0.v0")
    assert counts(context) == [10, 10]
    assert context.view is not None
    assert context.view.record_count.value is None
    assert context.view.record_count.unavailable is not None
    (line,) = told()
    assert "t0.v0" in line


@pytest.mark.parametrize("op", ["date_is", "date_is_before", "date_is_on_or_after"])
async def test_times_beyond_every_calendar_are_on_no_day(world: World, op: str) -> None:
    """They are no times as cells spell them, and cost the view nothing but themselves."""
    for record, at in (("t0.r0", "294276-12-31T23:59:59Z"), ("t0.r1", "4713-01-01 00:00:00 BC")):
        await spoil(world, "records", "cells", record, f'{{"t0.f1": "{at}"}}')
    await spoil(world, "views", "filter", "t0.v0", ON_A_DAY % (op, "Asia/Tokyo"))
    context = await built(engine_over(world.database, MemoryCache()), viewId="t0.v0")
    assert context.view is not None
    assert (context.view.record_count.value, context.view.record_count.exact) == (0, True)


async def test_a_stored_zone_of_a_user_that_is_none_denies_what_asks_for_it(world: World) -> None:
    """The rows of that table, and of no other."""
    today = '{"cmp":{"ref":"field:t0.f0","op":"ne","operand":{"now":{"unit":"today"}}}}'
    await world.add(t.row_policies, {**POLICY, "subjects": ALL, "pred": True})
    await spoil(world, "row_policies", "pred", "bad", today)
    engine = engine_over(world.database, MemoryCache())
    for zone, shown in (("UTC", 10), ("localtime", 0), ("right/UTC", 0)):
        async with world.database.begin() as connection:
            await connection.execute(t.users.update().values(timezone=zone))
        assert counts(await built(engine)) == [shown, 10]
