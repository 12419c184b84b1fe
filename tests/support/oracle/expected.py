"""What every section of a context must say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.support.oracle.dialogue import Dialogue
from tests.support.oracle.model import Conversation, Field, Table, View, Workspace
from tests.support.oracle.request import Effective, Request
from tests.support.oracle.rules import Access, NoMember, Uncomputable, Way, access
from tests.support.oracle.shape import NOT_FOUND, UNAVAILABLE, Told, count, in_order, once
from tests.support.oracle.work import Work


def expected(workspace: Workspace, request: Request | Effective, now: datetime) -> Told:
    """The answer that the rules give, or `NOT_FOUND`."""
    asked = request if isinstance(request, Effective) else Effective(request)
    try:
        a = access(workspace, asked.request.user_id, asked.request.agent_stack, now)
    except NoMember:
        return NOT_FOUND
    if not _fatal_in_sight(a, asked.asked):
        return NOT_FOUND
    answer = _Answer(a, asked)
    return NOT_FOUND if asked.request.strict and answer.absent else answer.told()


def _fatal_in_sight(a: Access, request: Request) -> bool:
    """Of what was asked for: what a session kept is left out where it is out of sight."""
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
    def __init__(self, a: Access, asked: Effective) -> None:
        self.a, self.w = a, a.index.workspace
        self.asked, self.request = asked, asked.request
        self.tables = [a.index.tables[id] for id in self.request.table_ids if id in a.ways]
        self.found = self._view_asked()
        self.sections = {"view": self.view(), **Work(a, self.request).told()}

    def count(self, value: int, known: bool) -> Any:
        return count(value, self.w.bounds.count if known else None)

    @property
    def absent(self) -> list[Told]:
        """What was asked for and is out of sight."""
        return [
            {"coordinate": f"{name}Id", "id": id}
            for name, section in self.sections.items()
            if (id := getattr(self.asked.asked, f"{name}_id")) and section is None
        ]

    def told(self) -> Told:
        talk = _talk(self.a, self.request)
        dialogue = Dialogue(self.a, talk, self.request.message) if talk else None
        user = self.a.user
        return {
            "user": {"id": user.id, "name": user.name, "role": self.a.role}
            | {"locale": user.locale, "timezone": user.timezone},
            "workspace": {"id": self.w.id, "name": self.w.name},
            **self.sections,
            "tables": [self.table(one) for one in self.tables],
            "relations": in_order(self.relations(self.tables)),
            "agents": [
                {
                    "id": one.id,
                    "name": one.name,
                    "max_role": one.max_role,
                    "table_ids": None if one.table_ids is None else [t.id for t in self.tables],
                }
                for one in self.a.agents
            ],
            "conversation": dialogue.told() if dialogue else None,
            "session": self.session(dialogue),
            "inherited": sorted(self.asked.inherited),
            "unresolved": in_order(self.absent),
        }

    def session(self, dialogue: Dialogue | None) -> Told | None:
        """It is named by its id, else by its conversation, and remembers the dialogue's summary."""
        name = self.request.session_id or self.request.conversation_id
        if name is None:
            return None
        memory = dialogue.summary if dialogue else []
        return {"id": name, "memory": memory, "last_hash": self.asked.kept.last_hash}

    # -- tables and views ----------------------------------------------------------------------

    def table(self, table: Table) -> Told:
        own = self.a.own_way(table.id)
        fields = self.a.table_fields(table)
        views = [one for one in table.views if self.a.shows_view(table, one)]
        current = self.found[1] if self.found and self.found[0] is table else None
        sampled = once([one for one in fields if one.primary])
        if current is not None:
            sampled = once([*sampled, *self.view_fields(table, current)])
        rows = frozenset().union(*(way.rows for way in self.a.ways[table.id]))
        return {
            "id": table.id,
            "name": table.name,
            "permission": own.role if own else "views",
            "field_count": len(fields),
            "fields": [
                {"id": o.id, "name": o.name, "type": o.type, "primary": o.primary}
                for o in once([*sampled, *fields])[:12]
            ],
            "view_count": len(views),
            "views": [
                {"id": o.id, "name": o.name, "type": o.type}
                for o in once([*([current] if current else []), *views])[:6]
            ],
            "records": self.count(len(rows), self.a.countable(table.id)),
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
        return self.count(sum(passes(r) for r in table.records if r.id in rows), True)

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
        return self.count(sum(o.from_id in ends[0] and o.to_id in ends[1] for o in found), known)
