"""Explained: the ways into a table, and the rows that each holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, ValidationError

from context_engine import policy
from context_engine.access.rows import Late, boundary_of, policy_for
from context_engine.access.run import Run
from context_engine.access.tables import Tables
from context_engine.access.telling import Holds, Outcome, Step, Told, listed
from context_engine.access.visible import VisibleTable, Way
from context_engine.access.ways import Entry
from context_engine.facts import PolicyFacts
from context_engine.view_filters import RowSet


@dataclass(frozen=True, slots=True)
class Ways:
    """Tells of the ways into one table, and collects what is to be asked of a record."""

    run: Run
    tables: Tables
    entries: Sequence[Entry]
    """All ways by role, those that show no field too."""
    tests: dict[str, RowSet] = field(default_factory=dict)

    def way_of(self, entry: Entry) -> Way | None:
        """The way in that an entry is; None for one that shows no field."""
        table = self.tables.one(entry.table.id)
        view_id = entry.view.id if entry.view is not None else None
        ways = table.ways if table is not None else ()
        return next((way for way in ways if way.view_id == view_id), None)

    # -- rows --------------------------------------------------------------------------------

    def rows(self, entry: Entry) -> Iterator[Told]:
        """The rows of a way: default or boundary, then every policy, then what comes of them."""
        way = self.way_of(entry)
        if way is None:
            return
        name = named(entry)
        if entry.view is None:
            yield _default(entry)
        else:
            yield self._boundary(entry)
        policies = entry.table.policies
        for place, stored in enumerate(policies, start=1):
            # Its place is the one that `policy get` shows; the id is chosen by nobody.
            step = f"policy {place} of {len(policies)} for {name}"
            yield self._policy(step, entry, stored)
        if way.uncountable is not None:
            yield Step(f"rows of {name}", "shuts out", f"none: {way.uncountable}")
            return
        yield self._asked(f"rows of {name}", way.rows, _rows_words(way.rows))

    def _boundary(self, entry: Entry) -> Told:
        assert entry.view is not None
        step = f"boundary of {named(entry)}"
        try:
            found = boundary_of(self.run, entry.table, entry.view)
        except Late as late:
            return Step(step, "shuts out", str(late), entry.view.filter)
        if isinstance(found, str):
            return Step(step, "shuts out", f"its filter gives no rows: {found}")
        if entry.view.filter is None:
            return Step(step, "lets in", "the view has no filter: every row")
        return self._asked(step, found, "its filter", rule=entry.view.filter)

    def _policy(self, step: str, entry: Entry, stored: PolicyFacts) -> Told:
        before = len(self.run.faults)
        try:
            found = policy_for(self.run, entry.table, entry.held, stored)
        except Late as late:
            return Step(step, "shuts out", str(late), stored.pred)
        if len(self.run.faults) > before:
            why = f"{self.run.faults[-1].rule}; stored as {stored.id}"
            text = f"cannot be used, and so closes the table: {why}"
            return Step(step, "shuts out", text, stored.pred)
        if found is None:
            return Step(step, "no effect", f"names only {_subjects(stored)}; held as {entry.held}")
        mode, pred = found
        text = f"{mode}, names {_subjects(stored)}"
        if mode == "permissive" and entry.view is not None:
            return Step(step, "no effect", f"{text}; a permissive one opens no view", stored.pred)
        if mode == "permissive" and entry.table.policy_default == "show_all":
            return Step(step, "no effect", f"{text}; every row is shown already", stored.pred)
        missed: Outcome = "shuts out" if mode == "restrictive" else "no effect"
        return self._asked(step, RowSet(pred), text, rule=stored.pred, missed=missed)

    def _asked(
        self,
        step: str,
        rows: RowSet,
        text: str,
        *,
        rule: JsonValue = None,
        missed: Outcome = "shuts out",
    ) -> Told:
        """A step that says of the record whether it is among `rows`, or of the rows in general."""
        self.tests[step] = rows

        def told(holds: Holds) -> Step:
            match holds.get(step):
                case None:
                    return Step(step, _in_general(rows), text, rule)
                case True:
                    return Step(step, "lets in", f"{text}; it holds the record", rule)
                case _:
                    return Step(step, missed, f"{text}; it does not hold the record", rule)

        return told

    def view_filter(self, step: str, rows: RowSet, rule: JsonValue) -> Told:
        """The filter of the view looked at: presentation, which takes nothing out of sight."""
        return self._asked(step, rows, "presentation only", rule=rule, missed="narrows")


def named(entry: Entry) -> str:
    return "the table's own way" if entry.view is None else f"the way by view {entry.view.id}"


def holding(table: VisibleTable, holds: Holds) -> list[Way]:
    """The ways that hold the record."""
    return [way for way in table.ways if holds.get(_rows_test(way))]


def _rows_test(way: Way) -> str:
    by = "the table's own way" if way.view_id is None else f"the way by view {way.view_id}"
    return f"rows of {by}"


def _in_general(rows: RowSet) -> Outcome:
    if rows.where is not None:
        return "narrows"
    if rows.pred is True:
        return "lets in"
    return "shuts out" if rows.pred is False else "narrows"


def _rows_words(rows: RowSet) -> str:
    """What comes of all rules above it."""
    match _in_general(rows):
        case "lets in":
            return "every row"
        case "shuts out":
            return "no row"
        case _:
            return "the rows that the rules above leave"


def _default(entry: Entry) -> Step:
    step = f"default for {named(entry)}"
    match entry.table.policy_default:
        case "show_all":
            return Step(step, "lets in", "show_all: every row that no restrictive policy closes")
        case "deny_all":
            return Step(step, "shuts out", "deny_all: no row that no permissive policy opens")
        case unknown:
            return Step(step, "shuts out", f"the default {unknown!r} is not known: no row")


def _subjects(stored: PolicyFacts) -> str:
    """Whom a policy names, as far as that can be read."""
    try:
        read = policy.TablePolicies.model_validate(
            {"policies": [{"subjects": stored.subjects, "pred": True, "mode": "restrictive"}]}
        )
    except ValidationError:
        return "nobody that can be read"
    return listed([f"{s.type} {s.id}" for s in read.policies[0].subjects])
