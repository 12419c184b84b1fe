"""What every section of a context must say, and what one says, in the same plain shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from context_engine.models import AgentContext
from tests.support.oracle.model import Conversation, Field, Table, Task, View, Workspace
from tests.support.oracle.rules import Access, NoMember, Uncomputable, Way, access

CAP = 10_000
NOT_FOUND = {"error": "not_found"}
UNAVAILABLE = "unavailable"

Told = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """Coordinates in, as `ContextBuildInput` has them."""

    user_id: str
    workspace_id: str = "w"
    table_ids: tuple[str, ...] = ()
    view_id: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    team_id: str | None = None
    organization_id: str | None = None
    workflow_id: str | None = None
    conversation_id: str | None = None
    agent_stack: tuple[str, ...] = ()

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def expected(workspace: Workspace, request: Request, now: datetime) -> Told:
    """The answer that the rules give, or `NOT_FOUND`."""
    try:
        a = access(workspace, request.user_id, request.agent_stack, now)
    except NoMember:
        return NOT_FOUND
    if not _fatal_in_sight(a, request):
        return NOT_FOUND
    return _Answer(a, request).told()


def _fatal_in_sight(a: Access, request: Request) -> bool:
    w = a.index.workspace
    agents = {one.id for one in w.agents}
    # Agents are seen by the user, before they narrow what the user may do.
    if request.agent_stack and (a.role_before == "none" or set(request.agent_stack) - agents):
        return False
    if request.conversation_id is not None and _talk(a, request) is None:
        return False
    return request.workspace_id == w.id and all(id in a.ways for id in request.table_ids)


def _talk(a: Access, request: Request) -> Conversation | None:
    for one in a.index.workspace.conversations:
        if one.id == request.conversation_id and a.user.id in one.user_ids:
            return one
    return None


class _Answer:
    def __init__(self, a: Access, request: Request) -> None:
        self.a, self.request, self.w = a, request, a.index.workspace
        self.found = self._view_asked()

    def told(self) -> Told:
        tables = [self.a.index.tables[id] for id in self.request.table_ids]
        sections = {
            "view": self.view(),
            "project": self.project(),
            "task": self.task(),
            "team": self.team(),
            "organization": self.organization(),
            "workflow": self.workflow(),
        }
        absent = {
            name: asked
            for name in sections
            if (asked := getattr(self.request, f"{name}_id")) and sections[name] is None
        }
        return {
            "user": {"id": self.a.user.id, "name": self.a.user.name, "role": self.a.role},
            "workspace": {"id": self.w.id, "name": self.w.name},
            **sections,
            "tables": [self.table(one) for one in tables],
            "relations": _sorted(self.relations(tables)),
            "agents": [
                {
                    "id": one.id,
                    "name": one.name,
                    "max_role": one.max_role,
                    "table_ids": None if one.table_ids is None else list(self.request.table_ids),
                }
                for one in self.a.agents
            ],
            "conversation": self.conversation(),
            "unresolved": _sorted({"coordinate": f"{k}Id", "id": v} for k, v in absent.items()),
        }

    # -- tables and views ----------------------------------------------------------------------

    def table(self, table: Table) -> Told:
        own = self.a.own_way(table.id)
        fields = self.a.table_fields(table)
        views = [one for one in table.views if self.a.shows_view(table, one)]
        current = self.found[1] if self.found and self.found[0] is table else None
        sampled = _once([one for one in fields if one.primary])
        if current is not None:
            sampled = _once([*sampled, *self.view_fields(table, current)])
        rows = frozenset().union(*(way.rows for way in self.a.ways[table.id]))
        return {
            "id": table.id,
            "name": table.name,
            "permission": own.role if own else "views",
            "field_count": len(fields),
            "fields": [
                {"id": o.id, "name": o.name, "type": o.type, "primary": o.primary}
                for o in _once([*sampled, *fields])[:12]
            ],
            "view_count": len(views),
            "views": [
                {"id": o.id, "name": o.name, "type": o.type}
                for o in _once([*([current] if current else []), *views])[:6]
            ],
            "records": _count(len(rows), self.a.countable(table.id)),
        }

    def _view_asked(self) -> tuple[Table, View] | None:
        """The view that is looked at: of a table that was asked for, if any was."""
        for table in self.w.tables:
            if self.request.table_ids and table.id not in self.request.table_ids:
                continue
            for view in table.views:
                if view.id == self.request.view_id and self.a.shows_view(table, view):
                    return table, view
        return None

    def _view_ways(self, table: Table, view: View) -> list[Way]:
        """A view shows what the table's way gives and its own, never another view's."""
        both = (self.a.own_way(table.id), self.a.own_way(table.id, view.id))
        return [way for way in both if way is not None]

    def view_fields(self, table: Table, view: View) -> list[Field]:
        """Those in sight that the view shows, in its order."""
        shown = {f.id for way in self._view_ways(table, view) for f in self.a.fields_of(way)}
        by_id = {f.id: f for f in table.fields if f.id in shown and f.id not in view.hidden}
        return [by_id[id] for id in dict.fromkeys((*view.field_order, *by_id)) if id in by_id]

    def view(self) -> Told | None:
        if self.found is None:
            return None
        table, view = self.found
        return {
            "id": view.id,
            "name": view.name,
            "type": view.type,
            "table_id": table.id,
            "filtered": view.filter is not None,
            "field_count": len(self.view_fields(table, view)),
            "records": self.view_count(table, view),
        }

    def view_count(self, table: Table, view: View) -> Any:
        ways = self._view_ways(table, view)
        try:
            passes = self.a.filter_test(table, view, self.a.sees)
        except Uncomputable:
            return UNAVAILABLE
        own = self.a.own_way(table.id)
        if any(way.uncountable for way in ways) and not (own and own.unconditional):
            return UNAVAILABLE
        rows = frozenset().union(*(way.rows for way in ways))
        return _count(sum(passes(r) for r in table.records if r.id in rows), True)

    # -- relations -----------------------------------------------------------------------------

    def relations(self, tables: list[Table]) -> Iterator[Told]:
        """Links of the tables, and those of other tables that lead here without another side."""
        asked = {one.id for one in tables}
        for table in self.w.tables:
            for field in self.a.table_fields(table) if table.id in self.a.ways else ():
                incoming = field.linked_field_id is None and field.linked_table_id in asked
                if field.type == "link" and (table.id in asked or incoming):
                    yield self.relation(table, field)

    def relation(self, table: Table, field: Field) -> Told:
        told = {
            "table_id": table.id,
            "table_name": table.name,
            "field_id": field.id,
            "field_name": field.name,
            "cardinality": field.cardinality,
        }
        there = self.a.index.table(field.linked_table_id)
        if there is None or there.id not in self.a.ways:
            names = ("linked_table_id", "linked_table_name", "linked_field_id", "links")
            return {**told, **dict.fromkeys(names)}
        back = field.linked_field_id
        other = {one.id for one in self.a.table_fields(there)}
        return {
            **told,
            "linked_table_id": there.id,
            "linked_table_name": there.name,
            "linked_field_id": back if back in other else None,
            "links": self.links(table, field, there),
        }

    def links(self, table: Table, field: Field, there: Table) -> Any:
        def here_fits(way: Way) -> bool:
            return field in self.a.fields_of(way)

        def there_fits(way: Way) -> bool:
            back = field.linked_field_id
            return back is None or any(one.id == back for one in self.a.fields_of(way))

        ends = [
            frozenset().union(*(way.rows for way in self.a.ways[id] if fits(way)))
            for id, fits in ((table.id, here_fits), (there.id, there_fits))
        ]
        known = self.a.countable(table.id, here_fits) and self.a.countable(there.id, there_fits)
        found = (one for one in self.w.links if one.field_id == field.id)
        return _count(sum(o.from_id in ends[0] and o.to_id in ends[1] for o in found), known)

    # -- work, people, dialogue ----------------------------------------------------------------

    def shows_project(self, id: str | None) -> bool:
        one = next((one for one in self.w.projects if one.id == id), None)
        if one is None or self.a.barred:
            return False
        return self.a.user.id in one.user_ids if one.private else self.a.role != "none"

    def shows_task(self, task: Task) -> bool:
        if task.project_id is not None and not self.shows_project(task.project_id):
            return False
        if task.record_id is None:
            return task.project_id is not None or self.a.role != "none"
        table, record = self.a.index.records[task.record_id]
        return self.a.sees(table.id, record)

    def project(self) -> Told | None:
        one = next((one for one in self.w.projects if one.id == self.request.project_id), None)
        if one is None or not self.shows_project(one.id):
            return None
        tasks = [task for task in self.w.tasks if task.project_id == one.id]
        tables = {task.table_id for task in tasks if task.table_id is not None}
        known = all(self.a.countable(id) for id in tables)
        seen = [task for task in tasks if self.shows_task(task)]
        return {
            "id": one.id,
            "name": one.name,
            "status": one.status,
            "due_on": one.due_on.isoformat() if one.due_on else None,
            "tasks": _count(len(seen), known),
            "open_tasks": _count(sum(task.status != "done" for task in seen), known),
        }

    def task(self) -> Told | None:
        one = next((one for one in self.w.tasks if one.id == self.request.task_id), None)
        if one is None or not self.shows_task(one):
            return None
        return {
            "id": one.id,
            "title": one.title if self.titled(one) else None,
            "status": one.status,
            "project_id": one.project_id,
            "table_id": one.table_id,
            "record_id": one.record_id,
            "assignee_id": one.assignee_id,
            "due_on": one.due_on.isoformat() if one.due_on else None,
        }

    def titled(self, task: Task) -> bool:
        """A title is the primary field's cell: one way must hold both."""
        if task.table_id is None:
            return True
        return any(
            task.record_id in way.rows and any(f.primary for f in self.a.fields_of(way))
            for way in self.a.ways[task.table_id]
        )

    def team(self) -> Told | None:
        one = next((one for one in self.w.teams if one.id == self.request.team_id), None)
        if one is None or self.a.barred:
            return None
        if not (one.id in self.a.team_ids or self.a.role == "admin"):
            return None
        return {"id": one.id, "name": one.name, "members": _count(len(one.user_ids), True)}

    def organization(self) -> Told | None:
        for one in self.w.organizations:
            role = dict(one.roles).get(self.a.user.id)
            here = one.id == self.request.organization_id == self.w.organization_id
            if here and role and not self.a.barred:
                return {"id": one.id, "name": one.name, "role": role}
        return None

    def workflow(self) -> Told | None:
        if self.a.role == "none":
            return None
        for one in self.w.workflows:
            if one.id == self.request.workflow_id:
                return asdict(one)
        return None

    def conversation(self) -> Told | None:
        talk = _talk(self.a, self.request)
        if talk is None:
            return None
        turns = []
        for one in talk.messages:
            # Without a note of the rights it ran under, what a tool read in tables stays away.
            ours = one.on_behalf_of == self.a.user.id and not one.table_ids
            of_tool = one.role == "tool" or bool(one.tool_calls)
            shown = ours or one.role != "tool"
            turns.append(
                {
                    "id": one.id,
                    "content": one.content if shown else None,
                    "calls": list(one.tool_calls) if ours else None if one.tool_calls else [],
                    "withheld": of_tool and not ours,
                }
            )
        return {"id": talk.id, "title": talk.title, "turns": turns}


def told(context: AgentContext) -> Told:
    """The same shape, out of a context."""
    c = context
    return {
        "user": c.user.model_dump(by_alias=False, include={"id", "name", "role"}),
        "workspace": c.workspace.model_dump(by_alias=False),
        "view": _section(c.view, record_count="records"),
        "project": _section(c.project),
        "task": _section(c.task),
        "team": _section(c.team, member_count="members"),
        "organization": _section(c.organization),
        "workflow": _section(c.workflow),
        "tables": [_section(one, record_count="records") for one in c.tables],
        "relations": _sorted(_section(one, link_count="links") for one in c.relations),
        "agents": [
            {**_plain(one), "table_ids": None if one.table_ids is None else list(one.table_ids)}
            for one in c.agent_stack
        ],
        "conversation": None
        if c.conversation is None
        else {
            "id": c.conversation.id,
            "title": c.conversation.title,
            "turns": [
                {
                    "id": one.message_id,
                    "content": None if one.withheld and one.role == "tool" else one.content,
                    "calls": None if one.withheld and one.tool_calls else list(one.tool_calls),
                    "withheld": one.withheld,
                }
                for one in c.conversation.recent_turns
            ],
        },
        "unresolved": _sorted(_plain(one) for one in c.unresolved),
    }


COUNTS = {"record_count", "tasks", "open_tasks", "member_count", "link_count"}


def _plain(section: Any) -> Told:
    found: Told = section.model_dump(by_alias=False)
    return found


def _section(section: Any, **renamed: str) -> Told | None:
    if section is None:
        return None
    plain = _plain(section)
    for name in COUNTS & plain.keys():
        one = plain[name]
        if isinstance(one, dict):
            plain[name] = UNAVAILABLE if one["unavailable"] else one["value"]
    for old, new in renamed.items():
        plain[new] = plain.pop(old, "not told")
    return {key: list(one) if isinstance(one, tuple) else one for key, one in plain.items()}


def _count(value: int, known: bool) -> Any:
    return min(value, CAP) if known else UNAVAILABLE


def _once(items: list[Any]) -> list[Any]:
    return list({one.id: one for one in items}.values())


def _sorted(items: Any) -> list[Any]:
    return sorted(items, key=lambda one: json.dumps(one, sort_keys=True))
