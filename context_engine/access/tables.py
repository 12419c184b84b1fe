"""Tables in sight and their views."""

from __future__ import annotations

from dataclasses import replace

from context_engine import keys, policy, view_filters
from context_engine.access.roles import TableRole, held_on, narrowed
from context_engine.access.rows import rows_in_sight
from context_engine.access.run import Run, reads_of, rows_of
from context_engine.access.visible import MAKER, VisibleTable, VisibleView
from context_engine.errors import InvalidRequest
from context_engine.facts import TableFacts, ViewFacts
from context_engine.keys import Tag
from context_engine.models.context import Unresolved
from context_engine.models.sections import Role


class Tables:
    """The tables of one run, each decided once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._by_id = {table.id: table for table in run.facts.tables}
        self._made: dict[str, VisibleTable | None] = {}

    def requested(self) -> tuple[VisibleTable, ...]:
        """The effective tables in sight; the others are noted as missing."""
        seen = []
        for table_id in self._run.at.table_ids:
            self._run.tell({keys.views(table_id)} | rows_of(table_id))
            table = self.one(table_id)
            if table is not None:
                self._run.tell(self.tags_of(table))
                seen.append(table)
            else:
                self._run.missing.append(Unresolved(coordinate="tableIds", id=table_id))
        return tuple(seen)

    def one(self, table_id: str) -> VisibleTable | None:
        """A table in sight. The answer depends on its tags; whoever shows it tells them too."""
        if table_id not in self._made:
            self._made[table_id] = made = self._decided(table_id)
            self._run.tags |= rows_of(table_id)
            if made is not None:
                self._run.tags |= self.tags_of(made)
        return self._made[table_id]

    def tags_of(self, table: VisibleTable) -> set[Tag]:
        """What the rows in sight of `table` depend on."""
        return rows_of(table.id) | reads_of(table.id, table.rows)

    def view(self) -> tuple[VisibleView | None, VisibleTable | None]:
        """The requested view, on one of the context's tables or, without tables, on its own."""
        run, at = self._run, self._run.at
        if at.view_id is None:
            return None, None
        run.tell({keys.ANY_VIEW})
        owner = next((t.id for t in run.facts.tables for v in t.views if v.id == at.view_id), None)
        if owner is not None and (not at.table_ids or owner in at.table_ids):
            run.tags.add(keys.views(owner))
            table = self.one(owner)
            for view in table.views if table else ():
                if table is not None and view.facts.id == at.view_id:
                    run.tell({keys.views(owner)} | self.tags_of(table))
                    run.tell(reads_of(owner, view.filter))
                    return self._looked_at(view), table
        run.absent("view", at.view_id)
        return None, None

    def _looked_at(self, view: VisibleView) -> VisibleView:
        """The view with its filter prepared, where that is in the language of views."""
        raw, run = view.facts.filter, self._run
        if not view_filters.is_stored(raw):
            return view
        made = view_filters.prepare(raw, view.table_id, run.now, self._sight)
        if isinstance(made, str):
            return replace(view, uncountable=made)
        for table_id in made.sights:
            run.tags |= rows_of(table_id)
        for table_id, name in made.reads:
            cells = {keys.value(table_id, name), keys.any_value(table_id)}
            run.tags |= cells
            if self.one(table_id) is not None:
                run.tell(rows_of(table_id) | cells)
        return replace(view, filter=True, where=made, uncountable=None)

    def _sight(self, table_id: str) -> view_filters.Sight | None:
        table = self.one(table_id)
        if table is None:
            return None
        return view_filters.Sight(frozenset(f.id for f in table.fields), table.rows)

    def _decided(self, table_id: str) -> VisibleTable | None:
        run, agents = self._run, self._run.facts.agents
        facts = self._by_id.get(table_id)
        if facts is None:
            run.deny(f"table {table_id}", "missing or trashed")
            return None
        held = held_on(run.facts, run.at.workspace_id, table_id)
        role = narrowed(held, agents)
        if any(a.table_ids is not None and table_id not in a.table_ids for a in agents):
            run.deny(f"table {table_id}", "agent stack")
            return None
        if role == "none":
            run.deny(f"table {table_id}", "role none")
            return None
        return _opened(run, facts, held, role)


def _opened(run: Run, facts: TableFacts, held: Role, role: TableRole) -> VisibleTable:
    # Policies name the role by which the way in is held, before the agents narrow it.
    rows = rows_in_sight(run, facts, held)
    field_ids = {f.id for f in facts.fields}
    views = tuple(
        _visible(run, facts, view, field_ids)
        for view in facts.views
        if _in_sight(view, role, run.at.user_id)
    )
    return VisibleTable(
        maker=MAKER,
        id=facts.id,
        name=facts.name,
        permission=role,
        fields=facts.fields,
        views=views,
        rows=rows,
        rights=keys.digest(
            "rights", held, role, facts.policy_default,
            [p.model_dump(mode="json") for p in facts.policies], sorted(run.facts.team_ids),
        ),
    )  # fmt: skip


def _in_sight(view: ViewFacts, role: Role, user_id: str) -> bool:
    match view.ownership:
        case "collaborative":
            return True
        case "personal":
            return view.owner_id == user_id
        case "restricted":
            return role == "admin"
        case _:
            return False


def _visible(run: Run, facts: TableFacts, view: ViewFacts, field_ids: set[str]) -> VisibleView:
    shown = [f for f in view.field_order if f in field_ids and f not in view.hidden]
    rest = sorted(field_ids - set(view.field_order) - set(view.hidden))
    made = VisibleView(maker=MAKER, facts=view, table_id=facts.id, field_ids=(*shown, *rest))
    if view.filter is None:
        return made
    if view_filters.is_stored(view.filter):
        return replace(made, filter=False, uncountable=view_filters.NOT_COMPUTED)
    try:
        return replace(made, filter=run.resolved(policy.parse(view.filter), facts))
    except (InvalidRequest, policy.Unresolvable):
        return replace(made, filter=False, uncountable="the filter cannot be computed")
