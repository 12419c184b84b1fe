"""Every write that the domain services can make, against every context that it may make untrue.

The rule is the promise itself: once a service has answered, what the cache gives is what a build
from the database would give. And not too wide: what nobody reads, nobody has to build again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from tests.support.services import ANA, BEN, COM, NED, VIC, furnish
from tests.support.world import engine_over

pytestmark = pytest.mark.timeout(180)

CALL: Any = {"id": "call-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def cmp(ref: str, op: str, operand: dict[str, Any]) -> dict[str, Any]:
    return {"cmp": {"ref": ref, "op": op, "operand": operand}}


EDITED_BY_ANA = cmp("sys:updated_by", "eq", {"literal": ANA})
OPEN = cmp("field:state", "eq", {"literal": "open"})
OWN = {
    "default": "deny_all",
    "policies": [
        {
            "subjects": [{"type": "role", "id": "viewer"}, {"type": "role", "id": "commenter"}],
            "pred": cmp("field:own-owner", "eq", {"user": "id"}),
            "mode": "permissive",
        },
        {
            "subjects": [{"type": "role", "id": "admin"}, {"type": "role", "id": "builder"}],
            "pred": True,
            "mode": "permissive",
        },
    ],
}

COORDINATES: dict[str, dict[str, Any]] = {
    "bare": {},
    "table": {"tableIds": ["tbl"]},
    "linked tables": {"tableIds": ["tbl", "other"]},
    "own rows": {"tableIds": ["own"]},
    "by a view alone": {"tableIds": ["strict"]},
    "view of open": {"tableIds": ["tbl"], "viewId": "v-open"},
    "view of edited": {"viewId": "v-edited"},
    "view of linked": {"tableIds": ["other"], "viewId": "v-other"},
    "view to come": {"viewId": "v-new"},
    "project": {"projectId": "p"},
    "private project": {"projectId": "p-private"},
    "task": {"taskId": "k-row"},
    "team": {"teamId": "g"},
    "organization": {"organizationId": "o"},
    "workflow": {"workflowId": "f"},
    "agent": {"tableIds": ["tbl"], "agentStack": ["a"]},
    "dialogue": {"conversationId": "c", "sessionId": "s"},
}
USERS = (ANA, BEN, COM, VIC, NED)

Write = Callable[[DomainServices], Awaitable[object]]


def permit(s: DomainServices, field: str, type: str, who: str, level: str) -> Awaitable[object]:
    return s.field_permissions.set(
        ANA, "w", "tbl", field, subject_type=type, subject_id=who, level=level
    )


def lift(s: DomainServices, field: str, type: str, who: str) -> Awaitable[object]:
    return s.field_permissions.remove(ANA, "w", "tbl", field, subject_type=type, subject_id=who)


def on_view(s: DomainServices, who: str, view: str, role: str) -> Awaitable[object]:
    return s.grants.set(
        ANA, "w", subject_type="user", subject_id=who, scope_type="view", scope_id=view, role=role
    )


WRITES: dict[str, Write] = {
    # schema
    "rename table": lambda s: s.tables.rename(ANA, "w", "tbl", name="Renamed"),
    "trash table": lambda s: s.tables.trash(ANA, "w", "own"),
    "restore table": lambda s: s.tables.restore(ANA, "w", "own"),
    "trash the tools' table": lambda s: s.tables.trash(ANA, "w", "ran"),
    "restore the tools' table": lambda s: s.tables.restore(ANA, "w", "ran"),
    "create table": lambda s: s.tables.create(ANA, "w", name="Later", id="later"),
    "create field": lambda s: s.fields.create(
        ANA, "w", "tbl", name="Extra", type="text", id="extra"
    ),
    "rename field": lambda s: s.fields.update(ANA, "w", "tbl", "n", name="Number"),
    "delete field": lambda s: s.fields.delete(ANA, "w", "tbl", "extra"),
    "create view": lambda s: s.views.create(ANA, "w", "tbl", name="New", id="v-new"),
    "rename view": lambda s: s.views.update(ANA, "w", "tbl", "v-new", name="Renamed"),
    "filter view": lambda s: s.views.update(ANA, "w", "tbl", "v-new", filter=OPEN),
    "hide in view": lambda s: s.views.update(ANA, "w", "tbl", "v-open", hidden=["n"]),
    "delete view": lambda s: s.views.delete(ANA, "w", "tbl", "v-new"),
    "create link": lambda s: s.links.create(
        ANA, "w", "tbl", name="More", linked_table_id="other", id="more"
    ),
    "delete link": lambda s: s.fields.delete(ANA, "w", "tbl", "more"),
    # records
    "create record": lambda s: s.records.create(ANA, "w", "tbl", {"state": "open"}, id="r9"),
    "edit filtered field": lambda s: s.records.update(BEN, "w", "tbl", "r9", {"state": "done"}),
    "edit other field": lambda s: s.records.update(ANA, "w", "tbl", "r9", {"n": 5}),
    "delete record": lambda s: s.records.delete(ANA, "w", "tbl", ["r9"]),
    "restore record": lambda s: s.records.restore(ANA, "w", "tbl", ["r9"]),
    "link records": lambda s: s.links.set(BEN, "w", "tbl", "link", "r1", ["o1"]),
    "link records anew": lambda s: s.links.set(ANA, "w", "tbl", "link", "r1", ["o2"]),
    "give a row": lambda s: s.records.update(ANA, "w", "own", "own1", {"own-owner": VIC}),
    "take a row": lambda s: s.records.update(ANA, "w", "own", "own1", {"own-owner": COM}),
    # policies and grants
    "set policy": lambda s: s.policies.set(
        ANA, "w", "own", {"default": "show_all", "policies": []}
    ),
    "grant user": lambda s: s.grants.set(
        ANA, "w", subject_type="user", subject_id=NED, scope_id="tbl", role="viewer"
    ),
    "deny user": lambda s: s.grants.set(
        ANA, "w", subject_type="user", subject_id=VIC, scope_id="tbl", role="none"
    ),
    "lift denial": lambda s: s.grants.remove(
        ANA, "w", subject_type="user", subject_id=VIC, scope_id="tbl"
    ),
    "grant team": lambda s: s.grants.set(
        ANA, "w", subject_type="team", subject_id="g", scope_id="tbl", role="editor"
    ),
    "join team": lambda s: s.teams.add_member(ANA, "w", "g", NED),
    "leave team": lambda s: s.teams.remove_member(ANA, "w", "g", NED),
    "rename team": lambda s: s.teams.rename(ANA, "w", "g", name="Gang"),
    "hide a field from a user": lambda s: permit(s, "n", "user", VIC, "none"),
    "show it again": lambda s: lift(s, "n", "user", VIC),
    "hide a field from a team": lambda s: permit(s, "n", "team", "g", "none"),
    "show it to the team": lambda s: permit(s, "n", "team", "g", "read"),
    "hide a field from a role": lambda s: permit(s, "n", "role", "commenter", "none"),
    "show it to the role": lambda s: lift(s, "n", "role", "commenter"),
    "hide the primary field": lambda s: permit(s, "name", "user", BEN, "none"),
    "show the primary field": lambda s: lift(s, "name", "user", BEN),
    "hide a link": lambda s: permit(s, "link", "role", "editor", "none"),
    "show the link": lambda s: lift(s, "link", "role", "editor"),
    "let into a view": lambda s: on_view(s, NED, "v-strict", "viewer"),
    "widen the view": lambda s: s.views.update(ANA, "w", "strict", "v-strict", filter=True),
    "narrow the view's fields": lambda s: s.views.update(
        ANA, "w", "strict", "v-strict", hidden=["strict-f"]
    ),
    "shut out of the view": lambda s: on_view(s, NED, "v-strict", "none"),
    "let in again": lambda s: on_view(s, NED, "v-strict", "commenter"),
    "let the team into the view": lambda s: s.grants.set(
        ANA,
        "w",
        subject_type="team",
        subject_id="g",
        scope_type="view",
        scope_id="v-strict",
        role="viewer",
    ),
    "end the view": lambda s: s.views.delete(ANA, "w", "strict", "v-strict"),
    "hide an open view": lambda s: on_view(s, VIC, "v-open", "none"),
    "show the open view": lambda s: s.grants.remove(
        ANA, "w", subject_type="user", subject_id=VIC, scope_type="view", scope_id="v-open"
    ),
    # work
    "rename project": lambda s: s.projects.update(ANA, "w", "p", name="Plan"),
    "close project": lambda s: s.projects.update(ANA, "w", "p", private=True),
    "open project": lambda s: s.projects.update(ANA, "w", "p", private=False),
    "join project": lambda s: s.projects.add_member(ANA, "w", "p-private", VIC),
    "leave project": lambda s: s.projects.remove_member(ANA, "w", "p-private", VIC),
    "create task": lambda s: s.tasks.create(ANA, "w", title="T", project_id="p", id="k-new"),
    "close task": lambda s: s.tasks.update(ANA, "w", "k-new", status="done"),
    "move task": lambda s: s.tasks.update(ANA, "w", "k-new", project_id="p-private"),
    "delete task": lambda s: s.tasks.delete(ANA, "w", "k-new"),
    "rename a row's task": lambda s: s.tasks.update(ANA, "w", "k-row", title="Renamed"),
    "delete a task's row": lambda s: s.records.delete(ANA, "w", "tbl", ["r2"]),
    "restore a task's row": lambda s: s.records.restore(ANA, "w", "tbl", ["r2"]),
    "pause workflow": lambda s: s.workflows.update(ANA, "w", "f", status="paused"),
    "narrow agent": lambda s: s.agents.update(ANA, "w", "a", max_role="commenter"),
    "move agent": lambda s: s.agents.update(ANA, "w", "a", table_ids=["other"]),
    # people
    "rename user": lambda s: s.users.update("op", VIC, name="Victor"),
    "move user": lambda s: s.users.update("op", VIC, timezone="Asia/Tokyo", locale="zh-CN"),
    "suspend user": lambda s: s.users.update("op", COM, active=False),
    "readmit user": lambda s: s.users.update("op", COM, active=True),
    "promote member": lambda s: s.members.set(ANA, "w", VIC, role="builder"),
    "suspend member": lambda s: s.members.set(ANA, "w", VIC, active=False),
    "readmit member": lambda s: s.members.set(ANA, "w", VIC, active=True, role="viewer"),
    "rename organization": lambda s: s.organizations.rename("op", "o", name="Orga"),
    "join organization": lambda s: s.organizations.set_member("op", "o", VIC, role="member"),
    "leave organization": lambda s: s.organizations.remove_member("op", "o", VIC),
    "rename workspace": lambda s: s.workspaces.rename(ANA, "w", name="Works"),
    "leave the organization": lambda s: s.workspaces.attach("op", "w", organization_id=None),
    "back to the organization": lambda s: s.workspaces.attach("op", "w", organization_id="o"),
    # dialogue
    "say": lambda s: s.messages.add(VIC, "w", "c", "More to say.", id="m-new"),
    "edit message": lambda s: s.messages.edit(VIC, "w", "c", "m-new", "Less to say."),
    "delete message": lambda s: s.messages.delete(VIC, "w", "c", "m-new"),
    "rename conversation": lambda s: s.conversations.rename(VIC, "w", "c", title="Talks"),
    "invite": lambda s: s.conversations.add_participant(VIC, "w", "c", BEN),
    "leave": lambda s: s.conversations.remove_participant(BEN, "w", "c", BEN),
    # ends
    "delete workflow": lambda s: s.workflows.delete(ANA, "w", "f"),
    "delete project": lambda s: s.projects.delete(ANA, "w", "p"),
    "delete agent": lambda s: s.agents.delete(ANA, "w", "a"),
    "delete team": lambda s: s.teams.delete(ANA, "w", "g"),
    "delete organization": lambda s: s.organizations.delete("op", "o"),
    "remove member": lambda s: s.members.remove(ANA, "w", VIC),
    "delete user": lambda s: s.users.delete("op", COM),
    "delete conversation": lambda s: s.conversations.delete(ANA, "w", "c"),
    "delete workspace": lambda s: s.workspaces.delete(ANA, "w"),
}
"""In this order, each over what the ones before it left."""


@dataclass
class Contexts:
    """Every user's context at every place, as the cache gives it and as the database has it."""

    engine: ContextEngine
    seen: dict[tuple[str, str], str] = field(default_factory=dict)

    async def at(self, user: str, place: str, *, fresh: bool) -> tuple[str, str]:
        """Where the answer came from, and what it says."""
        asked = ContextBuildInput.model_validate(
            {"userId": user, "workspaceId": "w", "message": "?", **COORDINATES[place]}
        )
        try:
            answer = await self.engine.build(asked, Options(fresh=fresh))
        except NotFound as error:
            return "refused", error.message
        return answer.source, answer.context_hash

    async def everywhere(self, *, fresh: bool) -> dict[tuple[str, str], tuple[str, str]]:
        places = [(user, place) for user in USERS for place in COORDINATES]
        found = await asyncio.gather(*(self.at(*place, fresh=fresh) for place in places))
        return dict(zip(places, found, strict=True))

    async def warm(self) -> None:
        self.seen = {at: text for at, (_, text) in (await self.everywhere(fresh=False)).items()}

    async def check(self, write: str) -> tuple[int, int]:
        """After a write: how many places say something else, and how many were built in vain."""
        given, true = await self.everywhere(fresh=False), await self.everywhere(fresh=True)
        for at, (source, text) in given.items():
            assert text == true[at][1], f"after {write!r}, {at} is given what was ({source})"
        changed = {at for at, (_, text) in given.items() if text != self.seen[at]}
        in_vain = {at for at, (source, _) in given.items() if source == "build"} - changed
        self.seen = {at: text for at, (_, text) in given.items()}
        return len(changed), len(in_vain)


async def prepare(services: DomainServices) -> None:
    """Beside `furnish`: what each of the coordinates names."""
    await furnish(services)
    await services.organizations.create("op", name="Org", id="o")
    await services.organizations.set_member("op", "o", ANA, role="owner")
    await services.workspaces.attach("op", "w", organization_id="o")
    await services.teams.create(ANA, "w", name="Group", id="g")
    await services.teams.add_member(ANA, "w", "g", VIC)
    for table in ("other", "own", "ran"):
        await services.tables.create(
            ANA, "w", name=table.title(), id=table, primary_id=f"{table}-n"
        )
    await services.links.create(
        ANA, "w", "tbl", name="Link", linked_table_id="other", id="link",
        back_name="Back", back_id="back",
    )  # fmt: skip
    for id in ("o1", "o2"):
        await services.records.create(BEN, "w", "other", {"other-n": id}, id=id)
    await services.fields.create(ANA, "w", "own", name="Owner", type="user", id="own-owner")
    await services.records.create(ANA, "w", "own", {"own-owner": COM}, id="own1")
    await services.policies.set(ANA, "w", "own", OWN)
    await services.views.create(ANA, "w", "tbl", name="Open", filter=OPEN, id="v-open")
    await services.views.create(ANA, "w", "tbl", name="By Ana", filter=EDITED_BY_ANA, id="v-edited")
    await services.views.create(
        ANA, "w", "other", name="By Ana", filter=EDITED_BY_ANA, id="v-other"
    )
    await services.tables.create(ANA, "w", name="Strict", id="strict", primary_id="strict-n")
    await services.fields.create(ANA, "w", "strict", name="F", type="text", id="strict-f")
    for id in ("s1", "s2"):
        await services.records.create(ANA, "w", "strict", {"strict-f": id}, id=id)
    await services.views.create(
        ANA, "w", "strict", name="Strict", id="v-strict", ownership="restricted",
        filter=cmp("field:strict-f", "eq", {"literal": "s1"}),
    )  # fmt: skip
    await services.policies.set(ANA, "w", "strict", {"default": "deny_all"})
    await services.projects.create(ANA, "w", name="Project", id="p")
    await services.projects.create(ANA, "w", name="Private", private=True, id="p-private")
    await services.tasks.create(
        ANA, "w", title="Row", project_id="p", table_id="tbl", record_id="r2", id="k-row"
    )
    await services.workflows.create(ANA, "w", name="Flow", id="f")
    await services.agents.create(ANA, "w", name="Agent", max_role="editor", id="a")
    await services.conversations.open(VIC, "w", title="Talk", participant_ids=[ANA, COM], id="c")
    said = {"table_ids": ["ran"]}
    await services.messages.add(VIC, "w", "c", "Let me look.", role="user")
    await services.messages.add(VIC, "w", "c", "", role="assistant", tool_calls=[CALL], **said)
    await services.messages.add(VIC, "w", "c", "rows", role="tool", tool_call_id="call-1", **said)


async def test_after_every_write_the_cache_says_what_the_database_says(
    database: AsyncEngine,
) -> None:
    """For five users at seventeen places, write after write; and most of what a write leaves true
    stays cached.
    """
    cache = MemoryCache()
    services = DomainServices(database, cache, ids_as_given=True)
    await prepare(services)
    contexts = Contexts(engine_over(database, cache))
    await contexts.warm()
    await contexts.warm()
    without_effect, places, vain, kept = set(WRITES), len(contexts.seen), 0, 0
    for name, write in WRITES.items():
        await write(services)
        changed, in_vain = await contexts.check(name)
        if changed:
            without_effect.discard(name)
        vain += in_vain
        kept += places - changed - in_vain
    assert without_effect == {"create table"}, "a write without effect proves nothing"
    assert vain < kept / 5, f"{vain} built in vain, {kept} kept"
