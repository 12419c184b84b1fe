"""Explained: the fields that a way into a table shows, and which rule hides the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from context_engine.access.roles import Level, field_level
from context_engine.access.telling import Outcome, Step, listed
from context_engine.access.telling_ways import Ways, named
from context_engine.access.visible import Way
from context_engine.access.ways import Entry
from context_engine.facts import FieldFacts


@dataclass(frozen=True, slots=True)
class Fields:
    """Tells of the fields of each way."""

    ways: Ways

    def shown(self, entry: Entry, field_id: str | None) -> Iterator[Step]:
        """Which fields a way shows; or for one field, by which rule."""
        name, way = named(entry), self.ways.way_of(entry)
        if field_id is not None:
            one = next((f for f in entry.table.fields if f.id == field_id), None)
            if one is not None:
                yield from self._of(entry, way, one)
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

    def _of(self, entry: Entry, way: Way | None, one: FieldFacts) -> Iterator[Step]:
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
        source = (self.ways.run.fields_of(table_id) or {}).get(field_id)
        if source is None:
            return False
        if source.linked_table_id and self.ways.tables.one(source.linked_table_id) is None:
            return False
        if table_id == entry.table.id:
            return way is not None and field_id in way.field_ids
        table = self.ways.tables.one(table_id)
        return table is not None and table.shows(field_id)


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
