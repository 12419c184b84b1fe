"""Why a user sees something or does not: the rules of `resolve`, told one by one, in order.

For operators only: unlike answers, it tells what is hidden from what is missing. It decides
nothing: every verdict is what the same functions make of the same facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from context_engine.access.roles import held_on
from context_engine.access.run import Attributes, Run
from context_engine.access.tables import Tables
from context_engine.access.telling import Holds, Question, Step, Stored, Told, verdict
from context_engine.access.telling_fields import Fields
from context_engine.access.telling_roles import (
    agent_stack,
    membership,
    narrowing,
    table_role,
    workspace_role,
)
from context_engine.access.telling_views import Views, sees
from context_engine.access.telling_ways import Ways, holding, named
from context_engine.access.visible import VisibleTable
from context_engine.access.ways import Entry, entries
from context_engine.facts import Facts, TableFacts
from context_engine.keys import Coordinates
from context_engine.view_filters import RowSet


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rules of one question. Some want to know which rows hold the record."""

    told: tuple[Told, ...]
    tests: Mapping[str, RowSet]
    """What to ask the database of a record: whether it is among these rows, by name."""

    def steps(self, holds: Holds) -> tuple[Step, ...]:
        """In order, the verdicts last. `holds`: the answers to `tests`; {} without a record."""
        return tuple(one if isinstance(one, Step) else one(holds) for one in self.told)


def explain(
    facts: Facts,
    question: Question,
    stored: Stored,
    *,
    attributes: Attributes,
    now: datetime | None = None,
) -> Explanation:
    """Walks the rules for `question`.

    `facts`: with the table among its tables, whether a right leads into it or not. `stored`: what
    lies under the ids asked for, whoever may see it. `attributes`, `now`: as for `resolve`.
    """
    at = coordinates_of(question)
    walk = _Walk(
        question, stored, Run(facts, at, now or facts.now or datetime.now(UTC), attributes)
    )
    told = tuple(walk.all())
    return Explanation(told, walk.tests)


def coordinates_of(question: Question) -> Coordinates:
    """Where a question stands, as a request would say it."""
    return Coordinates(
        question.workspace_id,
        question.user_id,
        table_ids=(question.table_id,),
        view_id=question.view_id,
        agent_stack=question.agent_stack,
    )


@dataclass
class _Walk:
    question: Question
    stored: Stored
    run: Run
    tests: dict[str, RowSet] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        return self.run.facts

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.run, self.facts.agents)

    @cached_property
    def table(self) -> VisibleTable | None:
        return self.tables.one(self.question.table_id)

    @property
    def known(self) -> TableFacts | None:
        return self.run.tables.get(self.question.table_id)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The ways into the table by role, those that show no field too."""
        found = entries(self.facts, self.facts.agents, self.question.workspace_id)
        return tuple(entry for entry in found if entry.table.id == self.question.table_id)

    # -- in order ----------------------------------------------------------------------------

    def all(self) -> Iterator[Told]:
        """Ends with what shuts out everything: who is no member has no more to be told."""
        people = [membership(self.facts, self.run.at)]
        if people[0].outcome == "lets in":
            people += workspace_role(self.facts, self.run.at)
            people += agent_stack(self.facts, self.run.at)
        yield from people
        alone = [people[0], *(one for one in people if one.step.startswith("agent "))]
        fatal = next((one for one in alone if one.outcome == "shuts out"), None)
        if fatal is None:
            yield (there := self._stored_table())
            fatal = there if there.outcome == "shuts out" else None
        if fatal is not None or self.known is None:
            why = fatal.because if fatal is not None else "nothing of it could be read"
            yield verdict(f"table {self.question.table_id}", False, why)
            return
        yield from self._of_table(self.known)

    def _of_table(self, table: TableFacts) -> Iterator[Told]:
        at = self.run.at
        yield from table_role(self.facts, at, table.id)
        yield from narrowing(
            self.facts.agents, table.id, held_on(self.facts, at.workspace_id, table.id)
        )
        ways = Ways(self.run, self.tables, self.entries, self.tests)
        fields, views = Fields(ways), Views(ways, self.table)
        yield from views.ways_in(table)
        for entry in self.entries:
            yield from fields.shown(entry, self.question.field_id)
            yield from ways.rows(entry)
        if self.question.view_id is not None:
            yield from views.asked(table, self.question.view_id, self.stored.view)
        yield from self._verdicts()

    def _stored_table(self) -> Step:
        place, id = self.stored.table, self.question.table_id
        if place is None:
            return Step("table", "shuts out", f"there is no table {id!r}", missing=True)
        if place.workspace_id != self.question.workspace_id:
            because = f"{id!r} is in the workspace {place.workspace_id!r}"
            return Step("table", "shuts out", because, missing=True)
        if place.gone:
            return Step("table", "shuts out", f"{id!r} is trashed")
        return Step("table", "lets in", f"{id!r} is there")

    # -- verdicts ----------------------------------------------------------------------------

    def _verdicts(self) -> Iterator[Told]:
        table, asked = self.table, self.question
        ways = [named(entry) for entry in self.entries if self._is_way(entry)]
        because = f"by {', '.join(ways)}" if ways else "no way leads into it"
        yield verdict(f"table {asked.table_id}", table is not None, because)
        if asked.view_id is not None:
            yield self._view_verdict(asked.view_id)
        if asked.field_id is not None:
            yield self._field_verdict(asked.field_id)
        if asked.record_id is not None:
            yield self._record_verdict(asked.record_id, asked.field_id)

    def _is_way(self, entry: Entry) -> bool:
        view_id = entry.view.id if entry.view is not None else None
        return self.table is not None and any(w.view_id == view_id for w in self.table.ways)

    def _view_verdict(self, view_id: str) -> Step:
        what, seen = f"view {view_id}", sees(self.table, view_id)
        if self.known is None or all(one.id != view_id for one in self.known.views):
            return verdict(what, False, "it is not among the table's views")
        if self.table is None:
            return verdict(what, False, "its table is out of sight")
        return verdict(what, seen, "by its ownership and the grants on it")

    def _field_verdict(self, field_id: str) -> Step:
        what = f"field {field_id}"
        if field_id not in (self.run.fields_of(self.question.table_id) or {}):
            place = self.stored.field
            where = f"; it is one of table {place.table_id!r}" if place is not None else ""
            because = f"there is no field {field_id!r} of this table{where}"
            return verdict(what, False, because, missing=True)
        seen = self.table is not None and self.table.shows(field_id)
        return verdict(what, seen, "shown by a way" if seen else "shown by no way")

    def _record_verdict(self, record_id: str, field_id: str | None) -> Told:
        what = f"record {record_id}" if field_id is None else f"cell {record_id}, {field_id}"
        place, table = self.stored.record, self.table
        if place is None:
            return verdict(what, False, f"there is no record {record_id!r}", missing=True)
        if place.table_id != self.question.table_id:
            because = f"it is a record of table {place.table_id!r}"
            return verdict(what, False, because, missing=True)
        if place.gone:
            return verdict(what, False, "the record is deleted")
        if table is None:
            return verdict(what, False, "its table is out of sight")

        def told(holds: Holds) -> Step:
            held = holding(table, holds)
            if field_id is not None:
                held = [way for way in held if field_id in way.field_ids]
            by = ", ".join(way.view_id or "the table's own way" for way in held)
            return verdict(what, bool(held), f"held by {by}" if held else "held by no way")

        return told
