"""Facts for tests that name their tables only: the rest is as a reading would tell it."""

from __future__ import annotations

from itertools import count
from typing import Any

from context_engine import access
from context_engine.access import VisibleScope, VisibleTable
from context_engine.facts import (
    AgentFacts,
    Facts,
    FieldFacts,
    FieldPermissionFacts,
    GrantFacts,
    MemberFacts,
    PolicyFacts,
    TableFacts,
    UserFacts,
    ViewFacts,
    ViewHead,
    WorkspaceFacts,
)
from context_engine.keys import Coordinates

USER = UserFacts(
    id="u", name="Ulla", email_norm="u@example.org", locale=None, timezone=None, active=True
)
WORKSPACE = WorkspaceFacts(id="w", name="Work", organization_id="o")
_ids = count(1)


def read(facts: Facts, at: Coordinates) -> Facts:
    """`facts` with the tables of the first reading, and the requested view's."""
    heads = [
        ViewHead(id=view.id, table_id=table.id, ownership=view.ownership, owner_id=view.owner_id)
        for table in facts.tables
        for view in table.views
        if view.id == at.view_id
    ]
    named = tuple(table.id for table in facts.tables)
    return facts.model_copy(update={"named": named, "view": heads[0] if heads else None})


def resolve(facts: Facts, at: Coordinates, **more: Any) -> VisibleScope:
    return access.resolve(read(facts, at), at, **more)


# -- one by one: the workspace is `w`, the user `u` ------------------------------------------------


def field(id: str = "f", type: str = "text", **more: Any) -> FieldFacts:
    return FieldFacts(id=id, name=id, type=type, **{"primary": False, **more})


def link(id: str, to: str, back: str | None = None) -> FieldFacts:
    return field(id, "link", linked_table_id=to, linked_field_id=back)


def computed(id: str, *sources: str, known: bool = True) -> FieldFacts:
    """Made of `sources`, each `table.field`; or of what nobody knows."""
    reads = tuple((table, name) for table, _, name in (one.partition(".") for one in sources))
    return field(id, "formula", reads=reads if known else None)


def view(id: str = "v", ownership: str = "collaborative", **more: Any) -> ViewFacts:
    bare = {"owner_id": None, "filter": None, "hidden": (), "field_order": ()}
    return ViewFacts(id=id, name=id, type="grid", ownership=ownership, **{**bare, **more})


def table(id: str = "t", *fields: FieldFacts, **more: Any) -> TableFacts:
    """With a text field `f` where none is given."""
    bare = {"policy_default": "show_all", "policies": (), "views": ()}
    return TableFacts(id=id, name=id, fields=fields or (field(),), **{**bare, **more})


def policy_of(pred: Any, mode: str = "restrictive", *subjects: str) -> PolicyFacts:
    """For `subjects`, each `role:…`, `team:…` or `user:…`; without one for the user. Its id is
    one of its own."""
    named = [one.partition(":") for one in subjects or ("user:u",)]
    said = [{"type": type, "id": subject} for type, _, subject in named]
    return PolicyFacts(id=f"p{next(_ids)}", subjects=said, pred=pred, mode=mode)  # type: ignore[arg-type]


def permission(field_id: str, level: Any, subject: str = "user:u") -> FieldPermissionFacts:
    type, _, id = subject.partition(":")
    return FieldPermissionFacts(field_id=field_id, subject_type=type, subject_id=id, level=level)  # type: ignore[arg-type]


def grant(role: Any, scope: str = "table:t", subject: str = "user:u") -> GrantFacts:
    (on, _, scope_id), (to, _, id) = scope.partition(":"), subject.partition(":")
    return GrantFacts(scope_type=on, scope_id=scope_id, subject_type=to, subject_id=id, role=role)  # type: ignore[arg-type]


def agent(max_role: Any = "admin", tables: tuple[str, ...] | None = None) -> AgentFacts:
    return AgentFacts(id="a", name="A", max_role=max_role, table_ids=tables)


def member(role: Any = "viewer", *tables: TableFacts, **more: Any) -> Facts:
    """An active member who holds `role` on the workspace, and its tables."""
    held = MemberFacts(role=role, active=True)
    return Facts(user=USER, workspace=WORKSPACE, member=held, tables=tables, **more)


def at(*table_ids: str, **more: Any) -> Coordinates:
    return Coordinates("w", "u", table_ids=table_ids, **more)


def only_table(facts: Facts, id: str = "t", **more: Any) -> VisibleTable:
    """The one table in sight of a request for `id`."""
    (found,) = resolve(facts, at(id, **more)).tables
    return found


def cmp(ref: str, op: str = "eq", literal: Any = "a", **operand: Any) -> Any:
    """A comparison as it is stored: with a literal, or `user=…`, `attr=…`, `now=…`."""
    given = operand or {"literal": literal}
    return {"cmp": {"ref": ref if ":" in ref else f"field:{ref}", "op": op, "operand": given}}
