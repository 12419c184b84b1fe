"""Row policies in SQL say of every record what a plain interpreter says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from context_engine import policy
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.attributes import attributes
from context_engine.adapters.sql.driver import InTransaction
from context_engine.adapters.sql.predicates import Binds, predicate_sql
from context_engine.facts import FieldFacts, UserFacts
from tests.support.plain_policies import Person, Row, World
from tests.support.stack import Databases
from tests.support.world import World as Rows

MIDNIGHTS = [
    datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia goes to the 31st, and has no 30th
    datetime(2018, 11, 4, 3, tzinfo=UTC),  # Sao Paulo goes to one o'clock
    datetime(2018, 2, 18, 2, tzinfo=UTC),  # Sao Paulo goes back to eleven of the day before
    datetime(2006, 10, 29, 2, 30, tzinfo=UTC),  # St. John's, a minute before it goes back
    datetime(2026, 3, 29, 0, tzinfo=UTC),
]
ZONES = [
    "UTC", "Pacific/Apia", "America/Sao_Paulo", "America/St_Johns", "Pacific/Kiritimati",
    "Europe/Berlin", "Asia/Kathmandu",
]  # fmt: skip
SHIFTS = [timedelta(0), timedelta(microseconds=-1), timedelta(seconds=59), timedelta(minutes=61),
          timedelta(days=-1), timedelta(days=1, hours=-2), timedelta(days=5)]  # fmt: skip
MOMENTS = [at + shift for at in MIDNIGHTS for shift in SHIFTS]
TIMES = [at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for at in MOMENTS]
DAYS = sorted({at.date().isoformat() for at in MOMENTS})
BIG = 2**53

CELLS = [
    *TIMES, *DAYS, "", " ", "a", "A", "aa", "é", "中", "😀", "u1", "u12", "1", "%", "2026-02-30",
    "2026-02-30T10:00:00Z", "2026-03-29T00:00:00", "2026-03-29T01:00:00+02:00", "now", "today",
    "2026-03-29T24:00:00Z", "2026-03-29T00:00:60Z", "2026-03-29T00:00:00+23:00", "20260329",
    "2026-03-29T00:00:00Z\n", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "infinity",
    0, 1, 1.5, 0.1, -2, BIG, BIG + 1, float(BIG), 10**22, 1e22, -0.0, True, False, None,
    "\tA@x.Example\n", ["x", " a@X.example"], ["\u00a0a@x.example"], "\u212aate@x",
    "Ate@X.example a", "0001-01-01", "0001-01-02", "9999-12-30", "9999-12-31",
    "0001-01-02T00:00:00Z", "9999-12-30T23:00:00Z",
    [], ["u1"], ["u1", "u12"], ["g1", "g2"], [1], ["1"], [True], [None], [["u1"]], [BIG + 1], {},
    {"u1": 1},
]  # fmt: skip
RAW = ["1e400", "-1e400", "0.10000000000000000000000000001", "9007199254740993.0"]
"""Cells that only the database holds exactly."""
PEOPLE = ["u1", "u12", " A@X.Example ", "a@x.example", "ſ@x.example", "Straße@x.example", "K@x"]
ADDRESSES = ["a@x.example", "s@x.example", "straße@x.example", "ſ@x.example", "k@x"]
OPS: tuple[policy.Op, ...] = (
    "eq", "ne", "in", "not_in", "has_any", "has_all", "has_none", "empty", "not_empty",
    "lt", "lte", "gt", "gte", "text_contains",
)  # fmt: skip
LOOKUPS = [
    policy.AttrLookup(table="b", key_field="key", value_field="said"),
    policy.AttrLookup(table="a", key_field="g", value_field="g"),
]
LEADS = {"ab": "b", "aa": "a", "ba": "a"}


def rows() -> dict[str, tuple[Row, str]]:
    """Every cell in table a, beside others; some in b with keys; the JSON text of the cells."""
    made: dict[str, tuple[Row, str]] = {}
    shown = [*(json.dumps(cell) for cell in CELLS), *RAW]
    for n, cell in enumerate([None, *shown]):
        for table in ("a", "b") if n % 3 == 0 else ("a",):
            texts = [] if cell is None else [f'"f": {cell}']
            texts += [f'"g": {shown[(n * 7) % len(shown)]}'] if n % 4 else []
            key = [PEOPLE[n % 7], PEOPLE[n // 7 % 7]]
            if table == "b":
                texts += [f'"key": {json.dumps(key if n % 2 else key[0])}']
                texts += [f'"said": {cell}'] if cell is not None and cell not in RAW else []
            text = "{" + ", ".join(texts) + "}"
            exact = json.loads(text, parse_float=Decimal, parse_int=Decimal)
            author = [None, "u1", "u12", ""]
            made[f"{table}{n}"] = (
                Row(
                    f"{table}{n}", table, exact, author[n % 4], author[n // 4 % 4],
                    MOMENTS[n % len(MOMENTS)], deleted=n % 11 == 5,
                ),
                text,
            )  # fmt: skip
    return made


def links(ids: list[str]) -> dict[tuple[str, str], list[str]]:
    found = {}
    for n, id in enumerate(ids):
        for field in ("ab", "aa") if id.startswith("a") else ("ba",):
            ends = [one for one in ids if one.startswith(LEADS[field])]
            found[field, id] = list({ends[(n * k + 3 * k) % len(ends)] for k in range(n % 4)})
    return found


WRITTEN = rows()
WORLD = World(
    {id: row for id, (row, _) in WRITTEN.items()}, links(list(WRITTEN)), LEADS,
    times=("sys:created_at", "field:g"),
)  # fmt: skip


def _fields(**types: str) -> dict[str, FieldFacts]:
    return {
        id: FieldFacts(id=id, name=id, type=type, primary=False, linked_table_id=LEADS.get(id))
        for id, type in types.items()
    }


FIELDS = {
    "a": _fields(f="date", g="datetime", ab="link", aa="link"),
    "b": _fields(f="date", g="datetime", ba="link", key="text", said="text"),
}
"""Field `g` holds times, as far as anyone is told."""


@dataclass(frozen=True)
class House:
    database: AsyncEngine

    async def passing(self, pred: policy.Pred, who: Person) -> set[str] | None:
        """Records of table a; None where it cannot be told."""
        user = UserFacts(
            id=who.id, name="U", email_norm=who.email, locale=None, timezone=who.zone, active=True
        )
        async with self.database.connect() as connection:
            reader = InTransaction(connection)
            found = await attributes(reader, "w", user, policy.attributes(pred))
            operands = policy.UserOperands(
                id=who.id, email_norm=who.email, team_ids=who.teams, timezone=who.zone,
                now=who.now, attributes=found,
            )  # fmt: skip
            try:
                resolved = policy.resolve(pred, operands, FIELDS.get, "a")
            except policy.Unresolvable:
                return None
            binds = Binds()
            where = predicate_sql(resolved, binds)
            query = f"SELECT id, {where} FROM records WHERE table_id = 'a'"
            told = (await connection.exec_driver_sql(query, tuple(binds.values))).all()
        assert all(holds is not None for _, holds in told), "no condition is NULL"
        return {id for id, holds in told if holds}


@pytest.fixture(scope="module")
async def house(databases: Databases) -> AsyncIterator[House]:
    url = await databases.create()
    database = create_async_engine(
        url, connect_args={"server_settings": {"TimeZone": "Asia/Tokyo"}}
    )
    add = Rows(database).add
    await add(t.workspaces, {"id": "w", "name": "W"})
    await add(t.tables, *({"id": id, "workspace_id": "w", "name": id} for id in ("a", "b")))
    fields = [("a", "f"), ("a", "g"), ("b", "said"), ("b", "key")]
    plain = [
        {"id": id, "workspace_id": "w", "table_id": table, "name": id, "type": "text"}
        for table, id in [*fields, ("a", "ab"), ("a", "aa"), ("b", "ba")]
    ]
    await add(t.fields, *({**one, "linked_table_id": LEADS.get(one["id"])} for one in plain))
    async with database.begin() as connection:
        for row, text in WRITTEN.values():
            await connection.exec_driver_sql(
                "INSERT INTO records (id, workspace_id, table_id, cells, created_by, updated_by,"
                " created_at, deleted_at) VALUES ($1, 'w', $2, CAST($3 AS jsonb), $4, $5, $6, $7)",
                (row.id, row.table, text, row.created_by, row.updated_by, row.created_at,
                 MOMENTS[0] if row.deleted else None),
            )  # fmt: skip
    linked = [
        {"field_id": field, "from_record_id": start, "to_record_id": end, "workspace_id": "w"}
        for (field, start), ends in WORLD.links.items()
        for end in ends
    ]
    await add(t.links, *linked)
    yield House(database)
    await database.dispose()
    await databases.drop(url)


# -- predicates of all shapes ------------------------------------------------------------------

REFS = ["field:f", "field:g", "field:gone", "sys:created_by", "sys:updated_by", "sys:created_at"]


def operands() -> st.SearchStrategy[JsonValue]:
    scalars = st.sampled_from([cell for cell in CELLS if not isinstance(cell, list | dict)])
    lists = st.lists(scalars, max_size=4) | st.lists(scalars, min_size=65, max_size=70)
    return (
        st.builds(lambda value: {"literal": value}, st.sampled_from(CELLS) | lists)
        | st.sampled_from(["id", "email_norm", "team_ids"]).map(lambda what: {"user": what})
        | st.sampled_from(LOOKUPS).map(lambda one: {"attr": one.model_dump()})
    )


@st.composite
def comparisons(draw: st.DrawFn) -> JsonValue:
    ref = draw(st.sampled_from(REFS))
    if draw(st.booleans()):
        op = draw(st.sampled_from(sorted(set(OPS[:2]) | set(OPS[7:13]))))
        tz = draw(st.none() | st.sampled_from(ZONES))
        now = {"unit": draw(st.sampled_from(["today", "week"])), "tz": tz}
        return {"cmp": {"ref": ref, "op": op, "operand": {"now": now}}}
    op = draw(st.sampled_from(OPS))
    return {"cmp": {"ref": ref, "op": op, "operand": draw(operands())}}


def groups(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonValue]:
    parts = st.lists(inner, max_size=3)
    return (
        parts.map(lambda some: {"all": some})
        | parts.map(lambda some: {"any": some})
        | inner.map(lambda one: {"not": one})
    )


def of_row() -> st.SearchStrategy[Any]:
    return st.recursive(comparisons() | st.booleans(), groups, max_leaves=4)


def predicates() -> st.SearchStrategy[Any]:
    linked = st.builds(
        lambda field, pred: {"linkedAny": {"field": field, "pred": pred}},
        st.sampled_from(["ab", "aa", "gone"]),
        of_row(),
    )
    return st.recursive(of_row() | linked, groups, max_leaves=4)


def people() -> st.SearchStrategy[Person]:
    return st.builds(
        Person,
        id=st.sampled_from(["u1", "u12", "nobody"]),
        email=st.none() | st.sampled_from(ADDRESSES),
        teams=st.sampled_from([(), ("g1",), ("g1", "g2")]),
        zone=st.sampled_from([*ZONES, None]),
        now=st.sampled_from(MOMENTS),
    )


@given(raw=predicates(), who=people())
@example(  # a list that equals what a lookup says once each
    raw={"cmp": {"ref": "field:f", "op": "eq", "operand": {"attr": LOOKUPS[1].model_dump()}}},
    who=Person("u1", None, (), "UTC", MOMENTS[0]),
)
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_sql_and_the_interpreter_agree(house: House, raw: Any, who: Person) -> None:
    """Every operator over every value, days around midnights, lookups, linked rows, in groups;
    and a predicate means the same after it was stored and read again."""
    pred = policy.parse(raw)
    stored = json.loads(json.dumps(policy.Not(not_=pred).model_dump(mode="json")))
    assert policy.parse(stored) == policy.Not(not_=pred)
    assert await house.passing(pred, who) == WORLD.passing(pred, "a", who)


@pytest.mark.parametrize("op", OPS)
async def test_cells_beside_an_address_are_addresses(house: House, op: str) -> None:
    """In texts, in lists, and in columns: as those that `user.attr` looks up."""
    for ref in ("field:f", "field:g", "field:key", "sys:created_by"):
        pred = policy.parse({"cmp": {"ref": ref, "op": op, "operand": {"user": "email_norm"}}})
        for email in ADDRESSES:
            who = Person("u1", email=email)
            assert await house.passing(pred, who) == WORLD.passing(pred, "a", who), (ref, email)


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "lte", "gt", "gte"])
async def test_literal_days_beside_times_are_local_dates(house: House, op: str) -> None:
    """Of the user's zone, to both ends of time."""
    ends = ["0001-01-01", "0001-01-02", "0001-01-04", "9999-12-28", "9999-12-30", "9999-12-31"]
    for day in (*DAYS[::3], *ends, "2026-02-30", "2026-3-29"):
        for ref in ("field:f", "field:g", "sys:created_at"):
            pred = policy.parse({"cmp": {"ref": ref, "op": op, "operand": {"literal": day}}})
            for zone in (None, "Pacific/Apia", "America/St_Johns", "America/Los_Angeles"):
                who = Person("u1", zone=zone)
                wanted = WORLD.passing(pred, "a", who)
                assert await house.passing(pred, who) == wanted, (ref, day, zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "lte", "gt", "gte"])
async def test_days_are_local_dates(house: House, zone: str, op: str) -> None:
    """At every moment around midnights that come twice, late or never."""
    for ref in ("field:f", "sys:created_at"):
        for unit in ("today", "week"):
            operand = {"now": {"unit": unit, "tz": zone}}
            pred = policy.parse({"cmp": {"ref": ref, "op": op, "operand": operand}})
            for now in MOMENTS:
                who = Person("u1", now=now)
                wanted = WORLD.passing(pred, "a", who)
                assert await house.passing(pred, who) == wanted, (ref, unit, now)
