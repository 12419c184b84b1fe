"""What was found to outlive a right: each from a context that the cache serves."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import policy, repository
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import attributes
from context_engine.adapters.sql import counts as c
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import Conflict, InvalidRequest
from context_engine.keys import Coordinates
from context_engine.models.context import AgentContext
from context_engine.models.sections import Count
from context_engine.reading import visible
from tests.support.kept import ANA, BOB, House, fields, records
from tests.support.world import engine_over

SLOW = f"SELECT pg_sleep(5), {attributes.STATEMENT.lstrip().removeprefix('SELECT ')}"
ATTR: JsonValue = {"attr": {"table": "u", "keyField": "who", "valueField": "land"}}


@pytest.fixture
def house(kept_workspace: None, database: AsyncEngine, cache: RedisCache) -> House:
    services = DomainServices(database, cache, ids_as_given=True)
    return House(database, services, engine_over(database, cache))


def restricted(pred: JsonValue) -> JsonValue:
    """Policies that restrict bob to `pred`."""
    one: JsonValue = {
        "subjects": [{"type": "user", "id": BOB}],
        "mode": "restrictive",
        "pred": pred,
    }
    return {"default": "show_all", "policies": [one]}


async def _chain(house: House) -> None:
    """`t.far` looks `u.near` up, which looks `x.source` up: each over a link."""
    s = house.services
    for table in ("u", "x"):
        await s.tables.create(ANA, "w", name=table.upper(), id=table, primary_id=f"{table}.name")
    await s.fields.create(ANA, "w", "x", name="Source", type="text", id="source")
    await s.links.create(ANA, "w", "t", id="tu", name="To U", linked_table_id="u")
    await s.links.create(ANA, "w", "u", id="ux", name="To X", linked_table_id="x")
    await house.computed("u", "near", "lookup", ("u", "ux"), ("x", "source"))
    await house.computed("t", "far", "lookup", ("t", "tu"), ("u", "near"))


async def test_a_chain_of_computed_fields_falls_with_its_far_end(house: House) -> None:
    """A role's permission on the last source, the last table's end, or a NONE on it."""
    s = house.services
    await _chain(house)
    hide: dict[str, Any] = {"subject_type": "role", "subject_id": "viewer"}
    assert "far" in fields(await house.kept())
    await s.field_permissions.set(ANA, "w", "x", "source", **hide, level="none")
    assert "far" not in fields(await house.now())
    await s.field_permissions.remove(ANA, "w", "x", "source", **hide)
    assert "far" in fields(await house.kept())
    await s.tables.trash(ANA, "w", "x")
    assert "far" not in fields(await house.now())
    await s.tables.restore(ANA, "w", "x")
    assert "far" in fields(await house.kept())


async def test_a_denial_for_what_is_missing_falls_when_it_is_back(house: House) -> None:
    """A policy that looks into a table that is trashed, and restored."""
    s = house.services
    await s.tables.create(ANA, "w", name="U", id="u", primary_id="u.name")
    await s.links.create(ANA, "w", "t", id="tu", name="To U", linked_table_id="u")
    await s.records.create(ANA, "w", "u", {"u.name": "one"}, id="u1")
    await s.links.set(ANA, "w", "t", "tu", "r0", ["u1"])
    pred: JsonValue = {"linkedAny": {"field": "tu", "pred": True}}
    await s.policies.set(ANA, "w", "t", restricted(pred))
    await house.permit("tu", "none")
    assert records(await house.kept()) == 1
    await s.tables.trash(ANA, "w", "u")
    assert records(await house.kept()) == 0
    await s.tables.restore(ANA, "w", "u")
    assert records(await house.now()) == 1


async def test_what_a_tool_found_falls_with_what_a_rule_asks_of_the_user(house: House) -> None:
    """Another row of attributes, or another address, is another right."""
    s = house.services
    await s.tables.create(ANA, "w", name="U", id="u", primary_id="land")
    await s.fields.create(ANA, "w", "u", name="Who", type="text", id="who")
    await s.records.create(ANA, "w", "u", {"land": "France", "who": BOB}, id="u1")
    pred: JsonValue = {"cmp": {"ref": "field:country", "op": "in", "operand": ATTR}}
    await s.policies.set(ANA, "w", "t", restricted(pred))
    before = await _rights(house)
    await s.records.update(ANA, "w", "u", "u1", {"land": "Spain"})
    moved = await _rights(house)
    assert moved != before
    await s.users.update("op", BOB, email="other@x.example")
    assert await _rights(house) != moved


async def _rights(house: House) -> str:
    async with SqlDomain(house.database).snapshot() as reads:
        (table,) = (await visible(reads, Coordinates("w", BOB, table_ids=("t",)))).tables
    return table.rights


async def test_the_cells_of_a_removed_field_do_not_come_back(house: House) -> None:
    """Its permission went with it, so its id is not given again."""
    s = house.services
    await house.permit("country", "none")
    await s.fields.delete(ANA, "w", "t", "country")
    with pytest.raises(Conflict, match="another field's"):
        await s.fields.create(ANA, "w", "t", name="Again", type="text", id="country")
    await s.fields.create(ANA, "w", "t", name="Again", type="text", id="fresh")


async def test_attributes_that_take_too_long_deny_their_own_table(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are not had, nor a number of them; the rest of the request is answered, in the same
    snapshot."""
    s = house.services
    await s.tables.create(ANA, "w", name="U", id="u", primary_id="land")
    await s.fields.create(ANA, "w", "u", name="Who", type="text", id="who")
    pred: JsonValue = {"cmp": {"ref": "field:country", "op": "not_in", "operand": ATTR}}
    await s.policies.set(ANA, "w", "t", restricted(pred))
    await s.tables.create(ANA, "w", name="Other", id="other")
    monkeypatch.setattr(attributes, "STATEMENT", SLOW)
    context, _ = await house.ask(tableIds=["t", "other"])
    assert [table.record_count for table in context.tables] == [
        Count.missing(c.TOO_SLOW),
        Count.of(0),
    ]
    assert [table.id for table in context.tables] == ["t", "other"]


async def test_what_a_tool_found_is_withheld_no_longer_than_attributes_are_late(
    house: House, cache: RedisCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a surface that is kept, and asks nothing: what comes of the dialogue passes by itself,
    for nothing will be marked."""
    s = house.services
    await s.tables.create(ANA, "w", name="U", id="u", primary_id="land")
    await s.fields.create(ANA, "w", "u", name="Who", type="text", id="who")
    pred: JsonValue = {"cmp": {"ref": "field:country", "op": "not_in", "operand": ATTR}}
    await s.policies.set(ANA, "w", "t", restricted(pred))
    await s.conversations.open(BOB, "w", title="Talk", id="c")
    ran: dict[str, Any] = {"table_ids": ["t"]}
    calls: list[Any] = [{"id": "k", "name": "read", "arguments": {}}]
    await s.messages.add(BOB, "w", "c", "I look", role="assistant", tool_calls=calls, **ran)
    await s.messages.add(BOB, "w", "c", "Found", role="tool", tool_call_id="k", **ran)
    await house.ask(tableIds=[])
    monkeypatch.setattr(repository, "PASSING_TTL", timedelta(0))
    with monkeypatch.context() as slowly:
        slowly.setattr(attributes, "STATEMENT", SLOW)
        late, source = await house.ask(tableIds=[], conversationId="c")
    assert (source, _said(late)) == ("surface", None)
    had, source = await house.ask(tableIds=[], conversationId="c")
    assert (source, _said(had)) == ("surface", "Found")


def _said(context: AgentContext) -> str | None:
    """What the tool found, where that is shown."""
    assert context.conversation is not None
    (turn,) = [one for one in context.conversation.recent_turns if one.role == "tool"]
    return None if turn.withheld else turn.content


async def test_more_values_than_a_statement_takes_are_no_lost_connection(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be asked says so; the others are counted."""
    await house.services.tables.create(ANA, "w", name="Other", id="other")
    lands: list[JsonValue] = [
        {"cmp": {"ref": "field:country", "op": "eq", "operand": {"literal": f"{n}"}}}
        for n in range(9)
    ]
    pred: JsonValue = {"any": lands}
    await house.services.policies.set(ANA, "w", "t", restricted(pred))
    monkeypatch.setattr(c, "MOST_BINDS", 5)
    context, _ = await house.ask(tableIds=["t", "other"])
    counts = [table.record_count for table in context.tables]
    assert counts[0].unavailable == c.TOO_SLOW
    assert counts[1].value == 0


@pytest.mark.parametrize(
    ("pred", "says"),
    [
        ({"any": [False] * 20_001}, "parts"),
        ({"all": [{"linkedAny": {"field": "l", "pred": True}}] * 51}, "linkedAny"),
        ({"cmp": {"ref": "field:f", "op": "in", "operand": {"literal": [1] * 20_001}}}, "parts"),
    ],
)
def test_a_predicate_is_bounded_in_all_of_its_parts(pred: JsonValue, says: str) -> None:
    """Whoever writes one decides how long everybody waits."""
    with pytest.raises(InvalidRequest, match=says):
        policy.parse(pred)


async def test_cells_that_cannot_be_added_up_cost_their_own_count(house: House) -> None:
    """A sum beyond all numbers: no error of the request, and no other count."""
    await house.services.fields.create(ANA, "w", "t", name="N", type="number", id="n")
    await house.services.links.create(ANA, "w", "t", name="L", linked_table_id="t", id="self")
    step = {"field": "self", "table": "t"}
    number = {"cell": "n", "kind": "number"}
    total = {"rollup": {"step": step, "value": number, "function": "sum"}}
    where = {"where": {"field": "n", "value": total, "test": {"op": "higher_than", "to": 1}}}
    await house.view()
    async with house.database.begin() as connection:
        for statement in (
            """UPDATE records SET cells = cells || '{"n": 9e131071}'""",
            "INSERT INTO links (field_id, from_record_id, to_record_id, workspace_id)"
            " SELECT 'self', a.id, b.id, 'w' FROM records a, records b"
            " WHERE a.table_id = 't' AND b.table_id = 't'",
        ):
            await connection.exec_driver_sql(statement)
        await connection.execute(
            text("UPDATE views SET filter = CAST(:filter AS jsonb)"), {"filter": json.dumps(where)}
        )
    context, _ = await house.ask(viewId="belgium")
    assert records(context) == 10
    assert context.view is not None
    assert context.view.record_count.value is None
