"""Who may see what, step by step as the rules say it, for one user and one agent stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from context_engine import view_filters as f
from context_engine import view_values as v
from context_engine.errors import InvalidRequest
from tests.support import plain_filters
from tests.support.oracle.model import Agent, Field, Policy, Record, Table, User, View, Workspace
from tests.support.oracle.predicates import (
    Index,
    Judge,
    Passing,
    Sees,
    Unresolvable,
    constant,
    links_in,
    readable,
)

ROLES = ("none", "viewer", "commenter", "editor", "builder", "admin")
LEVELS = ("none", "read", "write")


class NoMember(Exception):
    """The workspace is not in the user's sight, nor anything in it."""


class Uncomputable(Exception):
    """What a filter asks cannot be known."""


def lowest(roles: Iterable[str]) -> str:
    return min(roles, key=ROLES.index)


def united(found: Sequence[tuple[str, str]], order: Sequence[str]) -> str | None:
    """Of (subject type, role or level): the user's own, else the highest of the teams'."""
    for subject in ("user", "team"):
        of_subject = [one for type, one in found if type == subject]
        if of_subject:
            return max(of_subject, key=order.index)
    return None


@dataclass(frozen=True, eq=False)
class Way:
    """One way in: its rows, and `rights_of` a field. `view`: None for the table's own."""

    table: Table
    view: View | None
    held: str
    """Before the agents: what policies and field permissions name."""
    role: str
    """After the agents."""
    rows: frozenset[str]
    uncountable: bool = False
    """Its filter cannot be computed: it gives no rows, and nobody knows how many it should."""
    unconditional: bool = False
    """It holds every row, whatever is in it."""


@dataclass(frozen=True)
class Access:
    """Everything one user sees of a workspace, with agents acting, at one time."""

    index: Index
    user: User
    team_ids: frozenset[str]
    role_before: str
    agents: tuple[Agent, ...]
    now: datetime

    # -- roles and ways ------------------------------------------------------------------------

    @property
    def role(self) -> str:
        return self.capped(self.role_before)

    def capped(self, role: str) -> str:
        return lowest([role, *(agent.max_role for agent in self.agents)])

    @property
    def barred(self) -> bool:
        """An agent of no role at all does nothing for anybody."""
        return any(agent.max_role == "none" for agent in self.agents)

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.index, self.user, self.team_ids, self.now)

    def granted(self, scope_type: str, scope_id: str) -> str | None:
        """The role of the grants at one scope; None where none names the user."""
        found = [
            (one.subject_type, one.role)
            for one in self.index.workspace.grants
            if (one.scope_type, one.scope_id) == (scope_type, scope_id)
            and self.is_subject(one.subject_type, one.subject_id)
        ]
        return united(found, ROLES)

    def is_subject(self, type: str, id: str) -> bool:
        return id == self.user.id if type == "user" else type == "team" and id in self.team_ids

    def table_role(self, table: Table) -> str:
        """Before the agents: the narrowest scope with a grant replaces."""
        granted = self.granted("table", table.id)
        return self.role_before if granted is None else granted

    def candidates(self, table: Table) -> list[Way]:
        """The ways into a table, whether or not a field is to be seen by them."""
        if table.trashed or any(
            agent.table_ids is not None and table.id not in agent.table_ids for agent in self.agents
        ):
            return []
        ways = []
        held = self.table_role(table)
        if self.capped(held) != "none":
            ways.append(self.table_way(table, held))
        for view in table.views:
            granted = self.granted("view", view.id)
            if view.ownership != "restricted" or granted in (None, "none"):
                continue
            if self.capped(granted) != "none":
                ways.append(self.view_way(table, view, granted))
        return ways

    def table_way(self, table: Table, held: str) -> Way:
        permissive = self.naming(table, "permissive", held)
        opened = [self.policy_test(one, table) for one in permissive]
        every = table.policy_default == "show_all"

        def opens(record: Record) -> bool:
            return every or any(test(record) for test in opened)

        whole = (
            not self.closed(table, held)
            and (every or any(constant(one.pred) for one in permissive))
            and all(constant(one.pred) for one in self.naming(table, "restrictive", held))
        )
        rows = self.within(table, opens, held)
        return Way(table, None, held, self.capped(held), rows, unconditional=whole)

    def view_way(self, table: Table, view: View, held: str) -> Way:
        role = self.capped(held)
        try:
            passes = self.filter_test(table, view)
        except Uncomputable:
            return Way(table, view, held, role, frozenset(), uncountable=True)
        return Way(table, view, held, role, self.within(table, passes, held))

    # -- rows ----------------------------------------------------------------------------------

    def within(self, table: Table, passes: Passing, held: str) -> frozenset[str]:
        """The live records that pass, under what binds every way."""
        if self.closed(table, held):
            return frozenset()
        bound = [self.policy_test(one, table) for one in self.naming(table, "restrictive", held)]
        live = (record for record in table.records if not record.deleted)
        return frozenset(r.id for r in live if passes(r) and all(test(r) for test in bound))

    def naming(self, table: Table, mode: str, held: str) -> list[Policy]:
        """Policies of a mode that name the user, for whom a way is held by a role."""
        return [
            policy
            for policy in table.policies
            if policy.mode == mode
            and self.named_by(policy, held)
            and not self.denies(policy, table)
        ]

    def named_by(self, policy: Policy, held: str) -> bool:
        return any(
            id == held if type == "role" else self.is_subject(type, id)
            for type, id in _subjects(policy.subjects) or ()
        )

    def closed(self, table: Table, held: str) -> bool:
        """Whether a policy denies because of what it is: one that cannot be read denies all,
        for nobody knows whom it was to keep out; one that cannot be resolved, whom it names."""
        return any(
            not _legible(policy) or (self.named_by(policy, held) and self.denies(policy, table))
            for policy in table.policies
        )

    def denies(self, policy: Policy, table: Table) -> bool:
        try:
            self.judge.test(policy.pred, table)
        except Unresolvable:
            return True
        return False

    def policy_test(self, policy: Policy, table: Table) -> Passing:
        return self.judge.test(policy.pred, table)

    def filter_test(self, table: Table, view: View, sees: Sees | None = None) -> Passing:
        """A view's filter: as a boundary over all that is stored, or as presentation with what
        `sees` shows of linked records. Raises `Uncomputable`."""
        if view.filter is None:
            return lambda _: True
        if not f.is_stored(view.filter):
            try:
                passes = self.judge.test(view.filter, table, sees=sees)
            except Unresolvable as unresolvable:
                raise Uncomputable from unresolvable
            along = {*links_in(view.filter)}
            self._must_know(sees, {o.linked_table_id for o in table.fields if o.id in along})
            return passes
        try:
            filter = f.parse(view.filter)
        except InvalidRequest as garbage:
            raise Uncomputable from garbage
        if f.unavailable(filter) is not None or not self._all_there(filter, table, sees):
            raise Uncomputable
        self._must_know(
            sees, {id for one in f.conditions(filter) for id in v.tables_read(one.value)}
        )
        world = self._plain(sees)
        return lambda record: world.passes(filter, world.records[record.id])

    def _must_know(self, sees: Sees | None, tables: set[str | None]) -> None:
        """Presentation needs to know which rows are in sight of the tables that it looks into."""
        if sees is not None and not all(self.countable(id) for id in tables if id is not None):
            raise Uncomputable

    def _all_there(self, filter: f.Filter, table: Table, sees: Sees | None) -> bool:
        """Whether the filter names only fields that are there. Presentation cannot tell a linked
        table that is out of sight from one that is gone: neither has rows in sight."""
        for condition in f.conditions(filter):
            if sees is None and any(
                self.index.table(id) is None for id in v.tables_read(condition.value)
            ):
                return False
            for id, name in v.refs_read(condition.value, table.id):
                if sees is not None and id not in self.ways and id != table.id:
                    continue
                there = self.index.table(id)
                known = () if there is None else (field.id for field in there.fields)
                if name not in (*known, "created_at", "updated_at"):
                    return False
        return True

    def _plain(self, sees: Sees | None) -> plain_filters.World:
        records = {
            id: plain_filters.Record(
                id, table.id, record.cells, record.created_at, record.deleted or table.trashed
            )
            for id, (table, record) in self.index.records.items()
        }

        def shown(one: plain_filters.Record) -> bool:
            return sees is None or sees(one.table, self.index.records[one.id][1])

        return plain_filters.World(records, self.index.links, shown, self.now)

    # -- fields --------------------------------------------------------------------------------

    @cached_property
    def ways(self) -> dict[str, list[Way]]:
        """The ways into each table in sight: those that show a field."""
        found = {}
        for table in self.index.workspace.tables:
            ways = [
                way for way in self._candidates[table.id] if not table.fields or self.fields_of(way)
            ]
            if ways:
                found[table.id] = ways
        return found

    @cached_property
    def _candidates(self) -> dict[str, list[Way]]:
        return {table.id: self.candidates(table) for table in self.index.workspace.tables}

    def fields_of(self, way: Way) -> list[Field]:
        """The fields that a way shows, in table order."""
        return [field for field in way.table.fields if ("shown", way, field.id) in self._known]

    def level(self, way: Way, field: Field) -> str | None:
        """The explicit field permission: own, else the teams', else that of the role held."""
        rows = field.permissions
        named = [
            (o.subject_type, o.level) for o in rows if self.is_subject(o.subject_type, o.subject_id)
        ]
        own = united(named, LEVELS)
        if own is not None:
            return own
        of_role = (o.level for o in rows if (o.subject_type, o.subject_id) == ("role", way.held))
        return next(of_role, None)

    @cached_property
    def _known(self) -> set[tuple[str, Way, str]]:
        """What can be shown to be visible, from what is made of nothing upwards: so that what
        is made of itself never is. `shown`: visible by a way; `made`: visible but for field
        permissions of its own table, as what an explicit permission rests on needs to be."""
        known: set[tuple[str, Way, str]] = set()
        todo = [
            (way, field)
            for ways in self._candidates.values()
            for way in ways
            for field in way.table.fields
        ]
        grown = True
        while grown:
            before = len(known)
            for way, field in todo:
                self._derive(way, field, known)
            grown = len(known) > before
        return known

    def _derive(self, way: Way, field: Field, known: set[tuple[str, Way, str]]) -> None:
        if way.view is not None and field.id in way.view.hidden:
            return
        level = self.level(way, field)
        if self._rests(way, field, "made", known):
            known.add(("made", way, field.id))
        if level != "none" and self._rests(way, field, "made" if level else "shown", known):
            known.add(("shown", way, field.id))

    def _rests(self, way: Way, field: Field, on: str, known: set[tuple[str, Way, str]]) -> bool:
        """Whether everything that the field is made of is known to be visible."""
        if field.reads is None:
            return False
        for table_id, source_id in field.reads:
            table = self.index.table(table_id)
            source = (
                next((one for one in table.fields if one.id == source_id), None) if table else None
            )
            if table is None or source is None:
                return False
            if table is way.table:
                seen = (on, way, source.id) in known
            else:
                seen = any(("shown", one, source.id) in known for one in self._candidates[table.id])
            if not seen or (source.type == "link" and not self._leads(source, known)):
                return False
        return True

    def _leads(self, link: Field, known: set[tuple[str, Way, str]]) -> bool:
        """Whether the table that a link leads to is known to be in sight."""
        table = self.index.table(link.linked_table_id)
        if table is None:
            return False
        return any(
            not table.fields or any(("shown", way, field.id) in known for field in table.fields)
            for way in self._candidates[table.id]
        )

    # -- what is asked of it -------------------------------------------------------------------

    def own_way(self, table_id: str, view_id: str | None = None) -> Way | None:
        """The table's own way, or that of one of its views."""
        for way in self.ways.get(table_id, ()):
            if (way.view.id if way.view else None) == view_id:
                return way
        return None

    def sees(self, table_id: str, record: Record) -> bool:
        return any(record.id in way.rows for way in self.ways.get(table_id, ()))

    def table_fields(self, table: Table) -> list[Field]:
        shown = {field.id for way in self.ways.get(table.id, ()) for field in self.fields_of(way)}
        return [field for field in table.fields if field.id in shown]

    def shows_view(self, table: Table, view: View) -> bool:
        granted, own = self.granted("view", view.id), self.own_way(table.id)
        if table.id not in self.ways or granted == "none":
            return False
        match view.ownership:
            case "collaborative":
                return own is not None
            case "personal":
                return own is not None and view.owner_id == self.user.id
            case "restricted":
                if own is not None and own.role == "admin":
                    return True
                given = granted is not None and self.capped(granted) != "none"
                return given and (own is not None or self.own_way(table.id, view.id) is not None)
        return False

    def countable(self, table_id: str, fits: Callable[[Way], bool] = lambda _: True) -> bool:
        """Whether the rows of those ways are known: a way that nobody can count does not matter
        where the table's own holds all."""
        ways = [way for way in self.ways.get(table_id, ()) if fits(way)]
        if any(way.view is None and way.unconditional for way in ways):
            return True
        return not any(way.uncountable for way in ways)


def access(workspace: Workspace, user_id: str, agent_ids: Sequence[str], now: datetime) -> Access:
    """Raises `NoMember`."""
    user = next((one for one in workspace.users if one.id == user_id), None)
    member = next((one for one in workspace.members if one.user_id == user_id), None)
    if user is None or member is None or not user.active or not member.active:
        raise NoMember
    teams = frozenset(team.id for team in workspace.teams if user_id in team.user_ids)
    agents = tuple(one for id in agent_ids for one in workspace.agents if one.id == id)
    index = Index(workspace)
    alone = Access(index, user, teams, "none", (), now)
    granted = alone.granted("workspace", workspace.id)
    own = None if member.role == "defer" else member.role
    return Access(index, user, teams, own or granted or "none", agents, now)


def _legible(policy: Policy) -> bool:
    return _subjects(policy.subjects) is not None and readable(policy.pred)


def _subjects(raw: Any) -> list[tuple[str, str]] | None:
    """(type, id) of each subject; None where they cannot be read."""
    if not isinstance(raw, list) or not raw:
        return None
    found = []
    for one in raw:
        match one:
            case {"type": "role" | "team" | "user" as type, "id": str(id)} if len(one) == 2:
                found.append((type, id))
            case _:
                return None
    return found
