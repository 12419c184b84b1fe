"""The world in which everything is tried: somebody for every role at every scope.

One table `t` whose record `in` a restricted view holds and whose record `out` it does not, and
one of everything else that a member can meet.
"""

from __future__ import annotations

from context_engine.adapters.sql.services import DomainServices

ROLES = ("none", "viewer", "commenter", "editor", "builder", "admin")
ANA = "ana"
"""Made the workspace, and stays its ADMIN whatever the others do."""
OUTSIDE = "outside"
"""A user who is no member."""
EXTRA = "extra"
"""A member to whom things are done."""

SCOPES = ("workspace", "table", "shut", "view")
"""Where a role is held: on the workspace; by a grant on the table; on the workspace with NONE on
the table; by a grant on the restricted view. Without a role on the workspace where that is not it.
"""


def actor(scope: str, role: str) -> str:
    return f"{scope}-{role}"


async def furnish(services: DomainServices) -> None:
    """Workspace `w`, made through the services."""
    s = services
    for user in (ANA, OUTSIDE, EXTRA):
        await s.users.create("op", name=user, id=user)
    await s.organizations.create("op", name="O", id="org")
    await s.workspaces.create("op", name="W", maker_id=ANA, id="w")
    await s.members.add(ANA, "w", EXTRA, role="viewer")
    await _tables(s)
    await _work(s)
    for scope in SCOPES:
        for role in ROLES:
            await _member(s, scope, role)


async def _tables(s: DomainServices) -> None:
    for table in ("t", "gone"):
        await s.tables.create(ANA, "w", name=table, id=table, primary_id=f"{table}-name")
    for field in ("kind", "locked", "secret"):
        await s.fields.create(ANA, "w", "t", name=field, type="text", id=field)
    await s.links.create(ANA, "w", "t", name="next", linked_table_id="t", id="next")
    for record, kind in (("in", "in"), ("deleted", "in"), ("out", "out")):
        await s.records.create(ANA, "w", "t", {"kind": kind}, id=record)
    await s.records.delete(ANA, "w", "t", ["deleted"])
    held = {"cmp": {"ref": "field:kind", "op": "eq", "operand": {"literal": "in"}}}
    await s.views.create(ANA, "w", "t", name="All", id="all")
    await s.views.create(ANA, "w", "t", name="Own", id="own", ownership="personal")
    await s.views.create(
        ANA, "w", "t", name="Narrow", id="narrow", ownership="restricted", filter=held
    )
    for field, level in (("locked", "read"), ("secret", "none")):
        for role in ROLES[1:]:
            await s.field_permissions.set(
                ANA, "w", "t", field, subject_type="role", subject_id=role, level=level
            )


async def _work(s: DomainServices) -> None:
    await s.projects.create(ANA, "w", name="P", id="project")
    await s.projects.create(ANA, "w", name="P", id="closed", private=True)
    await s.tasks.create(ANA, "w", title="T", id="task", project_id="project")
    await s.workflows.create(ANA, "w", name="F", id="workflow")
    await s.teams.create(ANA, "w", name="T", id="team")
    for role in ROLES:
        await s.agents.create(ANA, "w", name="A", max_role=role, id=f"agent-{role}")
    await s.agents.create(
        ANA, "w", name="A", max_role="admin", table_ids=["gone"], id="agent-elsewhere"
    )
    await s.conversations.open(ANA, "w", title="C", id="talk")
    await s.conversations.open(ANA, "w", title="C", id="theirs")
    await s.tables.trash(ANA, "w", "gone")


async def _member(s: DomainServices, scope: str, role: str) -> None:
    user = actor(scope, role)
    await s.users.create("op", name=user, id=user)
    own = role if scope in ("workspace", "shut") else "none"
    await s.members.add(ANA, "w", user, role=own)
    await s.conversations.add_participant(ANA, "w", "talk", user)
    if scope == "workspace":
        return
    on = ("view", "narrow") if scope == "view" else ("table", "t")
    await s.grants.set(
        ANA, "w", subject_type="user", subject_id=user, scope_type=on[0], scope_id=on[1],
        role="none" if scope == "shut" else role,
    )  # fmt: skip
