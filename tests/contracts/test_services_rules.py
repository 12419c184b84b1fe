"""Who may write what, and what is refused because this version could not enforce it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import JsonValue
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import policy
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.changes import LinksChanged, PolicyChanged, ProjectChanged, TeamMemberChanged
from context_engine.errors import Conflict, InvalidRequest, NotFound, NotPermitted
from tests.support.services import ANA, BEN, BUD, COM, NED, OUT, VIC, row
from tests.support.world import OWN_ROWS

Write = Callable[[DomainServices, str], Awaitable[Any]]

EDITS: dict[str, Write] = {
    "record": lambda s, who: s.records.update(who, "w", "tbl", "r1", {"n": 1}),
    "new record": lambda s, who: s.records.create(who, "w", "tbl", {}),
    "task": lambda s, who: s.tasks.create(who, "w", title="T"),
}
BUILDS: dict[str, Write] = {
    "table": lambda s, who: s.tables.create(who, "w", name="T"),
    "table name": lambda s, who: s.tables.rename(who, "w", "tbl", name="T"),
    "field": lambda s, who: s.fields.create(who, "w", "tbl", name="F", type="text"),
    "view": lambda s, who: s.views.create(who, "w", "tbl", name="V"),
    "project": lambda s, who: s.projects.create(who, "w", name="P"),
    "workflow": lambda s, who: s.workflows.create(who, "w", name="W"),
}
RULES: dict[str, Write] = {
    "workspace": lambda s, who: s.workspaces.rename(who, "w", name="N"),
    "member": lambda s, who: s.members.set(who, "w", VIC, role="viewer"),
    "new member": lambda s, who: s.members.add(who, "w", OUT, role="viewer"),
    "team": lambda s, who: s.teams.create(who, "w", name="T"),
    "grant": lambda s, who: _grant(s, who),
    "policy": lambda s, who: s.policies.set(who, "w", "tbl", {}),
    "field permission": lambda s, who: s.field_permissions.set(
        who, "w", "tbl", "n", subject_type="role", subject_id="viewer", level="none"
    ),
    "agent": lambda s, who: s.agents.create(who, "w", name="A", max_role="editor"),
    "restricted view": lambda s, who: s.views.create(
        who, "w", "tbl", name="V", ownership="restricted"
    ),
}
ALLOWED = {
    ANA: {**EDITS, **BUILDS, **RULES},
    BUD: {**EDITS, **BUILDS},
    BEN: EDITS,
    COM: {},
    VIC: {},
    NED: {},
}
ON_TABLE = {
    "record", "new record", "table name", "field", "view", "policy", "restricted view", "grant",
    "field permission",
}  # fmt: skip


def _grant(services: DomainServices, who: str, **more: str) -> Awaitable[Any]:
    given = {"subject_type": "user", "subject_id": VIC, "scope_id": "tbl", "role": "editor"}
    return services.grants.set(who, "w", **(given | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("who", [*ALLOWED, OUT])
async def test_each_role_writes_what_it_may_and_nothing_else(
    services: DomainServices, who: str
) -> None:
    """Under the role: not permitted; out of sight: not found; outside: no workspace at all."""
    for name, write in {**EDITS, **BUILDS, **RULES}.items():
        if name in ALLOWED.get(who, {}):
            await write(services, who)
            continue
        with pytest.raises((NotPermitted, NotFound)) as refused:
            await write(services, who)
        unseen = who == OUT or (who == NED and name in ON_TABLE)
        assert isinstance(refused.value, NotFound) == unseen, name


async def test_a_table_grant_decides_on_its_table_alone(services: DomainServices) -> None:
    """A viewer with EDITOR on the table edits it; an EDITOR with NONE there does not see it."""
    await _grant(services, ANA)
    await services.records.update(VIC, "w", "tbl", "r1", {"n": 1})
    await _grant(services, ANA, subject_id=BEN, role="none")
    with pytest.raises(NotFound, match="table 'tbl' was not found"):
        await services.records.update(BEN, "w", "tbl", "r1", {"n": 1})
    await services.grants.remove(
        ANA, "w", subject_type="user", subject_id=BEN, scope_type="table", scope_id="tbl"
    )
    await services.records.update(BEN, "w", "tbl", "r1", {"n": 1})


async def test_an_admin_of_a_table_grants_on_it_and_nowhere_else(
    services: DomainServices,
) -> None:
    """The narrower role holds for the table's grants too."""
    await _grant(services, ANA, role="admin")
    await _grant(services, VIC, subject_id=BEN, role="viewer")
    await services.policies.set(VIC, "w", "tbl", {})
    await services.tables.create(ANA, "w", name="Other", id="other")
    with pytest.raises(NotPermitted):
        await _grant(services, VIC, scope_id="other", role="viewer")


def _policies(pred: JsonValue, mode: str = "restrictive", **more: Any) -> dict[str, JsonValue]:
    one = {"subjects": [{"type": "role", "id": "viewer"}], "pred": pred, "mode": mode}
    return {"policies": [{**one, **more}]}


def _is(field: str, op: str, value: JsonValue) -> JsonValue:
    return {"cmp": {"ref": f"field:{field}", "op": op, "operand": {"literal": value}}}


def _cmp(ref: str, op: str = "eq") -> JsonValue:
    return {"cmp": {"ref": ref, "op": op, "operand": {"user": "id"}}}


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        (_policies(OWN_ROWS, "permissive"), "policies.0.mode.*without effect"),
        (_policies(_cmp("field:gone")), "policies.0.pred.cmp.ref.*missing field"),
        (_policies({"all": [True, _cmp("field:n", "like")]}), "policies.0.pred.all.1.cmp.op"),
        (_policies({"linkedAny": {"field": "n", "pred": True}}), "linkedAny.field.*a number field"),
        (_policies(_cmp("field:team")), "use has_any"),
        (_policies(_cmp("field:owner", "has_any")), "use eq"),
        (_policies(_cmp("field:n")), "operand: user.id is text; use a number"),
        (_policies(OWN_ROWS, subjects=[{"type": "role", "id": "boss"}]), "use one of viewer"),
        (_policies(OWN_ROWS, subjects=[{"type": "team", "id": "gone"}]), "no team 'gone'"),
        (_policies(OWN_ROWS, subjects=[{"type": "user", "id": OUT}]), "not an active member"),
        (_policies(OWN_ROWS, subjects=[]), "at least 1"),
        ({"default": "deny_all"}, "default: deny_all shows nobody a row"),
        ({**_policies(OWN_ROWS), "default": "deny_all"}, "default: deny_all shows nobody a row"),
        (_policies(_is("state", "eq", "gone")), 'pred.cmp.operand.literal: .*there are "open"'),
        (
            _policies(_is("state", "not_in", ["open", "gone"])),
            "literal.1: .*no such choice",
        ),
        (
            _policies({"not": _is("labels", "has_any", ["c"])}),
            "literal.0: .*no such choice",
        ),
        (_policies(_is("labels", "has_all", "c")), "operand.literal: .*no such choice"),
        ({"default": "hide_all"}, "default"),
        ({"polices": []}, "polices"),
        (["x"], "policies"),
    ],
)
async def test_a_policy_that_would_deny_or_do_nothing_is_refused(
    services: DomainServices, policies: JsonValue, says: str
) -> None:
    """It is not stored, and the message names the place and says what to do."""
    with pytest.raises(InvalidRequest, match=says):
        await services.policies.set(ANA, "w", "tbl", policies)
    assert len(await services.records.list(VIC, "w", "tbl")) == 3


async def test_deny_all_is_for_tables_that_something_opens(services: DomainServices) -> None:
    """A restricted view opens the rows that its grants let in, and none but those."""
    await services.views.create(
        ANA, "w", "tbl", name="V", ownership="restricted", id="v",
        filter=_is("state", "in", ["done"]),
    )  # fmt: skip
    await services.records.update(ANA, "w", "tbl", "r1", {"state": "done"})
    await services.policies.set(ANA, "w", "tbl", {"default": "deny_all"})
    await _grant(services, ANA, scope_type="view", scope_id="v", role="viewer")
    assert [one.id for one in await services.records.list(VIC, "w", "tbl")] == ["r1"]
    assert await services.records.list(ANA, "w", "tbl") == []


async def test_a_policy_of_every_part_is_stored_as_it_was_written(
    services: DomainServices,
) -> None:
    """`get` gives what `set` took, ids of users as text, and `set` takes that again."""
    await services.tables.create(ANA, "w", name="Staff", id="staff", primary_id="mail")
    await services.fields.create(ANA, "w", "staff", name="Region", type="text", id="region")
    await services.links.create(ANA, "w", "tbl", name="Staff", linked_table_id="staff", id="link")
    looked_up = {"table": "staff", "keyField": "mail", "valueField": "region"}
    parts: list[JsonValue] = [
        {"not": {"cmp": {"ref": "field:owner", "op": "in", "operand": {"literal": [7, BEN]}}}},
        {"cmp": {"ref": "field:day", "op": "gte", "operand": {"now": {"unit": "week"}}}},
        {"cmp": {"ref": "field:state", "op": "in", "operand": {"attr": looked_up}}},
        {"cmp": {"ref": "field:team", "op": "has_any", "operand": {"user": "team_ids"}}},
        {"linkedAny": {"field": "link", "pred": _cmp("field:mail")}},
        {"cmp": {"ref": "field:n", "op": "not_empty"}},
    ]
    await services.policies.set(ANA, "w", "tbl", _policies({"any": parts}))
    stored = await services.policies.get(ANA, "w", "tbl")
    assert await services.policies.set(ANA, "w", "tbl", stored.model_dump(mode="json"))
    assert await services.policies.get(ANA, "w", "tbl") == stored
    (one,) = stored.policies
    assert next(policy.comparisons(one.pred)).operand == policy.Literal_(literal=["7", BEN])


async def test_what_is_out_of_the_writers_sight_is_refused_as_what_is_missing(
    services: DomainServices,
) -> None:
    """A table of a lookup, and the table that a link leads to: the same words for both."""
    await services.tables.create(ANA, "w", name="Far", id="far", primary_id="far-name")
    await services.links.create(ANA, "w", "tbl", name="L", linked_table_id="far", id="link")
    await _grant(services, ANA, subject_id=BUD, role="admin")
    await _grant(services, ANA, subject_id=BUD, scope_id="far", role="none")

    async def refused(pred: JsonValue) -> str:
        with pytest.raises(InvalidRequest) as fault:
            await services.policies.set(BUD, "w", "tbl", _policies(pred))
        return fault.value.message

    def lookup(table: str) -> JsonValue:
        attr = {"table": table, "keyField": "far-name", "valueField": "far-name"}
        return {"cmp": {"ref": "field:name", "op": "in", "operand": {"attr": attr}}}

    assert await refused(lookup("far")) == await refused(lookup("gone"))
    hidden = await refused({"linkedAny": {"field": "link", "pred": _cmp("field:far-name")}})
    assert "leads to no table here" in hidden
    await services.tables.trash(ANA, "w", "far")
    assert await refused({"linkedAny": {"field": "link", "pred": True}}) == hidden


async def test_own_rows_are_all_that_a_policy_shows(services: DomainServices) -> None:
    """The viewer lists the assigned rows, and can neither link to nor change the others."""
    wanted = _policies({"any": [OWN_ROWS, _cmp("field:owner"), _cmp("field:team", "has_any")]})
    await services.policies.set(ANA, "w", "tbl", wanted)
    assert await services.records.list(VIC, "w", "tbl") == []
    await services.records.update(ANA, "w", "tbl", "r2", {"owner": VIC})
    await services.records.update(ANA, "w", "tbl", "r3", {"team": [BEN, VIC]})
    assert [one.id for one in await services.records.list(VIC, "w", "tbl")] == ["r2", "r3"]
    await _grant(services, ANA)  # now EDITOR there, whom the policy does not name
    assert len(await services.records.list(VIC, "w", "tbl")) == 3


async def test_a_record_out_of_sight_is_not_found(services: DomainServices) -> None:
    """An EDITOR under a policy writes, deletes and restores the own rows only."""
    await services.policies.set(
        ANA, "w", "tbl", _policies(OWN_ROWS, subjects=[{"type": "user", "id": BEN}])
    )
    own = (await services.records.create(BEN, "w", "tbl", {"name": "Mine"})).id
    await services.records.update(BEN, "w", "tbl", own, {"n": 1})
    for write in (
        services.records.update(BEN, "w", "tbl", "r1", {"n": 1}),
        services.records.delete(BEN, "w", "tbl", ["r1"]),
        services.tasks.create(BEN, "w", title="T", table_id="tbl", record_id="r1"),
    ):
        with pytest.raises(NotFound, match="record 'r1' was not found"):
            await write
    await services.records.delete(ANA, "w", "tbl", ["r1"])
    with pytest.raises(NotFound):
        await services.records.restore(BEN, "w", "tbl", ["r1"])
    await services.records.delete(BEN, "w", "tbl", [own])
    await services.records.restore(BEN, "w", "tbl", [own])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"scope_type": "record", "scope_id": "r1"}, "use workspace, table or view"),
        ({"scope_type": "workspace", "scope_id": "w"}, "set that"),
        ({"subject_type": "role", "subject_id": "viewer"}, "use user or team"),
        ({"role": "owner"}, "use one of none"),
        ({"role": "defer"}, "use one of none"),
        ({"subject_id": OUT}, "not an active member"),
    ],
)
async def test_a_grant_that_could_not_be_resolved_is_refused(
    services: DomainServices, given: dict[str, str], says: str
) -> None:
    """Refused, never stored and ignored."""
    with pytest.raises(InvalidRequest, match=says):
        await _grant(services, ANA, **given)


async def test_nothing_leaves_its_workspace(services: DomainServices) -> None:
    """Tables, teams and link targets of another workspace are not found from here."""
    await services.workspaces.create("op", name="Two", maker_id=ANA, id="w2")
    await services.tables.create(ANA, "w2", name="Far", id="far")
    await services.teams.create(ANA, "w2", name="Far", id="far-team")
    for write in (
        _grant(services, ANA, scope_id="far"),
        _grant(services, ANA, subject_type="team", subject_id="far-team"),
        services.links.create(ANA, "w", "tbl", name="L", linked_table_id="far"),
        services.records.create(ANA, "w", "far", {}),
        services.teams.delete(ANA, "w", "far-team"),
    ):
        with pytest.raises(NotFound):
            await write
    with pytest.raises(InvalidRequest, match="no table 'far'"):
        await services.agents.create(ANA, "w", name="A", max_role="viewer", table_ids=["far"])


@pytest.mark.parametrize(
    ("filter", "says"),
    [
        (_cmp("field:gone"), "no such field"),
        ({"cmp": 1}, "cmp"),
        ({"linkedAny": {"field": "name", "pred": True}}, "link"),
        ({"cmp": {"ref": "field:day", "op": "in", "operand": {"now": {"unit": "today"}}}}, "op"),
        ({"cmp": {"ref": "sys:created_at", "op": "gt", "operand": {"literal": "x"}}}, "day"),
    ],
)
async def test_a_filter_that_could_not_be_computed_is_refused(
    services: DomainServices, filter: JsonValue, says: str
) -> None:
    """On a new view and on an old one; the message names the filter."""
    with pytest.raises(InvalidRequest, match=says) as refused:
        await services.views.create(ANA, "w", "tbl", name="V", filter=filter)
    assert (refused.value.field or "").startswith("filter")
    await services.views.create(ANA, "w", "tbl", name="V", id="v", filter=_cmp("field:owner"))
    with pytest.raises(InvalidRequest, match=says):
        await services.views.update(ANA, "w", "tbl", "v", filter=filter)


async def test_a_restricted_view_is_a_change_of_access(services: DomainServices) -> None:
    """Whoever is no ADMIN does not see it, and what it shows is told as a policy is."""
    made = await services.views.create(ANA, "w", "tbl", name="V", ownership="restricted", id="v")
    assert any(isinstance(change, PolicyChanged) for change in made.changes)
    with pytest.raises(NotFound, match="view 'v'"):
        await services.views.update(BUD, "w", "tbl", "v", name="X")


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"n": True}, "finite number"),
        ({"n": float("inf")}, "finite number"),
        ({"ok": 1}, "true or false"),
        ({"day": "2026-02-30"}, "YYYY-MM-DD"),
        ({"state": "else"}, "choices"),
        ({"labels": ["a", "c"]}, "choices"),
        ({"owner": [VIC]}, "id of 1 to 200"),
        ({"owner": OUT}, "not an active member"),
        ({"name": "a\x00b"}, "NUL"),
        ({"name": 1}, "write a text"),
        ({"gone": 1}, "no such field"),
    ],
)
async def test_a_cell_of_another_type_is_refused(
    services: DomainServices, cells: dict[str, JsonValue], says: str
) -> None:
    """The message names the field."""
    with pytest.raises(InvalidRequest, match=says):
        await services.records.create(ANA, "w", "tbl", cells)


async def test_cells_are_stored_in_one_form(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Ids become text, repetitions fall together, an emptied cell is left out."""
    await services.users.create("op", name="Seven", id="7")
    await services.members.add(ANA, "w", "7", role="viewer")
    await services.records.update(
        ANA, "w", "tbl", "r1", {"owner": 7, "team": [7, "7"], "labels": ["a", "a"], "n": 1.5}
    )
    await services.records.update(ANA, "w", "tbl", "r1", {"n": None, "labels": []})
    cells = (await row(database, t.records, "r1")).cells
    assert cells == {"name": "Thing 1", "owner": "7", "team": ["7"]}


async def test_a_removed_member_leaves_nothing_that_a_later_membership_revives(
    services: DomainServices,
) -> None:
    """Grants, teams and private projects end with the membership, and all of it is told."""
    await _grant(services, ANA, role="builder")
    await services.teams.create(ANA, "w", name="T", id="team")
    await services.teams.add_member(ANA, "w", "team", VIC)
    await services.projects.create(ANA, "w", name="P", private=True, member_ids=[VIC], id="p")
    gone = await services.members.remove(ANA, "w", VIC)
    kinds = {type(change) for change in gone.changes}
    assert {TeamMemberChanged, ProjectChanged} < kinds
    with pytest.raises(NotFound):
        await services.records.list(VIC, "w", "tbl")
    await services.members.add(ANA, "w", VIC, role="viewer")
    with pytest.raises(NotPermitted):
        await services.records.update(VIC, "w", "tbl", "r1", {"n": 1})


async def test_a_private_project_is_its_members_alone(services: DomainServices) -> None:
    """Not even another BUILDER sees it, and its last member stays."""
    await services.projects.create(BUD, "w", name="P", private=True, id="p")
    for write in (
        services.projects.update(ANA, "w", "p", name="X"),
        services.tasks.create(ANA, "w", title="T", project_id="p"),
    ):
        with pytest.raises(NotFound, match="project 'p'"):
            await write
    with pytest.raises(Conflict, match="last member"):
        await services.projects.remove_member(BUD, "w", "p", BUD)
    await services.projects.add_member(BUD, "w", "p", ANA)
    await services.projects.update(ANA, "w", "p", name="X")


async def test_a_trashed_table_is_gone_for_all_and_comes_back(services: DomainServices) -> None:
    """Restoring takes the rights that the actor has on the table itself."""
    await _grant(services, ANA, subject_id=BUD, role="viewer")
    await services.tables.trash(ANA, "w", "tbl")
    with pytest.raises(NotFound):
        await services.records.list(ANA, "w", "tbl")
    for who in (BUD, VIC):
        with pytest.raises(NotFound, match="table 'tbl' was not found"):
            await services.tables.restore(who, "w", "tbl")
    await services.tables.restore(ANA, "w", "tbl")
    with pytest.raises(NotPermitted):
        await services.tables.restore(BUD, "w", "tbl")
    assert len(await services.records.list(ANA, "w", "tbl")) == 3


async def test_links_join_both_sides_and_tell_of_both(services: DomainServices) -> None:
    """A link written reads the same from its other side; `one` takes one."""
    await services.tables.create(ANA, "w", name="Others", id="other", primary_id="o-name")
    await services.records.create(ANA, "w", "other", {}, id="o1")
    await services.links.create(
        ANA, "w", "tbl", name="Other", linked_table_id="other", cardinality="one",
        id="to-other", back_name="Things", back_id="to-tbl",
    )  # fmt: skip
    written = await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o1"])
    link = next(change for change in written.changes if isinstance(change, LinksChanged))
    assert (link.linked_table_id, link.linked_field_id) == ("other", "to-tbl")
    assert set(link.record_ids) == {"r1", "o1"}
    with pytest.raises(InvalidRequest, match="takes one"):
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o1", "o2"])
    with pytest.raises(NotFound, match="record 'gone'"):
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["gone"])
    await _grant(services, ANA, subject_id=BEN, scope_id="other", role="none")
    with pytest.raises(NotPermitted, match="field 'to-other' leads out"):
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o1"])


async def test_a_link_is_written_by_its_own_side(services: DomainServices) -> None:
    """Whoever may write the field of the near row links it to any row in sight. The field of the
    other side shows the same links, and no right to write it is asked for."""
    await services.tables.create(ANA, "w", name="Others", id="other", primary_id="o-name")
    for id in ("o1", "o2"):
        await services.records.create(ANA, "w", "other", {"o-name": id}, id=id)
    await services.links.create(
        ANA, "w", "tbl", name="Other", linked_table_id="other", id="to-other",
        back_name="Things", back_id="to-tbl",
    )  # fmt: skip
    await _grant(services, ANA, subject_id=BEN, scope_id="other", role="viewer")

    async def back(level: str) -> None:
        await services.field_permissions.set(
            ANA, "w", "other", "to-tbl", subject_type="user", subject_id=BEN, level=level
        )

    for level in ("write", "read", "none"):
        await back(level)
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o1"])
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", [])
        with pytest.raises((NotPermitted, InvalidRequest)):
            await services.links.set(BEN, "w", "other", "to-tbl", "o1", ["r1"])
    await services.field_permissions.set(
        ANA, "w", "tbl", "to-other", subject_type="user", subject_id=BEN, level="read"
    )
    with pytest.raises(NotPermitted, match="field 'to-other'"):
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o1"])
    await services.field_permissions.remove(
        ANA, "w", "tbl", "to-other", subject_type="user", subject_id=BEN
    )
    only = {"subjects": [{"type": "user", "id": BEN}], "mode": "restrictive"}
    pred: JsonValue = {"cmp": {"ref": "field:o-name", "op": "eq", "operand": {"literal": "o1"}}}
    await services.policies.set(ANA, "w", "other", {"policies": [{**only, "pred": pred}]})
    with pytest.raises(NotFound, match="record 'o2'"):
        await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o2"])
    await services.links.set(BEN, "w", "tbl", "to-other", "r1", ["o1"])


async def test_a_team_is_deleted_by_who_renames_it(services: DomainServices) -> None:
    """Under ADMIN no team is told from another, or from none."""
    await services.teams.create(ANA, "w", name="T", id="g")
    for team in ("g", "gone"):
        for write in (
            services.teams.rename(BUD, "w", team, name="N"),
            services.teams.delete(BUD, "w", team),
        ):
            with pytest.raises(NotPermitted):
                await write
    with pytest.raises(NotFound, match="team 'gone'"):
        await services.teams.delete(ANA, "w", "gone")
    await services.teams.delete(ANA, "w", "g")
