"""Everything that somebody can do, in the words of the documentation.

What stands in one row ends alike for everybody; the test says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from tests.support.matrix.trying import Act, House
from tests.support.matrix.world import EXTRA, OUTSIDE

Rows = Mapping[str, Sequence[Act]]

ON_TABLE: Rows = {
    "ask for a context of the table": (lambda s, who: s.context(who, tableIds=["t"]),),
    "show the table, list its records": (
        lambda s, who: s.tables.show(who, "w", "t"),
        lambda s, who: s.records.list(who, "w", "t"),
    ),
    "change a record's cells or links": (
        lambda s, who: s.records.update(who, "w", "t", "in", {"kind": "x"}),
        lambda s, who: s.links.set(who, "w", "t", "next", "in", ["in"]),
    ),
    "… of a record that the view does not hold": (
        lambda s, who: s.records.update(who, "w", "t", "out", {"kind": "x"}),
        lambda s, who: s.links.set(who, "w", "t", "next", "out", []),
    ),
    "… of a field that is `read`": (
        lambda s, who: s.records.update(who, "w", "t", "in", {"locked": "x"}),
    ),
    "… of a field that is `none`": (
        lambda s, who: s.records.update(who, "w", "t", "in", {"secret": "x"}),
    ),
    "make, delete, restore records": (
        lambda s, who: s.records.create(who, "w", "t", {"kind": "x"}),
        lambda s, who: s.records.delete(who, "w", "t", ["in"]),
        lambda s, who: s.records.restore(who, "w", "t", ["deleted"]),
    ),
    "rename or trash the table": (
        lambda s, who: s.tables.rename(who, "w", "t", name="T"),
        lambda s, who: s.tables.trash(who, "w", "t"),
    ),
    "make, change, delete fields and link fields": (
        lambda s, who: s.fields.create(who, "w", "t", name="F", type="text"),
        lambda s, who: s.fields.update(who, "w", "t", "kind", name="F"),
        lambda s, who: s.fields.delete(who, "w", "t", "kind"),
        lambda s, who: s.links.create(who, "w", "t", name="L", linked_table_id="t"),
    ),
    "make, change, delete collaborative views; make a personal one": (
        lambda s, who: s.views.create(who, "w", "t", name="V"),
        lambda s, who: s.views.update(who, "w", "t", "all", name="V"),
        lambda s, who: s.views.delete(who, "w", "t", "all"),
        lambda s, who: s.views.create(who, "w", "t", name="V", ownership="personal"),
    ),
    "make a restricted view": (
        lambda s, who: s.views.create(who, "w", "t", name="V", ownership="restricted"),
    ),
    "change or delete a restricted view": (
        lambda s, who: s.views.update(who, "w", "t", "narrow", hidden=["kind"]),
        lambda s, who: s.views.delete(who, "w", "t", "narrow"),
    ),
    "read or set row policies": (
        lambda s, who: s.policies.get(who, "w", "t"),
        lambda s, who: s.policies.set(who, "w", "t", {"default": "deny_all"}),
    ),
    "list, set, remove field permissions": (
        lambda s, who: s.field_permissions.list(who, "w", "t"),
        lambda s, who: s.field_permissions.set(
            who, "w", "t", "kind", subject_type="user", subject_id=EXTRA, level="none"
        ),
        lambda s, who: s.field_permissions.remove(
            who, "w", "t", "secret", subject_type="role", subject_id="viewer"
        ),
    ),
    "grant on the table, list its grants": (
        lambda s, who: s.listings.grants(who, "w", table_id="t"),
        lambda s, who: _grant(s, who, "table", "t", "admin"),
        lambda s, who: _grant(s, who, "table", "t", "none"),
    ),
    "grant on a restricted view, list its grants": (
        lambda s, who: s.listings.grants(who, "w", view_id="narrow"),
        lambda s, who: _grant(s, who, "view", "narrow", "editor"),
    ),
    "hide a collaborative view from somebody": (
        lambda s, who: _grant(s, who, "view", "all", "none"),
    ),
    "hide a personal view of others from its owner": (
        lambda s, who: _grant(s, who, "view", "own", "none"),
    ),
}
"""About the table `t`."""

ELSEWHERE: Rows = {
    "ask for a context of the workspace": (lambda s, who: s.context(who),),
    "… with an open project, a workflow, an agent": (
        lambda s, who: s.context(who, projectId="project"),
        lambda s, who: s.context(who, workflowId="workflow"),
        lambda s, who: s.context(who, agentStack=["agent-admin"]),
    ),
    "… with a team of others": (lambda s, who: s.context(who, teamId="team"),),
    "… with a private project or a conversation of others": (
        lambda s, who: s.context(who, projectId="closed"),
        lambda s, who: s.context(who, conversationId="theirs"),
    ),
    "see the members and one's own teams, open a conversation": (
        lambda s, who: s.members.list(who, "w"),
        lambda s, who: s.listings.teams(who, "w"),
        lambda s, who: s.conversations.open(who, "w", title="C", participant_ids=[EXTRA]),
    ),
    "write in a conversation, rename it, invite, as who takes part": (
        lambda s, who: s.messages.add(who, "w", "talk", "Hello"),
        lambda s, who: s.conversations.rename(who, "w", "talk", title="C"),
        lambda s, who: s.conversations.add_participant(who, "w", "talk", EXTRA),
    ),
    "write in a conversation of others, change a private project": (
        lambda s, who: s.messages.add(who, "w", "theirs", "Hello"),
        lambda s, who: s.projects.update(who, "w", "closed", name="P"),
    ),
    "make, change, delete tasks of an open project": (
        lambda s, who: s.tasks.create(who, "w", title="T", project_id="project"),
        lambda s, who: s.tasks.update(who, "w", "task", title="T"),
        lambda s, who: s.tasks.delete(who, "w", "task"),
    ),
    "make a table": (lambda s, who: s.tables.create(who, "w", name="T"),),
    "restore a trashed table": (lambda s, who: s.tables.restore(who, "w", "gone"),),
    "make a project or a workflow": (
        lambda s, who: s.projects.create(who, "w", name="P"),
        lambda s, who: s.workflows.create(who, "w", name="F"),
    ),
    "change or delete a project or a workflow": (
        lambda s, who: s.projects.update(who, "w", "project", name="P"),
        lambda s, who: s.projects.add_member(who, "w", "project", EXTRA),
        lambda s, who: s.projects.delete(who, "w", "project"),
        lambda s, who: s.workflows.update(who, "w", "workflow", name="F"),
        lambda s, who: s.workflows.delete(who, "w", "workflow"),
    ),
    "rename or delete the workspace": (
        lambda s, who: s.workspaces.rename(who, "w", name="W"),
        lambda s, who: s.workspaces.delete(who, "w"),
    ),
    "add, change, remove members": (
        lambda s, who: s.members.add(who, "w", OUTSIDE, role="admin"),
        lambda s, who: s.members.set(who, "w", EXTRA, role="editor"),
        lambda s, who: s.members.remove(who, "w", EXTRA),
    ),
    "make, fill or delete a team, give it a role on the workspace, list all grants": (
        lambda s, who: s.listings.grants(who, "w"),
        lambda s, who: s.teams.create(who, "w", name="T"),
        lambda s, who: s.teams.rename(who, "w", "team", name="T"),
        lambda s, who: s.teams.add_member(who, "w", "team", EXTRA),
        lambda s, who: _grant(s, who, "workspace", "w", "admin", subject=("team", "team")),
        lambda s, who: s.teams.delete(who, "w", "team"),
    ),
    "make, change, delete agents": (
        lambda s, who: s.agents.create(who, "w", name="A", max_role="admin"),
        lambda s, who: s.agents.update(who, "w", "agent-none", max_role="admin"),
        lambda s, who: s.agents.delete(who, "w", "agent-none"),
    ),
}
"""About the rest of the workspace."""

OPERATORS: Rows = {
    "organizations and who is in them": (
        lambda s, who: s.organizations.create(who, name="O"),
        lambda s, who: s.organizations.rename(who, "org", name="O"),
        lambda s, who: s.organizations.set_member(who, "org", EXTRA, role="owner"),
        lambda s, who: s.organizations.delete(who, "org"),
    ),
    "users": (
        lambda s, who: s.users.create(who, name="U"),
        lambda s, who: s.users.update(who, EXTRA, name="U"),
        lambda s, who: s.users.delete(who, EXTRA),
    ),
    "new workspaces, and which organization one is in": (
        lambda s, who: s.workspaces.create(who, name="W", maker_id=EXTRA),
        lambda s, who: s.workspaces.attach(who, "w", organization_id="org"),
    ),
}
"""The operator's, whoever they name as actor."""


def _grant(
    s: House,
    who: str,
    scope: str,
    id: str,
    role: str,
    subject: tuple[str, str] = ("user", EXTRA),
) -> Awaitable[Any]:
    return s.grants.set(
        who, "w", subject_type=subject[0], subject_id=subject[1], scope_type=scope, scope_id=id,
        role=role,
    )  # fmt: skip
