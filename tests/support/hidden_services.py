"""Every service of a workspace, called with what is hidden and with what is not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import JsonValue

from context_engine.adapters.sql.services import DomainServices, NewRecord
from tests.support.services import ANA, BEN, BUD, COM, NED, VIC

HIDDEN, MISSING = "hidden", "nobody"
"""Beginnings of ids, of equal length: those of what is there, and of what is not."""
ELSEWHERE = f"{HIDDEN}-workspace"
TABLE_ADMIN = COM
"""Sees the workspace as a COMMENTER, and is ADMIN of the table `tbl`."""

Call = Callable[[DomainServices, str, str, str], Awaitable[Any]]
"""With who asks, the workspace, and the beginning of the id."""
CALL: dict[str, JsonValue] = {"id": "call", "name": "list"}


async def hide(s: DomainServices) -> None:
    """Puts one thing of every kind into a furnished workspace `w`, out of the sight of BUD."""
    none = {"subject_type": "user", "level": "none"}
    await s.workspaces.create("op", name="Other", maker_id=ANA, id=ELSEWHERE)
    for id in (f"{HIDDEN}-table", f"{HIDDEN}-gone"):
        await s.tables.create(ANA, "w", name="T", id=id, primary_id=f"{id}-field")
        await s.views.create(ANA, "w", id, name="V", id=f"{id}-view")
        await s.records.create(ANA, "w", id, {}, id=f"{id}-record")
        for who in (BUD, TABLE_ADMIN):
            await grant(s, ANA, "w", "table", id, "none", who)
    await s.tables.trash(ANA, "w", f"{HIDDEN}-gone")
    await grant(s, ANA, "w", "table", "tbl", "admin", TABLE_ADMIN)
    for ownership in ("restricted", "personal"):
        view = f"{HIDDEN}-{ownership}"
        await s.views.create(ANA, "w", "tbl", name="V", ownership=ownership, id=view)
    await s.fields.create(ANA, "w", "tbl", name="F", type="text", id=f"{HIDDEN}-field")
    await s.fields.create(ANA, "w", "tbl", name="F", type="text", id="open")
    for who in (BUD, TABLE_ADMIN):
        await s.field_permissions.set(ANA, "w", "tbl", f"{HIDDEN}-field", subject_id=who, **none)
    await s.links.create(ANA, "w", "tbl", name="L", linked_table_id="tbl", id="link")
    for id in ("record", "deleted"):
        await s.records.create(ANA, "w", "tbl", {"open": "x"}, id=f"{HIDDEN}-{id}")
    await s.records.delete(ANA, "w", "tbl", [f"{HIDDEN}-deleted"])
    seen = {"cmp": {"ref": "field:open", "op": "empty"}}
    subjects = [{"type": "role", "id": "builder"}]
    rule: JsonValue = {"subjects": subjects, "pred": seen, "mode": "restrictive"}
    await s.policies.set(ANA, "w", "tbl", {"policies": [rule]})
    await s.projects.create(ANA, "w", name="P", private=True, id=f"{HIDDEN}-project")
    await s.tasks.create(ANA, "w", title="T", project_id=f"{HIDDEN}-project", id=f"{HIDDEN}-task")
    of_row = {"table_id": "tbl", "record_id": f"{HIDDEN}-record"}
    await s.tasks.create(ANA, "w", title="T", id=f"{HIDDEN}-task-of", **of_row)
    await s.tasks.create(ANA, "w", title="T", id="task")
    await s.workflows.create(ANA, "w", name="F", id=f"{HIDDEN}-workflow")
    await s.agents.create(ANA, "w", name="A", max_role="admin", id=f"{HIDDEN}-agent")
    await s.teams.create(ANA, "w", name="T", id=f"{HIDDEN}-team")
    for id, who in ((f"{HIDDEN}-talk", ANA), ("talk", BUD), ("neds", NED)):
        await s.conversations.open(who, "w", title="C", id=id)
        await s.messages.add(who, "w", id, "Hello", id=f"{id}-message")


def grant(
    s: DomainServices, who: str, w: str, scope: str, id: str, role: str = "viewer", to: str = VIC
) -> Awaitable[Any]:
    return s.grants.set(
        who, w, subject_type="user", subject_id=to, scope_type=scope, scope_id=id, role=role
    )


def ungrant(s: DomainServices, who: str, w: str, scope: str, id: str) -> Awaitable[Any]:
    return s.grants.remove(
        who, w, subject_type="user", subject_id=BEN, scope_type=scope, scope_id=id
    )


def permit(s: DomainServices, who: str, w: str, table: str, field: str) -> Awaitable[Any]:
    return s.field_permissions.set(
        who, w, table, field, subject_type="user", subject_id=VIC, level="read"
    )


def unpermit(s: DomainServices, who: str, w: str, table: str, field: str) -> Awaitable[Any]:
    return s.field_permissions.remove(who, w, table, field, subject_type="user", subject_id=VIC)


def compared(field: str) -> JsonValue:
    return {"cmp": {"ref": f"field:{field}", "op": "eq", "operand": {"literal": "x"}}}


def rules(pred: JsonValue) -> JsonValue:
    subjects: JsonValue = [{"type": "role", "id": "viewer"}]
    return {"policies": [{"subjects": subjects, "pred": pred, "mode": "restrictive"}]}


def looked_up(table: str, field: str) -> JsonValue:
    attr: JsonValue = {"table": table, "keyField": field, "valueField": field}
    return {"cmp": {"ref": "field:open", "op": "in", "operand": {"attr": attr}}}


def said(s: DomainServices, who: str, w: str, talk: str, **more: Any) -> Awaitable[Any]:
    return s.messages.add(who, w, talk, "", role="assistant", tool_calls=[CALL], **more)


CASES: dict[str, tuple[str, Call]] = {
    "workspaces.rename": (BUD, lambda s, a, w, x: s.workspaces.rename(a, w, name="N")),
    "workspaces.delete": (BUD, lambda s, a, w, x: s.workspaces.delete(a, w)),
    "members.list": (NED, lambda s, a, w, x: s.members.list(a, w)),
    "members.add": (BUD, lambda s, a, w, x: s.members.add(a, w, f"{x}-user", role="viewer")),
    "members.set": (BUD, lambda s, a, w, x: s.members.set(a, w, f"{x}-user", role="viewer")),
    "members.remove": (BUD, lambda s, a, w, x: s.members.remove(a, w, f"{x}-user")),
    "teams.create": (BUD, lambda s, a, w, x: s.teams.create(a, w, name="T", id=f"{x}-team")),
    "teams.rename": (BUD, lambda s, a, w, x: s.teams.rename(a, w, f"{x}-team", name="T")),
    "teams.delete": (BUD, lambda s, a, w, x: s.teams.delete(a, w, f"{x}-team")),
    "teams.add_member": (BUD, lambda s, a, w, x: s.teams.add_member(a, w, f"{x}-team", VIC)),
    "teams.remove_member": (BUD, lambda s, a, w, x: s.teams.remove_member(a, w, f"{x}-team", VIC)),
    "grants.set table": (BUD, lambda s, a, w, x: grant(s, a, w, "table", f"{x}-table")),
    "grants.set trashed": (BUD, lambda s, a, w, x: grant(s, a, w, "table", f"{x}-gone")),
    "grants.set view": (BUD, lambda s, a, w, x: grant(s, a, w, "view", f"{x}-restricted")),
    "grants.set personal": (
        BUD, lambda s, a, w, x: grant(s, a, w, "view", f"{x}-personal", "none")
    ),
    "grants.set far": (BUD, lambda s, a, w, x: grant(s, a, w, "view", f"{x}-table-view", "none")),
    "grants.set trashed view": (ANA, lambda s, a, w, x: grant(s, a, w, "view", f"{x}-gone-view")),
    "grants.set far, admin": (
        TABLE_ADMIN, lambda s, a, w, x: grant(s, a, w, "view", f"{x}-table-view", "none")
    ),
    "grants.set workspace": (BUD, lambda s, a, w, x: s.grants.set(
        a, w, subject_type="team", subject_id=f"{x}-team", scope_type="workspace", scope_id=w,
        role="viewer",
    )),
    "grants.remove": (BUD, lambda s, a, w, x: ungrant(s, a, w, "view", f"{x}-restricted")),
    "grants.remove table": (BUD, lambda s, a, w, x: ungrant(s, a, w, "table", f"{x}-table")),
    "listings.grants": (BUD, lambda s, a, w, x: s.listings.grants(a, w, table_id=f"{x}-table")),
    "listings.grants view": (
        BUD, lambda s, a, w, x: s.listings.grants(a, w, view_id=f"{x}-personal")
    ),
    "listings.teams": (NED, lambda s, a, w, x: s.listings.teams(a, w)),
    "agents.create": (
        BUD, lambda s, a, w, x: s.agents.create(
            a, w, name="A", max_role="viewer", table_ids=[f"{x}-table"]
        ),
    ),
    "agents.update": (BUD, lambda s, a, w, x: s.agents.update(a, w, f"{x}-agent", name="A")),
    "agents.delete": (BUD, lambda s, a, w, x: s.agents.delete(a, w, f"{x}-agent")),
    "tables.list": (NED, lambda s, a, w, x: s.tables.list(a, w)),
    "tables.create": (VIC, lambda s, a, w, x: s.tables.create(a, w, name="T", id=f"{x}-table")),
    "tables.show": (BUD, lambda s, a, w, x: s.tables.show(a, w, f"{x}-table")),
    "tables.rename": (BUD, lambda s, a, w, x: s.tables.rename(a, w, f"{x}-table", name="T")),
    "tables.trash": (BUD, lambda s, a, w, x: s.tables.trash(a, w, f"{x}-table")),
    "tables.restore": (BUD, lambda s, a, w, x: s.tables.restore(a, w, f"{x}-table")),
    "tables.restore trashed": (VIC, lambda s, a, w, x: s.tables.restore(a, w, f"{x}-gone")),
    "tables.restore shut": (BUD, lambda s, a, w, x: s.tables.restore(a, w, f"{x}-gone")),
    "fields.create": (
        BUD, lambda s, a, w, x: s.fields.create(a, w, f"{x}-table", name="F", type="text")
    ),
    "fields.update": (BUD, lambda s, a, w, x: s.fields.update(a, w, "tbl", f"{x}-field", name="F")),
    "fields.update far": (
        BUD, lambda s, a, w, x: s.fields.update(a, w, f"{x}-table", "n", name="F")
    ),
    "fields.delete": (BUD, lambda s, a, w, x: s.fields.delete(a, w, "tbl", f"{x}-field")),
    "field_permissions.list": (
        BUD, lambda s, a, w, x: s.field_permissions.list(a, w, f"{x}-table")
    ),
    "field_permissions.set": (
        BUD, lambda s, a, w, x: permit(s, a, w, f"{x}-table", f"{x}-table-field")
    ),
    "field_permissions.remove": (
        BUD, lambda s, a, w, x: unpermit(s, a, w, f"{x}-table", f"{x}-table-field")
    ),
    "links.create": (
        BUD, lambda s, a, w, x: s.links.create(a, w, "tbl", name="L", linked_table_id=f"{x}-table")
    ),
    "links.create from": (
        BUD, lambda s, a, w, x: s.links.create(a, w, f"{x}-table", name="L", linked_table_id="tbl")
    ),
    "links.set": (BUD, lambda s, a, w, x: s.links.set(a, w, "tbl", "link", f"{x}-record", [])),
    "links.set to": (
        BUD, lambda s, a, w, x: s.links.set(a, w, "tbl", "link", "r1", [f"{x}-record"])
    ),
    "links.set field": (BUD, lambda s, a, w, x: s.links.set(a, w, "tbl", f"{x}-field", "r1", [])),
    "links.set_many": (
        BUD, lambda s, a, w, x: s.links.set_many(a, w, f"{x}-table", "link", {"r1": []})
    ),
    "views.create": (BUD, lambda s, a, w, x: s.views.create(a, w, f"{x}-table", name="V")),
    "views.create hidden": (
        BUD, lambda s, a, w, x: s.views.create(a, w, "tbl", name="V", hidden=[f"{x}-field"])
    ),
    "views.update": (
        BUD, lambda s, a, w, x: s.views.update(a, w, "tbl", f"{x}-personal", name="V")
    ),
    "views.update restricted": (
        BUD, lambda s, a, w, x: s.views.update(a, w, "tbl", f"{x}-restricted", name="V")
    ),
    "views.update far": (
        BUD, lambda s, a, w, x: s.views.update(a, w, "tbl", f"{x}-table-view", name="V")
    ),
    "views.delete": (BUD, lambda s, a, w, x: s.views.delete(a, w, "tbl", f"{x}-restricted")),
    "policies.get": (BUD, lambda s, a, w, x: s.policies.get(a, w, f"{x}-table")),
    "policies.versioned": (BUD, lambda s, a, w, x: s.policies.versioned(a, w, f"{x}-table")),
    "policies.set": (BUD, lambda s, a, w, x: s.policies.set(a, w, f"{x}-table", {})),
    "policies.set looked up": (TABLE_ADMIN, lambda s, a, w, x: s.policies.set(
        a, w, "tbl", rules(looked_up(f"{x}-table", f"{x}-table-field"))
    )),
    "records.list": (BUD, lambda s, a, w, x: s.records.list(a, w, f"{x}-table")),
    "records.create": (BUD, lambda s, a, w, x: s.records.create(a, w, f"{x}-table", {})),
    "records.create linked": (
        BUD, lambda s, a, w, x: s.records.create(a, w, "tbl", {}, links={"link": [f"{x}-record"]})
    ),
    "records.create_many": (
        BUD, lambda s, a, w, x: s.records.create_many(a, w, f"{x}-table", [NewRecord({})])
    ),
    "records.update": (
        BUD, lambda s, a, w, x: s.records.update(a, w, "tbl", f"{x}-record", {"open": "y"})
    ),
    "records.update far": (
        BUD, lambda s, a, w, x: s.records.update(a, w, "tbl", f"{x}-table-record", {"open": "y"})
    ),
    "records.update_many": (
        BUD, lambda s, a, w, x: s.records.update_many(a, w, "tbl", {f"{x}-deleted": {"open": "y"}})
    ),
    "records.delete": (BUD, lambda s, a, w, x: s.records.delete(a, w, "tbl", [f"{x}-record"])),
    "records.restore": (BUD, lambda s, a, w, x: s.records.restore(a, w, "tbl", [f"{x}-deleted"])),
    "projects.create": (VIC, lambda s, a, w, x: s.projects.create(a, w, name="P")),
    "projects.update": (BUD, lambda s, a, w, x: s.projects.update(a, w, f"{x}-project", name="P")),
    "projects.delete": (BUD, lambda s, a, w, x: s.projects.delete(a, w, f"{x}-project")),
    "projects.add_member": (
        BUD, lambda s, a, w, x: s.projects.add_member(a, w, f"{x}-project", VIC)
    ),
    "projects.remove_member": (
        BUD, lambda s, a, w, x: s.projects.remove_member(a, w, f"{x}-project", VIC)
    ),
    "tasks.create": (
        BUD, lambda s, a, w, x: s.tasks.create(a, w, title="T", project_id=f"{x}-project")
    ),
    "tasks.create far": (BUD, lambda s, a, w, x: s.tasks.create(
        a, w, title="T", table_id=f"{x}-table", record_id="r1"
    )),
    "tasks.create of": (BUD, lambda s, a, w, x: s.tasks.create(
        a, w, title="T", table_id="tbl", record_id=f"{x}-record"
    )),
    "tasks.update": (BUD, lambda s, a, w, x: s.tasks.update(a, w, f"{x}-task", title="T")),
    "tasks.update into": (
        BUD, lambda s, a, w, x: s.tasks.update(a, w, "task", project_id=f"{x}-project")
    ),
    "tasks.delete": (BUD, lambda s, a, w, x: s.tasks.delete(a, w, f"{x}-task")),
    "workflows.create": (VIC, lambda s, a, w, x: s.workflows.create(a, w, name="F")),
    "workflows.update": (
        NED, lambda s, a, w, x: s.workflows.update(a, w, f"{x}-workflow", name="F")
    ),
    "workflows.delete": (NED, lambda s, a, w, x: s.workflows.delete(a, w, f"{x}-workflow")),
    "conversations.list": (NED, lambda s, a, w, x: s.conversations.list(a, w)),
    "conversations.open": (
        NED,
        lambda s, a, w, x: s.conversations.open(a, w, title="C", participant_ids=[f"{x}-user"]),
    ),
    "conversations.rename": (
        BUD, lambda s, a, w, x: s.conversations.rename(a, w, f"{x}-talk", title="C")
    ),
    "conversations.delete": (BUD, lambda s, a, w, x: s.conversations.delete(a, w, f"{x}-talk")),
    "conversations.add_participant": (
        BUD, lambda s, a, w, x: s.conversations.add_participant(a, w, f"{x}-talk", VIC)
    ),
    "conversations.remove_participant": (
        BUD, lambda s, a, w, x: s.conversations.remove_participant(a, w, f"{x}-talk", ANA)
    ),
    "messages.add": (BUD, lambda s, a, w, x: s.messages.add(a, w, f"{x}-talk", "Hello")),
    "messages.add over": (BUD, lambda s, a, w, x: said(s, a, w, "talk", table_ids=[f"{x}-table"])),
    "messages.add under": (
        NED, lambda s, a, w, x: said(s, a, w, "neds", agent_stack=[f"{x}-agent"])
    ),
    "messages.edit": (
        BUD, lambda s, a, w, x: s.messages.edit(a, w, f"{x}-talk", f"{x}-talk-message", "Hello")
    ),
    "messages.edit other's": (
        BUD, lambda s, a, w, x: s.messages.edit(a, w, "talk", f"{x}-talk-message", "Hello")
    ),
    "messages.delete": (
        BUD, lambda s, a, w, x: s.messages.delete(a, w, f"{x}-talk", f"{x}-talk-message")
    ),
}  # fmt: skip
"""By service and method, and after a blank what else: who asks, and how."""

GUESSED: dict[str, tuple[str, Call]] = {
    "views.create filter": (
        BUD,
        lambda s, a, w, x: s.views.create(a, w, "tbl", name="V", filter=compared(f"{x}-field")),
    ),
    "records.create cell": (
        BUD, lambda s, a, w, x: s.records.create(a, w, "tbl", {f"{x}-field": "y"})
    ),
    "records.update cell": (
        BUD, lambda s, a, w, x: s.records.update(a, w, "tbl", "r1", {f"{x}-field": "y"})
    ),
    "tasks.update of a row": (
        BUD, lambda s, a, w, x: s.tasks.update(a, w, f"{x}-task-of", title="T")
    ),
}  # fmt: skip
"""Whose words name what is like the id that was given, of what is in sight."""
