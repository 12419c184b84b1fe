"""All that may happen to the workspace. Each change takes a number, and differs by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import JsonValue

from context_engine.adapters.sql.services import DomainServices as Services
from tests.support.kept import ANA, BOB

CAT, DAN = "cat", "dan"
OWN_LAND: JsonValue = {"attr": {"table": "staff", "keyField": "who", "valueField": "land"}}
BY_LAND: JsonValue = {"cmp": {"ref": "field:country", "op": "in", "operand": OWN_LAND}}
BY_STAFF: JsonValue = {
    "linkedAny": {
        "field": "by",
        "pred": {"cmp": {"ref": "field:level", "op": "eq", "operand": {"literal": "gold"}}},
    }
}

Change = Callable[[Services, int], Awaitable[Any]]
ROLES = ("viewer", "none", "editor", "commenter")
LEVELS = ("none", "read", "write")
LANDS = ("Belgium", "France", "Spain")


def _one(n: int, choices: tuple[str, ...]) -> str:
    return choices[n % len(choices)]


def _grant(subject: str, id: str, scope: str, on: str) -> Change:
    return lambda s, n: s.grants.set(
        ANA, "w", subject_type=subject, subject_id=id, scope_type=scope, scope_id=on,
        role=_one(n, ROLES),
    )  # fmt: skip


def _ungrant(subject: str, id: str, scope: str, on: str) -> Change:
    return lambda s, n: s.grants.remove(
        ANA, "w", subject_type=subject, subject_id=id, scope_type=scope, scope_id=on
    )


def _permit(field: str, subject: str, id: str) -> Change:
    return lambda s, n: s.field_permissions.set(
        ANA, "w", "t", field, subject_type=subject, subject_id=id, level=_one(n, LEVELS)
    )


def _rule(pred: JsonValue, who: str) -> Change:
    one: JsonValue = {
        "subjects": [{"type": "user", "id": who}],
        "mode": "restrictive",
        "pred": pred,
    }
    return lambda s, n: s.policies.set(ANA, "w", "t", {"default": "show_all", "policies": [one]})


def _edit(table: str, field: str, values: tuple[str, ...]) -> Change:
    prefix = "r" if table == "t" else "s"
    return lambda s, n: s.records.update(
        ANA, "w", table, f"{prefix}{n % 3}", {field: f"{_one(n, values)}"}
    )


def _toggle(first: Change, second: Change) -> Change:
    return lambda s, n: (first if n % 2 else second)(s, n)


ACCESS: dict[str, Change] = {
    "grant on a table": _grant("user", BOB, "table", "t"),
    "grant on another table": _grant("user", BOB, "table", "x"),
    "grant on the linked table": _grant("user", BOB, "table", "staff"),
    "grant taken back": _toggle(
        _ungrant("user", BOB, "table", "t"), _ungrant("user", BOB, "table", "x")
    ),
    "grant of a team": _grant("team", "m", "table", "x"),
    "grant of a team on the workspace": _grant("team", "m", "workspace", "w"),
    "grant on a view": _grant("user", BOB, "view", "shown"),
    "role of a member": lambda s, n: s.members.set(
        ANA, "w", BOB, role=_one(n, ("viewer", "editor", "admin"))
    ),
    "role of the editor": lambda s, n: s.members.set(ANA, "w", CAT, role=_one(n, ROLES[::2])),
    "a member comes or goes": _toggle(
        lambda s, n: s.members.add(ANA, "w", _one(n, (BOB, DAN)), role="viewer"),
        lambda s, n: s.members.remove(ANA, "w", _one(n // 2, (BOB, DAN))),
    ),
    "a member sleeps": lambda s, n: s.members.set(ANA, "w", BOB, active=n % 2 == 0),
    "a team's member": _toggle(
        lambda s, n: s.teams.add_member(ANA, "w", "m", _one(n, (BOB, CAT))),
        lambda s, n: s.teams.remove_member(ANA, "w", "m", BOB),
    ),
    "a team": lambda s, n: s.teams.rename(ANA, "w", "m", name=f"Team {n}"),
    "field permission": _permit("country", "user", BOB),
    "field permission of a role": _permit("name", "role", "viewer"),
    "field permission of a link": _permit("by", "user", BOB),
    "policy by attribute": _rule(BY_LAND, BOB),
    "policy by link": _rule(BY_STAFF, CAT),
    "no policy": lambda s, n: s.policies.set(
        ANA, "w", "t", {"default": "show_all", "policies": []}
    ),
    "an agent": lambda s, n: s.agents.update(
        ANA, "w", "a", max_role=_one(n, ("viewer", "editor")), table_ids=[["t"], ["x"]][n % 2]
    ),
    "a user": lambda s, n: s.users.update("op", BOB, name=f"Bob {n}", active=n % 4 != 3),
    "organization": lambda s, n: s.organizations.rename("op", "o", name=f"Org {n}"),
    "organization's member": _toggle(
        lambda s, n: s.organizations.set_member("op", "o", BOB, role=f"role {n}"),
        lambda s, n: s.organizations.remove_member("op", "o", BOB),
    ),
    "the workspace's organization": lambda s, n: s.workspaces.attach(
        ANA, "w", organization_id="o" if n % 2 else None
    ),
    "a project's member": _toggle(
        lambda s, n: s.projects.add_member(ANA, "w", "q", BOB),
        lambda s, n: s.projects.remove_member(ANA, "w", "q", BOB),
    ),
    "a participant": _toggle(
        lambda s, n: s.conversations.add_participant(ANA, "w", "c", BOB),
        lambda s, n: s.conversations.remove_participant(ANA, "w", "c", BOB),
    ),
}
CONTENT: dict[str, Change] = {
    "table's name": lambda s, n: s.tables.rename(
        ANA, "w", _one(n, ("t", "x", "staff")), name=f"{n}"
    ),
    "table trashed": lambda s, n: s.tables.trash(ANA, "w", _one(n, ("t", "staff", "x"))),
    "table restored": lambda s, n: s.tables.restore(ANA, "w", _one(n, ("t", "staff", "x"))),
    "a field": lambda s, n: s.fields.update(
        ANA, "w", "t", _one(n, ("country", "by", "name")), name=f"Field {n}"
    ),
    "a field deleted": lambda s, n: s.fields.delete(
        ANA, "w", *(("t", "note"), ("staff", "level"))[n % 2]
    ),
    "a view": lambda s, n: s.views.update(
        ANA, "w", "t", "belgium", name=f"View {n}", hidden=["country"] if n % 2 else []
    ),
    "a view deleted": lambda s, n: s.views.delete(ANA, "w", "t", "belgium"),
    "cell of a filter": _edit("t", "country", LANDS),
    "cell of nothing": _edit("t", "note", LANDS),
    "cell of an attribute": _edit("staff", "land", LANDS),
    "key of an attribute": _edit("staff", "who", (BOB, CAT, "nobody")),
    "cell behind a link": _edit("staff", "level", ("gold", "iron")),
    "a record": lambda s, n: s.records.create(
        ANA, "w", _one(n, ("t", "staff", "x")), {}, links=None
    ),
    "a record deleted": lambda s, n: s.records.delete(
        ANA, "w", *(("t", [f"r{n % 3}"]), ("staff", [f"s{n % 3}"]))[n % 2]
    ),
    "a record restored": lambda s, n: s.records.restore(
        ANA, "w", *(("t", [f"r{n % 3}"]), ("staff", [f"s{n % 3}"]))[n % 2]
    ),
    "a link": lambda s, n: s.links.set(
        ANA, "w", "t", "by", f"r{n % 3}", [f"s{i}" for i in range(n % 4)][:3]
    ),
    "a project": lambda s, n: s.projects.update(
        ANA, "w", "p", name=f"Plan {n}", private=n % 4 == 3
    ),
    "a task": lambda s, n: s.tasks.update(
        ANA, "w", _one(n, ("k", "l")), status=_one(n, ("open", "done")), title=f"Task {n}"
    ),
    "a task moves": lambda s, n: s.tasks.update(ANA, "w", "k", project_id=_one(n, ("p", "q"))),
    "a workflow": lambda s, n: s.workflows.update(ANA, "w", "f", name=f"Flow {n}"),
    "a message": lambda s, n: s.messages.add(_one(n, (ANA, BOB)), "w", "c", f"Said {n}."),
    "a message edited": lambda s, n: s.messages.edit(ANA, "w", "c", f"c{n}", f"Edited {n}."),
    "conversation": lambda s, n: s.conversations.rename(ANA, "w", "c", title=f"Talk {n}"),
    "workspace": lambda s, n: s.workspaces.rename(ANA, "w", name=f"Work {n}"),
}  # fmt: skip
CHANGES = ACCESS | CONTENT
