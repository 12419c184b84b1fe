"""The ways into tables that a user holds, before their rows are decided: which fields each shows.

A table's own way is held by the role on it; each restricted view that is granted is a way of its
own. A way that shows no field is no way, unless its table has none at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.access.roles import (
    RANK,
    TableRole,
    field_level,
    granted,
    held_on,
    let_in,
    narrowed,
)
from context_engine.facts import AgentFacts, Facts, FieldFacts, TableFacts, ViewFacts, ViewHead
from context_engine.models.sections import Role


@dataclass(frozen=True, slots=True)
class Entry:
    """A way in by role alone: the table's own, or that of a granted view."""

    table: TableFacts
    view: ViewFacts | None
    held: Role
    """What policies and field permissions name: before the agents narrow it."""
    role: TableRole

    @property
    def key(self) -> EntryKey:
        return EntryKey(self.table.id, self.view.id if self.view is not None else None)


class EntryKey(NamedTuple):
    table_id: str
    view_id: str | None


Shown = Mapping[EntryKey, frozenset[str]]
"""The fields that each way shows; a way that is none is not in it."""


def reach(facts: Facts, workspace_id: str) -> tuple[str, ...]:
    """Of the tables that a request comes to, those that a right leads into.

    That of the requested view only where the view is in sight: else it takes the same steps as
    one that is missing.
    """
    if not is_active(facts):
        return ()
    views = {g.table_id for g in facts.grants if g.scope_type == "view" and g.role != "none"}

    def own(id: str) -> Role:
        return narrowed(held_on(facts, workspace_id, id), facts.agents)

    named, view = list(facts.named), facts.view
    if (
        view is not None
        and view.table_id not in named
        and sees_view(facts, view, own(view.table_id), through=view.table_id in views)
    ):
        named.append(view.table_id)
    return tuple(
        id for id in named if let_in(facts.agents, id) and (own(id) != "none" or id in views)
    )


def sees_view(facts: Facts, view: ViewHead | ViewFacts, own: Role, *, through: bool) -> bool:
    """A view is for who may see its table, or its owner, or who has a grant on it.

    `own`: the role by which the table's own way is held, `through`: whether there is a way
    through the view. NONE on a view hides it.
    """
    if granted(facts, "view", view.id) == "none":
        return False
    match view.ownership:
        case "collaborative":
            return own != "none"
        case "personal":
            return own != "none" and facts.user is not None and view.owner_id == facts.user.id
        case "restricted":
            return through or RANK[own] >= RANK["admin"]
        case _:
            return False


def is_active(facts: Facts) -> bool:
    """Whether the user is an active member of a workspace that exists."""
    return (
        facts.user is not None
        and facts.user.active
        and facts.workspace is not None
        and facts.member is not None
        and facts.member.active
    )


def entries(facts: Facts, agents: Sequence[AgentFacts], workspace_id: str) -> Iterable[Entry]:
    """Every way by role, of every table that is told of."""
    for table in facts.tables:
        if not let_in(agents, table.id):
            continue
        held = held_on(facts, workspace_id, table.id)
        if (role := _let_in_by(held, agents)) is not None:
            yield Entry(table, None, held, role)
        for view in table.views:
            by_view = granted(facts, "view", view.id) if view.ownership == "restricted" else None
            if by_view is not None and (role := _let_in_by(by_view, agents)) is not None:
                yield Entry(table, view, by_view, role)


def _let_in_by(held: Role, agents: Sequence[AgentFacts]) -> TableRole | None:
    role = narrowed(held, agents)
    return None if role == "none" else role


# -- fields ------------------------------------------------------------------------------------


def shown(found: Sequence[Entry]) -> Shown:
    """The fields that each of all the ways shows.

    A computed field shows where all that it is made of does: in the same way on its own table,
    in any way elsewhere, a link only with the table that it leads to. An explicit permission on
    it lifts what is hidden of its own table. The least set for which that holds: what computes
    itself in a circle stays hidden.
    """
    sight = _Sight(found)
    while sight.widen():
        pass
    return sight.ways()


class _Sight:
    """What each way shows so far. Only grows."""

    def __init__(self, found: Sequence[Entry]) -> None:
        self._entries = {entry.key: entry for entry in found}
        self._tables = {entry.table.id: entry.table for entry in found}
        self._shown: dict[EntryKey, set[str]] = {}
        self._waiting: dict[EntryKey, list[FieldFacts]] = {}
        for key, entry in self._entries.items():
            fields = [field for field in entry.table.fields if _may_read(entry, field.id)]
            self._shown[key] = {field.id for field in fields if field.reads == ()}
            self._waiting[key] = [field for field in fields if field.reads]

    def widen(self) -> bool:
        """Shows what all of its sources show by now; whether there was any."""
        wider = False
        for key, waiting in self._waiting.items():
            for field in tuple(waiting):
                if self._has_sources(self._entries[key], field):
                    self._shown[key].add(field.id)
                    waiting.remove(field)
                    wider = True
        return wider

    def ways(self) -> Shown:
        return {
            key: frozenset(fields)
            for key, fields in self._shown.items()
            if fields or not self._entries[key].table.fields
        }

    def _has_sources(self, entry: Entry, field: FieldFacts) -> bool:
        lifted = field_level(entry.table.field_permissions, field.id, entry.held) is not None
        return all(self._has_source(entry, *source, lifted) for source in field.reads or ())

    def _has_source(self, entry: Entry, table_id: str, field_id: str, lifted: bool) -> bool:
        table = self._tables.get(table_id)
        source = next((f for f in table.fields if f.id == field_id), None) if table else None
        if source is None:
            return False
        if source.linked_table_id is not None and not self._in_sight(source.linked_table_id):
            return False
        if table_id == entry.table.id:
            return lifted or field_id in self._shown[entry.key]
        return any(
            field_id in fields for key, fields in self._shown.items() if key.table_id == table_id
        )

    def _in_sight(self, table_id: str) -> bool:
        return any(
            fields or not self._entries[key].table.fields
            for key, fields in self._shown.items()
            if key.table_id == table_id
        )


def _may_read(entry: Entry, field_id: str) -> bool:
    if entry.view is not None and field_id in entry.view.hidden:
        return False
    return field_level(entry.table.field_permissions, field_id, entry.held) != "none"


def writable(entry: Entry, fields: frozenset[str]) -> frozenset[str]:
    """Of the fields that a way shows, those whose cells its holder may write."""
    if RANK[entry.role] < RANK["editor"]:
        return frozenset()
    permissions = entry.table.field_permissions
    return frozenset(id for id in fields if field_level(permissions, id, entry.held) != "read")
