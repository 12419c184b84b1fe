"""Tables in sight: their ways in, and their views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from context_engine import keys, policy, view_filters
from context_engine.access.attributes import asked_by
from context_engine.access.roles import held_on, let_in
from context_engine.access.rows import names, parsed_once, rows_held
from context_engine.access.run import Cell, Run, cells_of, linked_rows_of, rows_of
from context_engine.access.views import looked_at
from context_engine.access.visible import MAKER, VisibleTable, VisibleView, Way, untold
from context_engine.access.ways import Entry, Shown, entries, sees_view, shown, writable
from context_engine.facts import AgentFacts, FieldFacts, TableFacts, ViewFacts
from context_engine.keys import Tag
from context_engine.models.context import Unresolved
from context_engine.models.sections import TOO_SLOW, Role


class Tables:
    """The tables of one run, each decided once."""

    def __init__(self, run: Run, agents: Sequence[AgentFacts]) -> None:
        self._run, self._agents = run, agents
        found = tuple(entries(run.facts, agents, run.at.workspace_id))
        self._shown: Shown = shown(found)
        self._entries = tuple(entry for entry in found if entry.key in self._shown)
        self._in_sight = {entry.table.id for entry in self._entries}
        self._made: dict[str, VisibleTable | None] = {}
        self._reads: dict[str, set[Cell]] = {}
        self._told: dict[tuple[str, bool], frozenset[Tag]] = {}

    def requested(self) -> tuple[VisibleTable, ...]:
        """The effective tables in sight; the others are noted as missing."""
        seen = []
        for table_id in self._run.at.table_ids:
            self._run.tell({keys.views(table_id), keys.links_to(table_id)} | rows_of(table_id))
            table = self.one(table_id)
            if table is not None:
                self.tell_of(table)
                seen.append(table)
            else:
                self._run.missing.append(Unresolved(coordinate="tableIds", id=table_id))
        return tuple(seen)

    def one(self, table_id: str, *, counted: bool = True) -> VisibleTable | None:
        """A table in sight. The answer depends on its tags; whoever shows it tells them too.

        `counted`: on new rows too. Not where links end in it, or tools ran over it, and that is
        all.
        """
        if table_id not in self._made:
            with self._run.noting() as reads:
                self._made[table_id] = self._decided(table_id)
            self._reads[table_id] = reads
            self._run.tags |= self._tags_of(table_id, counted=False)  # beside those of `reads`
        if counted:
            self._run.tags |= rows_of(table_id)
        return self._made[table_id]

    def tell_of(self, table: VisibleTable, *, counted: bool = True) -> None:
        """The answer shows `table`, and may say what it depends on."""
        self._run.tell(self.told_of(table, counted=counted))

    def told_of(self, table: VisibleTable, *, counted: bool = True) -> frozenset[Tag]:
        """What a table in sight depends on, but for what it reads of others out of sight."""
        if (table.id, counted) not in self._told:
            reads = self.in_sight(self._reads[table.id])
            told = self._tags_of(table.id, reads, counted=counted)
            self._told[table.id, counted] = frozenset(told)
        return self._told[table.id, counted]

    def in_sight(self, cells: Iterable[Cell]) -> set[Cell]:
        """Those of tables that some way leads into."""
        return {cell for cell in cells if cell[0] in self._in_sight}

    def _tags_of(self, table_id: str, reads: Iterable[Cell] = (), *, counted: bool) -> set[Tag]:
        tags = cells_of(reads) | (rows_of if counted else linked_rows_of)(table_id)
        for source in _sources(self._run.tables, table_id):
            tags |= {keys.schema(source), keys.views(source)}
        if any(entry.table.id == table_id and entry.view is not None for entry in self._entries):
            tags.add(keys.views(table_id))  # what a granted view hides and filters is a boundary
        return tags

    # -- views -------------------------------------------------------------------------------

    def view(self) -> tuple[VisibleView | None, VisibleTable | None]:
        """The requested view, on one of the context's tables or, without tables, on its own."""
        run, at = self._run, self._run.at
        if at.view_id is None:
            return None, None
        run.tell({keys.ANY_VIEW})
        owner = run.facts.view.table_id if run.facts.view is not None else None
        if owner is not None and (not at.table_ids or owner in at.table_ids):
            run.tags.add(keys.views(owner))
            table = self.one(owner)
            found = (
                next((v for v in table.views if v.facts.id == at.view_id), None) if table else None
            )
            if table is not None and found is not None:
                self.tell_of(table)
                run.tell({keys.views(owner)})
                return self._looked_at(found), table
        run.absent("view", at.view_id)
        return None, None

    def _looked_at(self, view: VisibleView) -> VisibleView:
        run = self._run
        with run.noting() as reads:
            made = looked_at(run, view, self._sight)
        run.tell(cells_of(self.in_sight(reads)))
        why = self._unknown(made)
        return made if why is None else replace(made, filter=False, where=None, uncountable=why)

    def _sight(self, table_id: str) -> view_filters.Sight | None:
        """What the user sees of a table that a filter looks into."""
        table = self.one(table_id)
        if table is None:
            return None
        return view_filters.Sight(self._run.leads_of(table_id), table.rows)

    def _unknown(self, view: VisibleView) -> str | None:
        """Why nobody knows what a filter asks of the user, or which rows it looks into."""
        if not self._run.late.isdisjoint(asked_by([view.facts.filter])):
            return TOO_SLOW
        looked_into = map(self.one, view.where.sights if view.where is not None else ())
        return next((why for table in looked_into if table and (why := table.uncountable)), None)

    # -- deciding ----------------------------------------------------------------------------

    def _decided(self, table_id: str) -> VisibleTable | None:
        run = self._run
        mine = [entry for entry in self._entries if entry.table.id == table_id]
        facts = run.tables.get(table_id)
        if facts is None or not mine:
            run.deny(f"table {table_id}", self._why_not(table_id))
            return None
        ways = tuple(self._way(entry) for entry in mine)
        fields = frozenset[str]().union(*(way.field_ids for way in ways))
        own = next((way for way in ways if way.view_id is None), None)
        ids = sorted(field.id for field in facts.fields)
        return VisibleTable(
            maker=MAKER,
            id=facts.id,
            name=facts.name,
            permission=own.role if own is not None else "views",
            fields=tuple(field for field in facts.fields if field.id in fields),
            views=tuple(
                self._view(facts, view, ways, ids) for view in facts.views if self._sees(view, ways)
            ),
            ways=ways,
            rights=_rights(run, facts, mine, self._shown),
        )

    def _why_not(self, table_id: str) -> str:
        """For operators. Whose facts were not read, for want of a right, counts as missing."""
        facts, agents = self._run.facts, self._agents
        # All is asked of any: one out of sight takes no more time than one that is missing.
        let, held = let_in(agents, table_id), held_on(facts, self._run.at.workspace_id, table_id)
        if table_id not in facts.named and table_id not in self._run.tables:
            return "missing or trashed"
        if not let:
            return "agent stack"
        return "role none" if held == "none" else "no field in sight, or the agents have no role"

    def _way(self, entry: Entry) -> Way:
        held = rows_held(self._run, entry)
        fields = self._shown[entry.key]
        return Way(
            maker=MAKER,
            view_id=entry.view.id if entry.view is not None else None,
            held=entry.held,
            role=entry.role,
            rows=held.rows,
            field_ids=fields,
            writable=writable(entry, fields),
            uncountable=held.uncountable,
        )

    def _sees(self, view: ViewFacts, ways: Sequence[Way]) -> bool:
        own: Role = next((way.role for way in ways if way.view_id is None), "none")
        if own == "none" and all(way.view_id != view.id for way in ways):
            return False  # others lead in: this one shows no field
        return sees_view(self._run.facts, view, own)

    def _view(
        self, table: TableFacts, view: ViewFacts, ways: Sequence[Way], ids: Sequence[str]
    ) -> VisibleView:
        """`ids`: of the table's fields, in the order that they have where the view says nothing."""
        leading = [way for way in ways if way.view_id in (None, view.id)]
        seen = frozenset[str]().union(*(way.field_ids for way in leading)) - set(view.hidden)
        order = dict.fromkeys((*view.field_order, *ids)) if view.field_order else ids
        return VisibleView(
            maker=MAKER,
            facts=view,
            table_id=table.id,
            field_ids=tuple(id for id in order if id in seen),
            rows=tuple(way.rows for way in leading),
            uncountable=untold(leading),
        )


def _sources(tables: Mapping[str, TableFacts], table_id: str) -> set[str]:
    """The tables that computed fields of a table are made of through any number of steps, and
    those that the links on the way lead to: whoever sees less of one of them sees less here."""
    found: set[str] = set()
    todo = [(table_id, field.id) for field in _fields(tables, table_id) if field.reads]
    seen = set(todo)
    while todo:
        here, field_id = todo.pop()
        for field in _fields(tables, here):
            if field.id != field_id:
                continue
            if field.linked_table_id is not None:
                found.add(field.linked_table_id)
            for source in field.reads or ():
                found.add(source[0])
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
    return found - {table_id}


def _fields(tables: Mapping[str, TableFacts], table_id: str) -> Sequence[FieldFacts]:
    return tables[table_id].fields if table_id in tables else ()


def _looked_up(run: Run, table: TableFacts, mine: Sequence[Entry]) -> list[str]:
    """Digests of what the table's own rules asked of this user and found: rights depend neither on
    what else the request is about, nor on cells that no rule for the user reads."""
    if not run.attributes:
        return []
    held = {entry.held for entry in mine}
    rules = [p for p in table.policies if any(names(run, role, p) for role in held)]
    asked = asked_by(entry.view.filter for entry in mine if entry.view is not None)
    asked = asked.union(*(policy.attributes(parsed_once(run, one).pred) for one in rules))
    found = ((one, values) for one, values in run.attributes.items() if one in asked)
    return sorted(keys.digest(repr(one), values) for one, values in found)


def _rights(run: Run, table: TableFacts, mine: Sequence[Entry], fields: Shown) -> str:
    """Over every way, what it shows, all the rules that name its rows, and what these may ask of
    the user."""
    return keys.digest(
        "rights",
        table.policy_default,
        [
            {"id": one.id, "subjects": one.subjects, "pred": one.pred, "mode": one.mode}
            for one in table.policies
        ],
        sorted(run.facts.team_ids),
        run.facts.user.email_norm if run.facts.user is not None else None,
        _looked_up(run, table, mine),
        [
            (
                {"id": entry.view.id, "filter": entry.view.filter, "hidden": entry.view.hidden}
                if entry.view is not None
                else None,
                entry.held,
                entry.role,
                sorted(fields[entry.key]),
            )
            for entry in mine
        ],
    )
