"""An edit ends the contexts that read the edited cells, and no others: the survivors are counted.

Each place depends on cells in a way of its own: by a filter, a policy, the attributes of the user
who asks, a link that a policy follows, links
that are counted, a task's row, a chain of computed fields.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine, Options
from context_engine.models import ContextBuildInput
from tests.support.kept import ANA, BOB, House
from tests.support.world import engine_over

CAT = "cat"
OWN_LAND: JsonValue = {"attr": {"table": "staff", "keyField": "who", "valueField": "land"}}

PLACES: dict[str, dict[str, Any]] = {
    "table": {"userId": ANA},
    "filter": {"userId": ANA, "viewId": "belgium"},
    "attributes": {"userId": BOB},
    "followed link": {"userId": CAT},
    "staff": {"userId": ANA, "tableIds": ["staff"]},
    "both tables": {"userId": ANA, "tableIds": ["t", "staff"]},
    "task": {"userId": ANA, "taskId": "k"},
    "links counted": {"userId": BOB, "tableIds": ["staff"]},
    "bare": {"userId": BOB, "tableIds": []},
}

EDITS: dict[tuple[str, str], tuple[dict[str, JsonValue], set[str]]] = {
    ("t", "r1"): ({"country": "Belgium"}, {"filter", "attributes", "links counted"}),
    ("t", "r3"): ({"name": "Renamed"}, set()),
    ("t", "r2"): ({"note": "nobody reads this"}, set()),
    ("staff", "s1"): ({"land": "France"}, {"attributes", "links counted"}),
    ("staff", "s2"): ({"who": BOB}, {"attributes", "links counted"}),
    ("staff", "s3"): ({"level": "gold"}, {"followed link"}),
    ("staff", "s4"): ({"phone": "nobody but a computed field"}, set()),
}
"""Of one record each; and the places whose contexts read the cell."""


def restricts(user: str, pred: JsonValue) -> JsonValue:
    return {"subjects": [{"type": "user", "id": user}], "mode": "restrictive", "pred": pred}


@pytest.fixture
async def house(kept_workspace: None, database: AsyncEngine, cache: RedisCache) -> House:
    s = DomainServices(database, cache, ids_as_given=True)
    await s.users.create("op", name="Cat", email="cat@x.example", id=CAT)
    await s.members.add(ANA, "w", CAT, role="viewer")
    await s.fields.create(ANA, "w", "t", name="Note", type="text", id="note")
    await s.tables.create(ANA, "w", name="Staff", id="staff", primary_id="staff.name")
    for field in ("who", "land", "level", "phone"):
        await s.fields.create(ANA, "w", "staff", name=field.title(), type="text", id=field)
    for n, who in enumerate((BOB, "nobody", "x", "y"), 1):
        cells: dict[str, JsonValue] = {"who": who, "land": "Belgium", "level": "iron"}
        await s.records.create(ANA, "w", "staff", cells, id=f"s{n}")
    await s.links.create(ANA, "w", "t", id="tu", name="By", linked_table_id="staff")
    await s.links.set(ANA, "w", "t", "tu", "r0", ["s3"])
    gold: JsonValue = {"cmp": {"ref": "field:level", "op": "eq", "operand": {"literal": "gold"}}}
    await s.policies.set(
        ANA,
        "w",
        "t",
        {
            "default": "show_all",
            "policies": [
                restricts(BOB, {"cmp": {"ref": "field:country", "op": "in", "operand": OWN_LAND}}),
                restricts(CAT, {"linkedAny": {"field": "tu", "pred": gold}}),
            ],
        },
    )
    await s.projects.create(ANA, "w", name="P", id="p")
    await s.tasks.create(ANA, "w", title="K", project_id="p", table_id="t", record_id="r3", id="k")
    made = House(database, s, engine_over(database, cache))
    await made.view()
    await made.computed("t", "near", "lookup", ("t", "tu"), ("staff", "phone"))
    return made


async def told(engine: ContextEngine, place: str, *, fresh: bool = False) -> tuple[str, str]:
    """Where a place's context comes from, and its hash."""
    given = {"workspaceId": "w", "tableIds": ["t"], **PLACES[place]}
    answer = await engine.build(ContextBuildInput.model_validate(given), Options(fresh=fresh))
    return answer.source, answer.context_hash


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: ".".join((edit[0], *EDITS[edit][0])))
async def test_an_edit_leaves_alone_what_does_not_read_it(
    house: House, edit: tuple[str, str]
) -> None:
    """The survivors are all but those that the cell decides on, and each says what a build says;
    of those that ended each says something else, or might."""
    (table, record), (cells, readers) = edit, EDITS[edit]
    before = {place: (await told(house.engine, place))[1] for place in PLACES}
    assert {(await told(house.engine, place))[0] for place in PLACES} == {"cache"}
    await house.services.records.update(ANA, "w", table, record, cells)
    after = {place: await told(house.engine, place) for place in PLACES}
    survivors = {place for place, (source, _) in after.items() if source == "cache"}
    assert survivors == PLACES.keys() - readers
    for place, (_, said) in after.items():
        assert said == (await told(house.engine, place, fresh=True))[1]
    assert {place for place, (_, said) in after.items() if said != before[place]} <= readers


COUNTED = {"staff", "both tables", "links counted", "attributes", "followed link"}
"""Places whose contexts count the rows of staff, or read its cells for a rule."""


async def test_a_new_record_leaves_alone_what_only_links_to_its_table(house: House) -> None:
    """The others end, and say one more. What links to it then is seen everywhere."""
    before = {place: (await told(house.engine, place))[1] for place in PLACES}
    assert {(await told(house.engine, place))[0] for place in PLACES} == {"cache"}
    await house.services.records.create(ANA, "w", "staff", {"land": "Spain"}, id="s9")
    after = {place: await told(house.engine, place) for place in PLACES}
    assert {p for p, (source, _) in after.items() if source == "cache"} == PLACES.keys() - COUNTED
    for place, (_, said) in after.items():
        assert said == (await told(house.engine, place, fresh=True))[1]
    assert {p for p in PLACES if after[p][1] != before[p]} == {
        "staff",
        "both tables",
        "links counted",
    }
    await house.services.links.set(ANA, "w", "t", "tu", "r0", ["s3", "s9"])
    assert (await told(house.engine, "table"))[1] != after["table"][1]


async def test_the_edits_that_decide_are_seen(house: House) -> None:
    """Else the survivors above would prove nothing: each of these changes what is said."""
    changed = set()
    for (table, record), (cells, readers) in EDITS.items():
        before = {place: (await told(house.engine, place))[1] for place in readers}
        await house.services.records.update(ANA, "w", table, record, cells)
        for place, said in before.items():
            if (await told(house.engine, place))[1] != said:
                changed.add((table, *cells, place))
    assert changed == {
        ("t", "country", "filter"),
        ("t", "country", "attributes"),
        ("staff", "land", "attributes"),
        ("staff", "land", "links counted"),
        ("staff", "who", "attributes"),
        ("staff", "who", "links counted"),
        ("staff", "level", "followed link"),
    }
