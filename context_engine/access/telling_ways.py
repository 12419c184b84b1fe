"""Explained: the ways into a table, the fields that each shows and the rows that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from context_engine import policy
from context_engine.access.roles import Level, field_level
from context_engine.access.rows import boundary_of, policy_for
from context_engine.access.run import Run
from context_engine.access.tables import Tables
from context_engine.access.telling import Holds, Outcome, Step, Told, listed, quoted
from context_engine.access.visible import VisibleTable, Way
from context_engine.access.ways import Entry
from context_engine.facts import FieldFacts, PolicyFacts
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

    # -- fields ------------------------------------------------------------------------------

    def fields(self, entry: Entry, field_id: str | None) -> Iterator[Step]:
        """Which fields a way shows; or for one field, by which rule."""
        name, way = named(entry), self.way_of(entry)
        if field_id is not None:
            one = next((f for f in entry.table.fields if f.id == field_id), None)
            if one is not None:
                yield from self._field(entry, way, one)
            return
        every = entry.table.fields
        hidden = [
            f"{f.id} ({self._hidden_by(entry, f)})"
            for f in every
            if way is None or f.id not in way.field_ids
        ]
        shown = f"{len(every) - len(hidden)} of {len(every)} fields; hidden: {listed(hidden)}"
        if way is None:
            yield Step(f"fields of {name}", "shuts out", f"{shown}; without fields it is no way in")
        else:
            yield Step(f"fields of {name}", "narrows" if hidden else "lets in", shown)

    def _field(self, entry: Entry, way: Way | None, one: FieldFacts) -> Iterator[Step]:
        name = named(entry)
        if entry.view is not None:
            hides = one.id in entry.view.hidden
            yield Step(
                f"hidden fields of {name}",
                "shuts out" if hides else "no effect",
                "the view hides the field, a boundary here"
                if hides
                else "the view shows the field",
            )
        yield from _permissions(entry, one)
        yield from self._sources(entry, way, one)
        seen = way is not None and one.id in way.field_ids
        yield Step(
            f"field {one.id} by {name}",
            "lets in" if seen else "shuts out",
            "shown" if seen else self._hidden_by(entry, one),
        )

    def _hidden_by(self, entry: Entry, one: FieldFacts) -> str:
        if entry.view is not None and one.id in entry.view.hidden:
            return "hidden in the view"
        if field_level(entry.table.field_permissions, one.id, entry.held) == "none":
            return "field permission none"
        if one.reads is None:
            return "nobody knows what it is made of"
        return "made of what is out of sight"

    def _sources(self, entry: Entry, way: Way | None, one: FieldFacts) -> Iterator[Step]:
        """What a computed field is made of must show as well."""
        if one.reads is None:
            step = f"sources of {one.id} by {named(entry)}"
            yield Step(step, "shuts out", "a computed field, and what it is made of is not known")
            return
        lifted = field_level(entry.table.field_permissions, one.id, entry.held) is not None
        for table_id, field_id in one.reads:
            seen = self._source_seen(entry, way, table_id, field_id)
            told = f"{field_id} of {table_id} is {'in sight' if seen else 'out of sight'}"
            if not seen and lifted and table_id == entry.table.id:
                told += "; a permission on the field lifts what permissions of its table hide"
                seen = way is not None and one.id in way.field_ids
            step = f"source {field_id} of {one.id} by {named(entry)}"
            yield Step(step, "lets in" if seen else "shuts out", told)

    def _source_seen(self, entry: Entry, way: Way | None, table_id: str, field_id: str) -> bool:
        source = (self.run.fields_of(table_id) or {}).get(field_id)
        if source is None:
            return False
        if source.linked_table_id and self.tables.one(source.linked_table_id) is None:
            return False
        if table_id == entry.table.id:
            return way is not None and field_id in way.field_ids
        table = self.tables.one(table_id)
        return table is not None and table.shows(field_id)

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
        for stored in entry.table.policies:
            yield self._policy(entry, stored)
        if way.uncountable is not None:
            yield Step(f"rows of {name}", "shuts out", f"none: {way.uncountable}")
            return
        yield self._asked(
            f"rows of {name}", way.rows, "by this way its rows are those that all of it lets in"
        )

    def _boundary(self, entry: Entry) -> Told:
        assert entry.view is not None
        step = f"boundary of {named(entry)}"
        found = boundary_of(self.run, entry.table, entry.view)
        if isinstance(found, str):
            return Step(step, "shuts out", f"its filter gives no rows: {found}")
        if entry.view.filter is None:
            return Step(step, "lets in", "the view has no filter: every row")
        return self._asked(step, found, f"its filter: {quoted(entry.view.filter)}")

    def _policy(self, entry: Entry, stored: PolicyFacts) -> Told:
        step = f"policy {stored.id} for {named(entry)}"
        before = len(self.run.faults)
        found = policy_for(self.run, entry.table, entry.held, stored)
        if len(self.run.faults) > before:
            why = self.run.faults[-1].rule
            return Step(step, "shuts out", f"cannot be used, and so closes the table: {why}")
        if found is None:
            return Step(step, "no effect", f"names only {_subjects(stored)}; held as {entry.held}")
        mode, pred = found
        text = f"{mode}, names {_subjects(stored)}: {quoted(stored.pred)}"
        if mode == "permissive" and entry.view is not None:
            return Step(step, "no effect", f"{text}; a permissive one opens no view")
        if mode == "permissive" and entry.table.policy_default == "show_all":
            return Step(step, "no effect", f"{text}; every row is shown already")
        missed: Outcome = "shuts out" if mode == "restrictive" else "no effect"
        return self._asked(step, RowSet(pred), text, missed=missed)

    def _asked(self, step: str, rows: RowSet, text: str, *, missed: Outcome = "shuts out") -> Told:
        """A step that says of the record whether it is among `rows`, or of the rows in general."""
        self.tests[step] = rows

        def told(holds: Holds) -> Step:
            match holds.get(step):
                case None:
                    return Step(step, _in_general(rows), text)
                case True:
                    return Step(step, "lets in", f"{text}; it holds the record")
                case _:
                    return Step(step, missed, f"{text}; it does not hold the record")

        return told

    def view_filter(self, step: str, rows: RowSet, text: str) -> Told:
        """The filter of the view looked at: presentation, which takes nothing out of sight."""
        return self._asked(step, rows, text, missed="narrows")


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


def _default(entry: Entry) -> Step:
    step = f"default for {named(entry)}"
    match entry.table.policy_default:
        case "show_all":
            return Step(step, "lets in", "show_all: every row that no restrictive policy closes")
        case "deny_all":
            return Step(step, "shuts out", "deny_all: no row that no permissive policy opens")
        case unknown:
            return Step(step, "shuts out", f"the default {unknown!r} is not known: no row")


def _permissions(entry: Entry, one: FieldFacts) -> Iterator[Step]:
    """Every permission on the field that names the user, and which of them decides."""
    name, held = named(entry), entry.held
    mine = [
        p
        for p in entry.table.field_permissions
        if p.field_id == one.id and (p.subject_type != "role" or p.subject_id == held)
    ]
    level = field_level(entry.table.field_permissions, one.id, held)
    if not mine:
        because = f"none names the user, held as {held}: the role decides"
        yield Step(f"permissions on {one.id} for {name}", "no effect", because)
        return
    mine.sort(key=lambda p: (_NEARNESS[p.subject_type], p.subject_id))
    for p in mine:
        step = f"permission on {one.id} to {p.subject_type} {p.subject_id} for {name}"
        if p.subject_type != mine[0].subject_type or p.level != level:
            yield Step(step, "no effect", f"{p.level}: another permission goes before it")
        else:
            yield Step(step, _LEVELS[p.level], p.level)


_NEARNESS = {"user": 0, "team": 1, "role": 2}
_LEVELS: dict[Level, Outcome] = {"none": "shuts out", "read": "narrows", "write": "lets in"}


def _subjects(stored: PolicyFacts) -> str:
    """Whom a policy names, as far as that can be read."""
    try:
        read = policy.TablePolicies.model_validate(
            {"policies": [{"subjects": stored.subjects, "pred": True, "mode": "restrictive"}]}
        )
    except ValidationError:
        return "nobody that can be read"
    return listed([f"{s.type} {s.id}" for s in read.policies[0].subjects])
