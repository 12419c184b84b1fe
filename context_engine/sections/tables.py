"""Tables and their relations: samples and counts, never records."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.access import VisibleScope, VisibleTable, VisibleView
from context_engine.facts import FieldFacts
from context_engine.models.sections import (
    SAMPLED_FIELDS,
    SAMPLED_VIEWS,
    Count,
    FieldSample,
    Relation,
    TableSection,
    ViewSample,
)
from context_engine.ports import Counts
from context_engine.sections.base import NOT_ASKED, NOT_FOUND, Section, included

TOLD = 3
"""Tables whose trimmings the trace tells one by one."""

UNCOUNTED = Count.missing("not counted")


def build_tables(scope: VisibleScope, counts: Counts) -> Section[tuple[TableSection, ...]]:
    """Every effective table, in the order asked for."""
    tables = tuple(build_table(table, scope.view, counts) for table in scope.tables)
    if not tables:
        asked = any(one.coordinate == "tableIds" for one in scope.absent)
        return Section(tables, "absent", NOT_FOUND if asked else NOT_ASKED)
    missing = [t.record_count.unavailable for t in tables if t.record_count.unavailable]
    if missing:
        return Section(tables, "unavailable", f"records: {missing[0]}")
    cut = [t for t in tables if len(t.fields) < t.field_count or len(t.views) < t.view_count]
    return Section(tables, "trimmed", _trimmings(cut)) if cut else included(tables)


def _trimmings(cut: list[TableSection]) -> str:
    """What was left out of the first few of these tables, and how many more were cut."""
    told = [
        f"{t.id}: {len(t.fields)} of {t.field_count} fields, {len(t.views)} of {t.view_count} views"
        for t in cut[:TOLD]
    ]
    return "; ".join(told) + (f"; {len(cut) - TOLD} more tables" if len(cut) > TOLD else "")


def build_table(table: VisibleTable, view: VisibleView | None, counts: Counts) -> TableSection:
    """One table: at most 12 fields and 6 views, and the number of records in sight."""
    current = view if view is not None and view.table_id == table.id else None
    fields = sampled_fields(table.fields, current)
    views = sampled_views(table.views, current)
    return TableSection(
        id=table.id,
        name=table.name,
        permission=table.permission,
        field_count=len(table.fields),
        fields=tuple(
            FieldSample(id=f.id, name=f.name, type=f.type, primary=f.primary) for f in fields
        ),
        view_count=len(table.views),
        views=tuple(ViewSample(id=v.facts.id, name=v.facts.name, type=v.facts.type) for v in views),
        record_count=counts.tables.get(table.id, UNCOUNTED),
    )


def sampled_fields(
    fields: tuple[FieldFacts, ...], view: VisibleView | None
) -> tuple[FieldFacts, ...]:
    """The primary field first, then the current view's in its order, then table order."""
    by_id = {field.id: field for field in fields}
    primary = (field.id for field in fields if field.primary)
    shown = view.field_ids if view is not None else ()
    order = dict.fromkeys((*primary, *shown, *by_id))
    return tuple(by_id[id] for id in order if id in by_id)[:SAMPLED_FIELDS]


def sampled_views(
    views: tuple[VisibleView, ...], current: VisibleView | None
) -> tuple[VisibleView, ...]:
    """The current view first, then table order."""
    first = [view for view in views if current is not None and view.facts.id == current.facts.id]
    rest = [view for view in views if view not in first]
    return tuple(first + rest)[:SAMPLED_VIEWS]


def build_relations(scope: VisibleScope) -> Section[tuple[Relation, ...]]:
    """The link fields that lead from one of the tables to another of them."""
    by_id = {table.id: table for table in scope.tables}
    found = tuple(_relations(scope.tables, by_id))
    if found:
        return included(found, "links among the tables")
    return Section(found, "absent", "no links among the tables" if by_id else NOT_ASKED)


def _relations(
    tables: Iterable[VisibleTable], by_id: dict[str, VisibleTable]
) -> Iterable[Relation]:
    for table in tables:
        for field in table.fields:
            target = by_id.get(field.linked_table_id or "")
            if target is None:
                continue
            other = {f.id for f in target.fields}
            yield Relation(
                table_id=table.id,
                field_id=field.id,
                field_name=field.name,
                linked_table_id=target.id,
                linked_table_name=target.name,
                linked_field_id=field.linked_field_id if field.linked_field_id in other else None,
                cardinality=field.cardinality,
            )
