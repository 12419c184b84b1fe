"""The ways into tables that a user holds, before their rows are decided: which fields each shows.

A table's own way is held by the role on it; each restricted view that is granted is a way of its
own. A way that shows no field is no way, unless its table has none at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.access.roles import (
    RANK,
    Level,
    TableRole,
    field_level,
    granted,
    held_on,
    let_in,
    narrowed,
)
from context_engine.facts import AgentFacts, Facts, FieldFacts, TableFacts, ViewFacts, ViewHead
from context_engine.keys import Coordinates
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


def reach(facts: Facts, at: Coordinates) -> tuple[str, ...]:
    """Of the tables that a request comes to, those that a right leads into.

    That of the requested view only where the view is in sight: else it takes the same steps as
    one that is missing. A requested table that is missing takes those of one out of sight.
    """
    if not is_active(facts):
        return ()
    views = {
        g.table_id
        for g in facts.grants
        if g.scope_type == "view" and leads_through(facts, g.scope_id)
    }

    def own(id: str) -> Role:
        return narrowed(held_on(facts, at.workspace_id, id), facts.agents)

    named, view = list(facts.named), facts.view
    if (
        view is not None
        and view.table_id not in named
        and sees_view(facts, view, own(view.table_id))
    ):
        named.append(view.table_id)
    led_into = {
        id
        for id in dict.fromkeys((*at.table_ids, *named))
        if let_in(facts.agents, id) and (own(id) != "none" or id in views)
    }
    return tuple(id for id in named if id in led_into)


def own_role(facts: Facts, workspace_id: str, table_id: str) -> Role:
    """The role by which the user holds the own way into one of the tables that a request comes
    to; none of any other. What is decided by it alone takes no second reading."""
    here = is_active(facts) and table_id in facts.named
    return narrowed(held_on(facts, workspace_id, table_id), facts.agents) if here else "none"


def leads_through(facts: Facts, view_id: str) -> bool:
    """Whether a grant on a view, if that is a restricted one, leads in."""
    by_view = granted(facts, "view", view_id)
    return by_view is not None and narrowed(by_view, facts.agents) != "none"


def sees_view(facts: Facts, view: ViewHead | ViewFacts, own: Role) -> bool:
    """A view is for who may see its table, or its owner, or who has a grant on it.

    `own`: the role by which the table's own way is held. NONE on a view hides it.
    """
    if granted(facts, "view", view.id) == "none":
        return False
    match view.ownership:
        case "collaborative":
            return own != "none"
        case "personal":
            return own != "none" and facts.user is not None and view.owner_id == facts.user.id
        case "restricted":
            return leads_through(facts, view.id) or RANK[own] >= RANK["admin"]
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
    it lifts what permissions hide of its own table, but neither what a view holds back nor what
    is made of another table out of sight. The least sets for which that holds: what computes
    itself in a circle stays hidden.
    """
    sight = _Sight(found)
    while sight.widen():
        pass
    return sight.ways()


class _Sight:
    """What each way shows so far, and what it would without field permissions. Only grows."""

    def __init__(self, found: Sequence[Entry]) -> None:
        self._entries = {entry.key: entry for entry in found}
        self._tables = {entry.table.id: _by_id(entry.table) for entry in found}
        self._shown: dict[EntryKey, set[str]] = {key: set() for key in self._entries}
        self._held: dict[EntryKey, set[str]] = {key: set() for key in self._entries}
        self._levels = {key: _levels(entry) for key, entry in self._entries.items()}
        self._computed: dict[EntryKey, list[FieldFacts]] = {}
        for key, entry in self._entries.items():
            fields = [field for field in entry.table.fields if not _held_back(entry, field.id)]
            self._computed[key] = [field for field in fields if field.reads]
            self._add(key, [field for field in fields if field.reads == ()])

    def _add(self, key: EntryKey, fields: Iterable[FieldFacts]) -> None:
        for field in fields:
            self._held[key].add(field.id)
            if self._levels[key].get(field.id) != "none":
                self._shown[key].add(field.id)

    def widen(self) -> bool:
        """Shows what all of its sources show by now; whether there was any."""
        before = self._size()
        for key, fields in self._computed.items():
            for field in fields:
                level = self._levels[key].get(field.id)
                if self._has_sources(key, field, self._held[key]):
                    self._held[key].add(field.id)
                lifted = self._held[key] if level is not None else self._shown[key]
                if level != "none" and self._has_sources(key, field, lifted):
                    self._shown[key].add(field.id)
        return self._size() > before

    def _size(self) -> int:
        return sum(len(one) for sets in (self._shown, self._held) for one in sets.values())

    def ways(self) -> Shown:
        return {key: frozenset(fields) for key, fields in self._shown.items() if self._is_way(key)}

    def _is_way(self, key: EntryKey) -> bool:
        return bool(self._shown[key]) or not self._entries[key].table.fields

    def _has_sources(self, key: EntryKey, field: FieldFacts, own: Collection[str]) -> bool:
        """`own`: what counts as seen of the field's own table."""
        for table_id, field_id in field.reads or ():
            source = self._tables.get(table_id, {}).get(field_id)
            if source is None:
                return False
            if source.linked_table_id is not None and not self._in_sight(source.linked_table_id):
                return False
            elsewhere = table_id != key.table_id
            if not (self._seen(table_id, field_id) if elsewhere else field_id in own):
                return False
        return True

    def _seen(self, table_id: str, field_id: str) -> bool:
        return any(
            field_id in fields for key, fields in self._shown.items() if key.table_id == table_id
        )

    def _in_sight(self, table_id: str) -> bool:
        return any(key.table_id == table_id and self._is_way(key) for key in self._entries)


def _by_id(table: TableFacts) -> dict[str, FieldFacts]:
    return {field.id: field for field in table.fields}


def _levels(entry: Entry) -> dict[str, Level | None]:
    """What field permissions say of each field that they name."""
    permissions = entry.table.field_permissions
    named = {one.field_id for one in permissions}
    return {id: field_level(permissions, id, entry.held) for id in named}


def _held_back(entry: Entry, field_id: str) -> bool:
    """What a granted view hides is no field of the way through it."""
    return entry.view is not None and field_id in entry.view.hidden


def writable(entry: Entry, fields: frozenset[str]) -> frozenset[str]:
    """Of the fields that a way shows, those whose cells its holder may write."""
    if RANK[entry.role] < RANK["editor"]:
        return frozenset()
    levels = _levels(entry)
    return frozenset(id for id in fields if levels.get(id) != "read")
