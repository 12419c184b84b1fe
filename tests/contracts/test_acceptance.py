"""The acceptance cases: what products of this kind got wrong in public, held here.

Each begins with a context that the cache serves, changes something through the services, and asks
again: over PostgreSQL and Redis, as a product would meet it.
"""

from __future__ import annotations

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.errors import InvalidRequest, NotFound
from context_engine.models import AgentContext, ContextBuildInput
from tests.support.kept import ANA, BOB, House, fields, in_view, records, table_of
from tests.support.world import engine_over


@pytest.fixture
def house(kept_workspace: None, database: AsyncEngine, cache: RedisCache) -> House:
    services = DomainServices(database, cache, ids_as_given=True)
    return House(database, services, engine_over(database, cache))


async def test_a_revoked_table_is_denied_in_an_open_session(house: House) -> None:
    """baserow#1461: neither asked for by name nor inherited by the session; no bundle is kept."""
    await house.kept(sessionId="s")
    inheriting = {"userId": BOB, "workspaceId": "w", "sessionId": "s"}
    await house.engine.build(ContextBuildInput.model_validate(inheriting))
    await house.grant("none")
    await house.denied(sessionId="s")
    answer = await house.engine.build(ContextBuildInput.model_validate(inheriting))
    assert answer.source != "cache"
    assert b"Orders" not in answer.context
    assert AgentContext.model_validate_json(answer.context).tables == ()


async def test_own_grants_replace_the_teams_and_teams_unite(house: House) -> None:
    """baserow#1479: at one scope; and the sentinel leaves the role to the teams."""
    s = house.services
    for team in ("low", "high"):
        await s.teams.create(ANA, "w", name=team, id=team)
        await s.teams.add_member(ANA, "w", team, BOB)
    await house.kept()
    for role, subject, now in (
        ("viewer", "team:low", "viewer"),
        ("editor", "team:high", "editor"),
        ("admin", "team:high", "admin"),
        ("editor", "user:bob", "editor"),
    ):
        await house.grant(role, subject)
        assert table_of(await house.now()).permission == now
        await house.kept()
    await s.tables.create(ANA, "w", name="Other", id="other")
    await house.role("defer")
    await house.denied(tableIds=["other"])
    await house.grant("builder", "team:low", "workspace:w")
    assert table_of(await house.now(tableIds=["other"])).permission == "builder"


async def test_a_view_grant_adds_to_the_table_and_takes_nothing(house: House) -> None:
    """baserow#5497: an EDITOR with VIEWER on a restricted view has all rows; with NONE on the
    table the view's only."""
    await house.view("restricted")
    await house.grant("editor")
    await house.kept()
    await house.grant("viewer", scope="view:belgium")
    both = await house.now()
    assert (records(both), table_of(both).permission) == (10, "editor")
    await house.kept()
    await house.grant("none")
    alone = await house.now()
    assert (records(alone), table_of(alone).permission) == (5, "views")


async def test_a_view_alone_gives_its_ancestors_names(house: House) -> None:
    """baserow PR#5125: EDITOR on one view, no role on the workspace: the names above it, that
    view, and the count of its rows."""
    await house.view("restricted", hidden=["country"])
    await house.services.views.create(ANA, "w", "t", name="All", id="all")
    await house.role("defer")
    await house.denied(viewId="belgium")
    await house.grant("editor", scope="view:belgium")
    seen = await house.now(viewId="belgium")
    assert (seen.workspace.name, seen.user.role) == ("Work", "none")
    assert (table_of(seen).name, table_of(seen).permission) == ("Orders", "views")
    assert [view.id for view in table_of(seen).views] == ["belgium"]
    assert (fields(seen), records(seen), in_view(seen)) == (["name"], 5, 5)
    other, _ = await house.ask(viewId="all")
    assert other.view is None


async def test_a_hidden_field_still_filters_and_is_not_told(house: House) -> None:
    """baserow PR#5007: the view's count stays filtered; no field, option or filter of it is there,
    and a filter on it is refused in the words for a field that is missing."""
    await house.view()
    await house.role("builder")
    assert "country" in fields(await house.kept(viewId="belgium"))
    await house.permit("country", "none")
    seen = await house.now(viewId="belgium")
    assert (in_view(seen), fields(seen)) == (5, ["name"])
    assert "Belgium" not in seen.model_dump_json()
    assert "country" not in seen.model_dump_json().replace("By country", "")
    refused = []
    for field in ("country", "nowhere"):
        wanted = {"cmp": {"ref": f"field:{field}", "op": "empty", "operand": {"literal": None}}}
        with pytest.raises(InvalidRequest) as error:
            await house.services.views.create(BOB, "w", "t", name="V", filter=wanted)
        refused.append((error.value.field, error.value.message.replace(field, "?")))
    assert refused[0] == refused[1]


async def test_with_every_field_hidden_there_is_nothing(house: House) -> None:
    """baserow#5778: not a table without restrictions."""
    await house.kept()
    for field in ("country", "name"):
        await house.permit(field, "none")
    await house.denied()
    with pytest.raises(NotFound):
        await house.services.records.list(BOB, "w", "t")
    await house.permit("name", "read")
    assert fields(await house.now()) == ["name"]


async def test_ones_own_edit_moves_a_row_out_of_the_filter(house: House) -> None:
    """baserow#5660: the count drops for the editor as for everybody."""
    await house.view()
    await house.role("editor")
    for who in (BOB, ANA):
        assert in_view(await house.kept(who, viewId="belgium")) == 5
    await house.services.records.update(BOB, "w", "t", "r0", {"country": "France"})
    for who in (BOB, ANA):
        assert in_view(await house.now(who, viewId="belgium")) == 4


async def test_a_change_cascades_through_a_lookup(house: House) -> None:
    """baserow#5649: an edit on one table takes back the counts of another that looks it up."""
    s = house.services
    await s.tables.create(ANA, "w", name="Parcels", id="parcels", primary_id="p-name")
    await s.links.create(ANA, "w", "parcels", name="Order", linked_table_id="t", id="order")
    for n in range(3):
        await s.records.create(ANA, "w", "parcels", {}, id=f"p{n}", links={"order": [f"r{n}"]})
    await house.computed("parcels", "to", "lookup", ("parcels", "order"), ("t", "country"))
    looked_up = {
        "rollup": {
            "function": "max",
            "step": {"field": "order", "table": "t"},
            "value": {"cell": "country", "kind": "text"},
        }
    }
    equal = {"field": "to", "value": looked_up, "test": {"op": "equal", "to": "Belgium"}}
    await s.views.create(ANA, "w", "parcels", name="To Belgium", id="to-belgium")
    async with house.database.begin() as connection:
        await connection.execute(
            update(t.views).where(t.views.c.id == "to-belgium").values(filter={"where": equal})
        )
    where = {"tableIds": ["parcels"], "viewId": "to-belgium"}
    assert in_view(await house.kept(**where)) == 2
    await s.records.update(ANA, "w", "t", "r0", {"country": "France"})
    assert in_view(await house.now(**where)) == 1


async def test_a_link_to_an_unreadable_table_is_opaque(house: House) -> None:
    """baserow#1558: no name and no count of what it leads to."""
    s = house.services
    await s.tables.create(ANA, "w", name="Salaries", id="salaries", primary_id="s-name")
    await s.records.create(ANA, "w", "salaries", {}, id="s0")
    await s.links.create(ANA, "w", "t", name="Paid by", linked_table_id="salaries", id="paid")
    await s.links.set(ANA, "w", "t", "paid", "r0", ["s0"])
    (open_,) = (await house.kept()).relations
    assert (open_.linked_table_name, open_.link_count and open_.link_count.value) == ("Salaries", 1)
    await house.grant("none", scope="table:salaries")
    seen = await house.now()
    (opaque,) = seen.relations
    assert (opaque.field_name, opaque.linked_table_id, opaque.link_count) == ("Paid by", None, None)
    assert "alaries" not in seen.model_dump_json()


async def test_a_snapshot_that_is_read_again_brings_no_access_back(house: House) -> None:
    """baserow#1723: the evidence of what a removed member was told stays evidence."""
    told = await house.kept()
    await house.services.members.remove(ANA, "w", BOB)
    kept = await SqlSnapshots(house.database).get(told.context_id)
    assert kept is not None
    assert AgentContext.model_validate_json(kept.context).user.id == BOB
    await house.denied()
    await house.denied(tableIds=[])


async def test_a_grant_on_a_trashed_table_is_for_no_other(house: House) -> None:
    """baserow#1516: a new table has the role of the workspace still."""
    await house.role("builder")
    await house.grant("viewer")
    assert table_of(await house.kept()).permission == "viewer"
    await house.services.tables.trash(ANA, "w", "t")
    await house.denied()
    await house.denied(tableIds=["new"])
    await house.services.tables.create(ANA, "w", name="New", id="new")
    assert table_of(await house.now(tableIds=["new"])).permission == "builder"


async def test_a_formula_over_a_hidden_field_is_hidden(house: House) -> None:
    """grist-core#305: until a permission on the formula itself shows it."""
    await house.computed("t", "sum", "formula", ("t", "country"))
    assert fields(await house.kept()) == ["name", "country", "sum"]
    await house.permit("country", "none")
    assert fields(await house.now()) == ["name"]
    await house.kept()
    await house.permit("sum", "read")
    assert fields(await house.now()) == ["name", "sum"]


async def test_an_address_is_one_however_it_is_spelt(house: House) -> None:
    """grist-core#871: a policy by address decides alike on every path, whatever its case is in
    the profile, in the table that it looks up or in the cell that it is compared with."""
    s = house.services
    await s.tables.create(ANA, "w", name="People", id="people", primary_id="mail")
    await s.fields.create(ANA, "w", "people", name="Land", type="text", id="land")
    await s.records.create(ANA, "w", "people", {"mail": "API@X.example", "land": "Belgium"})
    attr = {"attr": {"table": "people", "keyField": "mail", "valueField": "land"}}
    own = {"cmp": {"ref": "field:country", "op": "in", "operand": attr}}
    await s.policies.set(
        ANA, "w", "t", {"policies": [
            {"mode": "restrictive", "subjects": [{"type": "user", "id": BOB}], "pred": own}]},
    )  # fmt: skip
    beside = {"cmp": {"ref": "field:mail", "op": "eq", "operand": {"user": "email_norm"}}}
    await s.policies.set(
        ANA, "w", "people", {"policies": [
            {"mode": "restrictive", "subjects": [{"type": "user", "id": BOB}], "pred": beside}]},
    )  # fmt: skip
    assert records(await house.kept()) == 0
    for email in ("api@x.example", " Api@X.EXAMPLE ", "API@x.example"):
        await s.users.update("op", BOB, email=email)
        seen = await house.now()
        listed = await s.records.list(BOB, "w", "t")
        assert (records(seen), len(listed)) == (5, 5)
        assert records(await house.now(tableIds=["people"])) == 1
        assert len(await s.records.list(BOB, "w", "people")) == 1
        await house.kept()


async def test_a_view_shows_what_is_both_named_and_allowed(house: House) -> None:
    """teable#3335: a projection that names a hidden field does not bring it back."""
    order = ["country", "name"]
    await house.services.views.create(ANA, "w", "t", name="V", id="v", field_order=order)
    shown = await house.kept(viewId="v")
    assert shown.view is not None
    assert (shown.view.field_count, fields(shown)) == (2, ["name", "country"])
    await house.permit("country", "none")
    left = await house.now(viewId="v")
    assert left.view is not None
    assert (left.view.field_count, fields(left)) == (1, ["name"])


async def test_who_made_a_table_is_denied_it_like_anybody(house: House) -> None:
    """nocodb#11103: NONE on the workspace is NONE on every path, for the maker too."""
    s = house.services
    await house.role("builder")
    await s.tables.create(BOB, "w", name="Mine", id="mine", primary_id="m-name")
    await s.views.create(BOB, "w", "mine", name="Mine", id="my-view", ownership="personal")
    where = {"tableIds": ["mine"], "viewId": "my-view"}
    assert (await house.kept(**where)).view is not None
    await house.role("none")
    await house.denied(**where)
    assert (await house.now(tableIds=[], viewId="my-view")).view is None
    for write in (
        s.records.list(BOB, "w", "mine"),
        s.records.create(BOB, "w", "mine", {}),
        s.views.delete(BOB, "w", "mine", "my-view"),
    ):
        with pytest.raises(NotFound):
            await write
    assert await s.tables.list(BOB, "w") == ()


async def test_a_member_who_is_added_again_sees_at_once(house: House) -> None:
    """nocodb#8804: neither a refusal of the time between nor a context from before it is served."""
    await house.kept()
    await house.services.members.remove(ANA, "w", BOB)
    for _ in range(2):
        await house.denied()
    await house.services.members.add(ANA, "w", BOB, role="editor")
    again = await house.now()
    assert (table_of(again).permission, records(again)) == ("editor", 10)
