"""Explained: restricted views as ways in, and the view that is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from context_engine.access.roles import granted
from context_engine.access.telling import Place, Step, Told, lets_in
from context_engine.access.telling_roles import view_grants
from context_engine.access.telling_ways import Ways
from context_engine.access.visible import VisibleTable, VisibleView
from context_engine.facts import Facts, TableFacts, ViewFacts
from context_engine.view_filters import RowSet


@dataclass(frozen=True, slots=True)
class Views:
    """Tells of the views of one table."""

    ways: Ways
    table: VisibleTable | None
    """The table as the user sees it."""

    @property
    def _facts(self) -> Facts:
        return self.ways.run.facts

    def ways_in(self, table: TableFacts) -> Iterator[Step]:
        """Restricted views with a grant, each a way of its own; a grant on another adds none."""
        through = {entry.view.id for entry in self.ways.entries if entry.view is not None}
        for view in table.views:
            role = granted(self._facts, "view", view.id)
            if role is None:
                continue
            yield from view_grants(self._facts, view.id)
            step = f"way by view {view.id}"
            if view.id in through:
                yield Step(step, "lets in", f"a restricted view, held as {role}")
            elif view.ownership != "restricted":
                yield Step(step, "no effect", f"a {view.ownership} view is no way in")
            else:
                because = f"the role {role} does not let in, or the agents do not"
                yield Step(step, "shuts out", because)

    def asked(self, table: TableFacts, view_id: str, place: Place | None) -> Iterator[Told]:
        """The view of the question; `place`: where that id lies, whoever may see it."""
        view = next((one for one in table.views if one.id == view_id), None)
        if view is None:
            where = f", but one of table {place.table_id!r}" if place is not None else ""
            because = f"there is no view {view_id!r} of this table{where}"
            yield Step("view", "shuts out", because, missing=True)
            return
        yield self._ownership(view)
        made, _ = self.ways.tables.view()
        if made is not None:
            yield self._filter(made)

    def _ownership(self, view: ViewFacts) -> Step:
        step = f"view {view.id}"
        if granted(self._facts, "view", view.id) == "none":
            return Step(step, "shuts out", "a grant of none hides it, from ADMINs too")
        match view.ownership:
            case "collaborative":
                who = "all with the table's own way"
            case "personal":
                who = f"its owner {view.owner_id!r}, with the table's own way"
            case "restricted":
                who = "who has a grant on it, and ADMINs of the table"
            case _:
                who = "nobody"
        return Step(step, lets_in(sees(self.table, view.id)), f"{view.ownership}: for {who}")

    def _filter(self, view: VisibleView) -> Told:
        step = f"filter of view {view.facts.id}"
        if view.uncountable is not None:
            return Step(step, "no effect", f"it has no count: {view.uncountable}")
        if view.facts.filter is None:
            return Step(step, "no effect", "there is none")
        return self.ways.view_filter(step, RowSet(view.filter, view.where), view.facts.filter)


def sees(table: VisibleTable | None, view_id: str) -> bool:
    return table is not None and any(view.facts.id == view_id for view in table.views)
