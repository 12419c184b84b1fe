"""Links in sight: those of the tables of a context, and one step out."""

from __future__ import annotations

from collections.abc import Iterator

from context_engine import keys
from context_engine.access.run import Run
from context_engine.access.tables import Tables
from context_engine.access.visible import MAKER, VisibleLink, VisibleTable
from context_engine.facts import FieldFacts


def links_in_sight(
    run: Run, tables: Tables, requested: tuple[VisibleTable, ...]
) -> tuple[VisibleLink, ...]:
    """Every link field in sight of the requested tables, then those that lead into them from
    others and have no field on this side."""
    return (*_leaving(run, tables, requested), *_arriving(run, tables, requested))


def _leaving(
    run: Run, tables: Tables, requested: tuple[VisibleTable, ...]
) -> Iterator[VisibleLink]:
    for table in requested:
        for field in table.fields:
            if field.linked_table_id is not None:
                yield _link(run, tables, table, field, field.linked_table_id)


def _arriving(
    run: Run, tables: Tables, requested: tuple[VisibleTable, ...]
) -> Iterator[VisibleLink]:
    here = {table.id for table in requested}
    for facts in run.facts.tables:
        leading = [
            field
            for field in facts.fields
            if field.linked_table_id in here and field.linked_field_id is None
        ]
        if facts.id in here or not leading:
            continue
        table = tables.one(facts.id, counted=False)
        if table is None:
            continue
        tables.tell_of(table, counted=False)
        for field in leading:
            if field.linked_table_id is not None and table.shows(field.id):
                yield _link(run, tables, table, field, field.linked_table_id)


def _link(
    run: Run, tables: Tables, table: VisibleTable, field: FieldFacts, target_id: str
) -> VisibleLink:
    run.tell({keys.value(table.id, field.id)})
    target = tables.one(target_id, counted=False)
    if target is None:
        return VisibleLink(maker=MAKER, table=table, field=field, target=None, ends=(), back=None)
    tables.tell_of(target, counted=False)
    back = next(
        (f for f in (run.fields_of(target_id) or {}).values() if f.id == field.linked_field_id),
        None,
    )
    return VisibleLink(
        maker=MAKER,
        table=table,
        field=field,
        target=target,
        # Where the other side has a field, a link is seen there by a way that shows it.
        ends=target.ways if back is None else target.ways_showing((back.id,)),
        back=back if back is not None and target.shows(back.id) else None,
    )
