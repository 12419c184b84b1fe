"""Exported rows: their cells, and the links between them, both sides in agreement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue
from pydantic_core import to_json

from context_engine.adapters.baserow.cells import Convert, Wrong, converter, time_of
from context_engine.adapters.baserow.model import Field, Schema, Table
from context_engine.adapters.baserow.source import AGAIN, At, distinct, spelled
from context_engine.errors import BrokenFile
from context_engine.loading import NewLink, NewRow, Progress

EVERY = 2_000
"""Rows between two reports of progress."""

LOST: Mapping[str, str] = {
    "formula": "a formula, whose values are not in the file",
    "file": "files, whose bytes are not in the file",
    "password": "passwords, which are not in the file",
}

Pairs = dict[tuple[int, int], str]
"""Which row of a field links to which, and where the file says so first."""


@dataclass(slots=True)
class Rows:
    """What was read so far."""

    rows: list[NewRow] = field(default_factory=list)
    ids: dict[int, set[int]] = field(default_factory=dict)
    """Ids of each table's rows."""
    pairs: dict[int, Pairs] = field(default_factory=lambda: defaultdict(dict))
    """Links by field."""


def read_rows(schema: Schema, total: int, progress: Progress) -> Rows:
    """The rows of every table, their links gathered and not looked at. Raises `BrokenFile`."""
    found = Rows()
    for table in schema.tables:
        for row in _rows_of(table, schema, found):
            found.rows.append(row)
            if len(found.rows) % EVERY == 0:
                progress("reading", len(found.rows), total)
    progress("reading", total, total)
    return found


def _rows_of(table: Table, schema: Schema, found: Rows) -> Iterator[NewRow]:
    plan = [(one, f"field_{one.id}", schema.field(one.id), converter(one)) for one in table.fields]
    kept = [(name, key, convert) for _, name, key, convert in plan if convert is not None]
    links = [(one, name) for one, name, _, _ in plan if one.link_table is not None]
    filled: Counter[int] = Counter()
    ids = found.ids[table.id] = set[int]()
    table_id = schema.table(table.id)
    unkept = [(one, name) for one, name, _, c in plan if c is None and one.link_table is None]
    for at in table.at.objects("rows"):
        id = distinct(ids, at, "row")
        for one, name in links:
            _gather(found.pairs[one.id], id, at.raw.get(name), at, name)
        filled.update(one.id for one, name in unkept if at.raw.get(name) not in (None, "", []))
        yield NewRow(
            id=schema.row(table.id, id),
            table_id=table_id,
            cells=_cells(at, kept),
            created_by=at.optional_text("created_by"),
            updated_by=at.optional_text("last_modified_by"),
            created_at=_time(at, "created_on"),
            updated_at=_time(at, "updated_on"),
        )
    for one, _ in unkept:
        _report_lost(one, table, schema, len(ids) if one.type == "formula" else filled[one.id])


def _cells(at: At, kept: list[tuple[str, str, Convert]]) -> str:
    """The row's cells as JSON text."""
    cells: dict[str, JsonValue] = {}
    name = ""
    try:
        for name, id, convert in kept:
            value = at.raw.get(name)
            if value is not None and (stored := convert(value)) is not None:
                cells[id] = stored
    except Wrong as fault:
        raise at.broken(name, str(fault)) from fault
    return to_json(cells).decode()


def _time(at: At, name: str) -> datetime | None:
    value = at.raw.get(name)
    try:
        return None if value is None else time_of(value)
    except Wrong as fault:
        raise at.broken(name, str(fault)) from fault


def _gather(pairs: Pairs, id: int, value: JsonValue, at: At, name: str) -> None:
    if value is None:
        return
    if not isinstance(value, list):
        raise at.broken(name, f"should be a list of row ids; {AGAIN}")
    place = f"{at.place}.{name}"
    for to in value:
        if not isinstance(to, int) or isinstance(to, bool):
            raise at.broken(name, f"{spelled(to)} is no row id; {AGAIN}")
        pairs[id, to] = place


def _report_lost(one: Field, table: Table, schema: Schema, filled: int) -> None:
    if one.type in LOST:
        schema.gap(table, LOST[one.type], field=one, cells=filled)
    elif one.type not in ("lookup", "rollup", "count", "created_on", "last_modified"):
        schema.gap(table, f"a {one.type}, a type that is not known here", field=one, cells=filled)


# -- links -------------------------------------------------------------------------------------


def read_links(schema: Schema, found: Rows) -> list[NewLink]:
    """Every link, on both sides of the fields that have two. Raises `BrokenFile` for one that
    leads nowhere.

    A row that was deleted leaves its id behind in the cells that linked to it, in exports too.
    An id that cells of two fields agree on is taken for such a row: its links are left out and
    reported. One that a single field has is damage.
    """
    tables = {table.id: table for table in schema.tables}
    deleted = _deleted(schema, found)
    links: list[NewLink] = []
    for one in (f for table in schema.tables for f in table.fields):
        if one.link_table is None:
            continue
        pairs = found.pairs[one.id]
        dead = [pair for pair in pairs if (one.link_table, pair[1]) in deleted]
        for pair in dead:
            del pairs[pair]
        if dead:
            what = "links to rows that were deleted"
            schema.gap(tables[one.table], what, field=one, cells=len(dead))
        missing = _of_other_side(one, schema, found)
        if missing:
            what = "links that only the other side had: both have them here"
            schema.gap(tables[one.table], what, field=one, cells=len(missing))
        field_id = schema.field(one.id)
        a, b = one.table, one.link_table
        links += [
            NewLink(field_id, schema.row(a, x), schema.row(b, y)) for x, y in [*pairs, *missing]
        ]
    return links


def _deleted(schema: Schema, found: Rows) -> set[tuple[int, int]]:
    """Rows (table, id) that are not in the file and that cells of two fields or more name."""
    named: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for one in schema.fields.values():
        if one.link_table is None:
            continue
        there = found.ids[one.link_table]
        for (_, to), place in found.pairs[one.id].items():
            if to not in there:
                named[one.link_table, to].setdefault(one.id, place)
    for (table, id), places in named.items():
        if len(places) == 1:
            raise BrokenFile(
                next(iter(places.values())),
                f"leads nowhere: table {table} has no row {id}; remove the id, or {AGAIN}",
            )
    return set(named)


def _of_other_side(one: Field, schema: Schema, found: Rows) -> list[tuple[int, int]]:
    """Links that the field on the other side has and this one lacks."""
    if one.link_back is None or one.link_back == one.id:
        return []
    back, here = found.pairs[one.link_back], found.pairs[one.id]
    ids, there = found.ids[one.table], found.ids[schema.fields[one.link_back].table]
    return [(b, a) for a, b in back if (b, a) not in here and b in ids and a in there]
